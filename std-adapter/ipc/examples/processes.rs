//! Several programs, one trace: a service, and three worker processes that record into its session.
//!
//! `cargo run --release -p tracebuf-ipc --example processes` writes `processes.pftrace`, or the file given after `--`.
//! The workers are this program again, as `processes work SOCKET NAME`; one is killed halfway. They need Linux.
#![cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(unused))]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

#[cfg(any(target_os = "linux", target_os = "android"))]
use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{LogMessage, LogPriority, Session, Track, Unit, this_process};

// Within the process: counters with one name beside processes are one counter, whichever program counts.
static PROCESS: LazyLock<Track<'static>> = LazyLock::new(this_process);
static PRIMES: LazyLock<Track<'static>> =
    LazyLock::new(|| Track::counter("primes", Unit::Count).within(&PROCESS));

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn main() {
    eprintln!("programs record into another one's session on Linux alone");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", socket, name] => work(socket.as_ref(), name),
        [] => serve("processes.pftrace".as_ref()),
        [trace] => serve(trace.as_ref()),
        _ => Err("usage: processes [TRACE]".into()),
    }
}

/// A worker: finds prime numbers for a second, on two threads, and records it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn work(socket: &Path, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let service = Connection::builder().process_name(name).open(socket)?;
    let recorder = service.recorder();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut from = 1_000_000_u64;
                while started.elapsed() < Duration::from_secs(1) && service.is_connected() {
                    let _slice = recorder.enter("search");
                    let is_prime = |number: &u64| {
                        (2..).take_while(|d| d * d <= *number).all(|d| !number.is_multiple_of(d))
                    };
                    let primes = (from..from + 200).filter(is_prime).count();
                    recorder.instant_with("found", |event| event.arg("from", from));
                    recorder.count(&PRIMES, primes as i64);
                    from += 200;
                }
            });
        }
    });
    Ok(())
}

/// The service: a ring, a socket, and at the end a file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn serve(trace: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("tracebuf-processes-{}", std::process::id()));
    let session = Arc::new(Session::builder().ring(16 << 20).process_name("service").start()?);
    let socket = ProducerSocket::builder().bind(&session, &path)?;
    let worker = |name| Command::new(std::env::current_exe()?).arg("work").arg(&path).arg(name).spawn();
    let mut workers = ["one", "two", "three"].into_iter().map(worker).collect::<Result<Vec<_>, _>>()?;

    std::thread::sleep(Duration::from_millis(500));
    session
        .recorder()
        .log("kill", LogMessage::new(LogPriority::Warn, format_args!("kills process {}", workers[1].id())));
    workers[1].kill()?;
    let all = workers.iter_mut().map(|worker| worker.wait()).collect::<Result<Vec<_>, _>>()?;
    println!("{} workers of {} came to their end", all.iter().filter(|end| end.success()).count(), all.len());

    drop(socket);
    let mut stopped = session.stop()?;
    let written = stopped.write_to(trace)?;
    let mut producers: Vec<u16> =
        stopped.summary().sequences.iter().map(|writer| writer.producer_id).collect();
    producers.dedup();
    println!("{}: {} packets of {} processes", trace.display(), written.packets, producers.len());
    Ok(())
}
