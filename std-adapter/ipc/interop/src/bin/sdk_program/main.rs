//! A program that records with Perfetto's own SDK, driven by standard input; each line is answered by one:
//!
//! ```text
//! wait on NAME...                 until these categories are enabled, or the data source of its own is
//! wait off                        until nothing is
//! events THREADS FIRST END PACE   rounds of track events; 0 threads is the one that reads these lines
//! packets THREADS COUNT MAX       packets of the data source of its own, with texts of up to MAX bytes
//! small COUNT RATE                packets of 15 bytes, that many bytes a second; with 0, as fast as they are taken
//! endless THREADS PACE            rounds for ever, and a line of each thread whenever its rounds are in the service
//! state                           what the service has asked for
//! end
//! ```
//!
//! Track events are dropped when shared memory is full, and the SDK has no other policy for them; so a thread waits,
//! after every PACE rounds, until the service has them all. With a PACE of 0 it does not.
//!
//! usage: sdk_program [--policy drop|stall|abort] [--shared-memory KIB] [--reference TRACE]
//!
//! With `--reference` it records into a session of Perfetto's own service, within the program, which writes that file.

mod events;
mod packets;
mod reference;

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use perfetto_sdk::data_source::DataSourceBufferExhaustedPolicy as Policy;
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use tracebuf_interop::{CATEGORIES, SOURCE};

/// For what takes some seconds at most: the SDK tries again after one second.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let (mut policy, mut shared_memory, mut reference) = (Policy::StallAndDrop, 0, None);
    let mut arguments = std::env::args().skip(1);
    while let (Some(option), Some(value)) = (arguments.next(), arguments.next()) {
        match (option.as_str(), value.as_str()) {
            ("--policy", "drop") => policy = Policy::Drop,
            ("--policy", "stall") => policy = Policy::StallAndDrop,
            ("--policy", "abort") => policy = Policy::StallAndAbort,
            ("--shared-memory", kib) => shared_memory = kib.parse().expect("a number"),
            ("--reference", path) => reference = Some(PathBuf::from(path)),
            other => panic!("{other:?}"),
        }
    }
    let backend = if reference.is_some() { Backends::IN_PROCESS } else { Backends::SYSTEM };
    let arguments = ProducerInitArgsBuilder::new().backends(backend).shmem_size_hint_kb(shared_memory);
    Producer::init(arguments.build());
    packets::register(policy);
    events::register();
    let session = reference.as_ref().map(|_| reference::start());
    println!("ready");
    obey();
    if let (Some(session), Some(path)) = (session, reference) {
        reference::stop(session, &path);
    }
}

fn obey() {
    // The end of the lines is an end too: the controlling process is gone.
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "wait" => wait(words[1] == "on", &words[2..]),
            "events" => events::record(number(1), number(2)..number(3), number(4)),
            "packets" => packets::write(number(1), number(2), number(3) as usize),
            "small" => packets::write_small(number(1), number(2)),
            "endless" => events::record_endlessly(number(1), number(2)),
            "state" => {
                println!("state {}", packets::asked());
                continue;
            }
            "end" => return,
            other => panic!("{other}"),
        }
        println!("{}", words[0]);
    }
}

fn wait(on: bool, names: &[&str]) {
    let is_enabled =
        |name: &str| if name == SOURCE { packets::is_enabled() } else { events::is_enabled(name) };
    if on {
        // They are started one after the other.
        waits_for("a service", || names.iter().all(|name| is_enabled(name)));
    } else {
        let names = || CATEGORIES.into_iter().chain([SOURCE]);
        waits_for("the service's end", || !names().any(is_enabled));
    }
}

/// Does this on some threads, or on this one if `threads` is 0. All start and end at once, and wait for each other when
/// they call the function: a thread that begins after another's end could get its sequence.
fn on_threads(threads: u64, work: impl Fn(u64, &dyn Fn()) + Sync) {
    if threads == 0 {
        return work(0, &|| {});
    }
    let all = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (work, all) = (&work, &all);
            scope.spawn(move || {
                all.wait();
                work(thread, &|| _ = all.wait());
                all.wait();
            });
        }
    });
}

fn waits_for(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
