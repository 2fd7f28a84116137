//! Perfetto's own service, in a process of its own, and a client that makes traces with it, driven by standard input;
//! each line is answered by one:
//!
//! ```text
//! start N OPTION=VALUE...    a tracing session of this number, with the data source `track_event`, until all programs
//!                            that are there record
//! flush N                    until the service has what programs have recorded; fails if it has not
//! stop N TRACE               into a file
//! ```
//!
//! Options: `buffers` of the session, of which the last is recorded into; `flush` and `clear`, the milliseconds after
//! which programs are asked to flush and to write their state again; `memory`, how many KiB of it are shared; `only`,
//! patterns of categories with commas between, without which each library decides; `source`, another data source.
//!
//! usage: perfetto_service [--consume]
//!
//! With `--consume` it is the client alone, of whichever service listens.
//!
//! It ends with its standard input, because the process that controls it is then gone. The SDK's variables say where it
//! listens, and trace clients find it by them.

mod config;

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::io::{BufRead, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use config::config;
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::tracing_session::TracingSession;

// In src/service.cc.
unsafe extern "C" {
    /// Returns if it cannot listen, otherwise never. The paths are zero-terminated.
    fn tracebuf_interop_serve(producers: *const c_char, consumers: *const c_char, listens: extern "C" fn());
}

/// How long programs have to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// It ends then at the latest: threads that wait for its memory would go on waiting as long as it is there.
const LIFE: Duration = Duration::from_secs(120);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--consume") {
        listens();
    } else {
        std::thread::spawn(serve);
    }
    std::thread::spawn(|| {
        std::thread::sleep(LIFE);
        eprintln!("nobody has ended Perfetto's service in {LIFE:?}");
        std::process::exit(1);
    });
    obey();
    std::process::exit(0);
}

fn serve() {
    let paths = ["PERFETTO_PRODUCER_SOCK_NAME", "PERFETTO_CONSUMER_SOCK_NAME"]
        .map(|name| std::env::var(name).expect("a path where it is to listen"));
    let [producers, consumers] = paths.map(|path| {
        // Left by one that was killed.
        let _ = std::fs::remove_file(&path);
        CString::new(path).expect("no zero in it")
    });
    // SAFETY: valid zero-terminated strings.
    unsafe { tracebuf_interop_serve(producers.as_ptr(), consumers.as_ptr(), listens) };
    eprintln!("Perfetto's service cannot listen");
    std::process::exit(1);
}

extern "C" fn listens() {
    println!("listens");
}

fn obey() {
    let (mut sessions, mut is_known) = (HashMap::new(), false);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<_> = line.split_whitespace().collect();
        let session = words[1];
        match words[0] {
            "start" => {
                if !std::mem::replace(&mut is_known, true) {
                    // The service is listening by now: without one, the SDK tries again only after a second.
                    Producer::init(ProducerInitArgsBuilder::new().backends(Backends::SYSTEM).build());
                }
                sessions.insert(session.to_owned(), start(&words[2..]));
            }
            "flush" => flush(sessions.get_mut(session).expect("it was started")),
            "stop" => stop(sessions.remove(session).expect("it was started"), words[2]),
            other => panic!("{other}"),
        }
        println!("{}", words[0]);
    }
}

fn start(options: &[&str]) -> TracingSession {
    let mut session = TracingSession::system().expect("a session");
    session.setup(&config(options));
    session.start_blocking();
    session
}

fn flush(session: &mut TracingSession) {
    let (says, said) = mpsc::channel();
    session.flush_async(PATIENCE, move |has_all| says.send(has_all).expect("it is waited for"));
    assert!(said.recv_timeout(2 * PATIENCE).expect("an answer"), "a program does not flush");
}

fn stop(mut session: TracingSession, path: &str) {
    session.stop_blocking();
    let (bytes, all) = mpsc::channel();
    session.read_trace_blocking(move |part, _| bytes.send(part.to_vec()).expect("it is waited for"));
    let mut file = std::fs::File::create(path).expect("a file");
    all.try_iter().for_each(|part| file.write_all(&part).expect("there is room"));
}
