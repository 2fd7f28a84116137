//! What taking in costs the service, beside a thread that does nothing but be woken for each page, and copy it.
//!
//! `TRACEBUF_SERVICE=/usr/bin/traced` measures another service in the same way.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebuf::proto::fields::{config, ipc};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_testing::cpu;

use super::Service;
use super::program::Program;
use crate::trace::folder;

const MIB: usize = 1 << 20;
const RING: usize = 64 * MIB;
/// Bytes of events for each lap that is measured.
const LAP: usize = 128 * MIB;
/// Bytes a second of a program that does not record all the time.
const SLOW: usize = 13_000_000;
/// Bytes of an event, as a packet: its tag, its length, and 13 of its own.
const EVENT: usize = 15;

/// Seconds for a MiB of a thread that is woken for each page, and copies it into a ring.
fn bare_reader() -> f64 {
    const PAGE: usize = 4096;
    let (mut here, mut there) = UnixStream::pair().expect("sockets");
    let reader = std::thread::spawn(move || {
        let (page, mut ring, mut at) = (vec![1_u8; PAGE], vec![1_u8; RING], 0);
        let begun = cpu::ran(Path::new("/proc/thread-self"));
        while here.read(&mut [0; 64]).is_ok_and(|len| len > 0) {
            ring[at..][..PAGE].copy_from_slice(&page);
            at = (at + PAGE) % RING;
        }
        std::hint::black_box(&ring);
        cpu::ran(Path::new("/proc/thread-self")) - begun
    });
    for _ in 0..LAP / PAGE {
        there.write_all(&[0; 64]).expect("it reads");
        // About what it takes to fill a page.
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_micros(20) {}
    }
    drop(there);
    reader.join().expect("no panic") / (LAP / MIB) as f64
}

/// Seconds of the service for a MiB of events, once the ring's pages have been touched: at full speed, and at [`SLOW`].
fn of_service(mut command: Command, folder: &Path) -> [f64; 2] {
    command
        .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
        .stderr(Stdio::null());
    let service =
        Service { child: command.spawn().expect("the service"), folder: folder.to_owned() }.listening();
    let mut program = Program::connect(&folder.join("p"), "example.events").expect("it listens");
    program.sync().expect("it answers");
    let buffer = ProtoBuilder::new().number(config::buffer_config::SIZE_KB, (RING / 1024) as u64);
    let source = ProtoBuilder::new().bytes(ipc::data_source_config::NAME, b"example.events");
    let source = ProtoBuilder::new().message(config::trace_config_data_source::CONFIG, &source);
    let wanted = ProtoBuilder::new()
        .message(config::trace_config::BUFFERS, &buffer)
        .message(config::trace_config::DATA_SOURCES, &source);
    let mut consumer = service.consumer();
    consumer.enable(&wanted, None);
    let mut started = program.started(1).expect("it starts");
    let mut lap = |bytes: usize, rate: Option<usize>| {
        let begun = std::time::Instant::now();
        let record = started.record(|writers, commit| {
            for number in 0..bytes / EVENT {
                {
                    let mut packet = writers[0].packet();
                    packet.varint(8, 1 << 41 | number as u64); // timestamp
                    packet.message(900).varint(2, 7); // for_testing
                }
                // As soon as a chunk is complete, about.
                if number % 64 == 0 {
                    commit();
                    let due = rate.map(|rate| Duration::from_secs_f64((number * EVENT) as f64 / rate as f64));
                    while due.is_some_and(|due| begun.elapsed() < due) {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            }
        });
        record.expect("it takes all");
    };
    lap(RING + RING / 4, None);
    let costs = [(LAP, None), (2 * SLOW, Some(SLOW))].map(|(bytes, rate)| {
        let before = cpu::of_process(service.child.id());
        lap(bytes, rate);
        (cpu::of_process(service.child.id()) - before) / (bytes as f64 / MIB as f64)
    });
    drop(consumer);
    costs
}

#[test]
#[ignore = "measures"]
fn taking_in_costs_no_more_than_to_be_woken_for_each_page_and_to_copy_it() {
    let folder = folder("serve-cost");
    let serve = || crate::tracebuf(&["serve", "--no-machine"]);
    // What else the machine does meanwhile costs one of them more now and then: it is not so three times.
    let is_cheap = (0..3).any(|_| {
        let (bare, [ours, slow]) = (bare_reader(), of_service(serve(), &folder));
        println!(
            "a MiB: {:.3} ms of the service, {:.3} ms at 13 MB/s; {:.3} ms of a bare reader",
            1e3 * ours,
            1e3 * slow,
            1e3 * bare
        );
        ours <= bare
    });
    if let Some(other) = std::env::var_os("TRACEBUF_SERVICE") {
        for _ in 0..3 {
            let [ours, other] = [serve(), Command::new(&other)].map(|command| of_service(command, &folder));
            for (what, at) in [("full speed", 0), ("13 MB/s", 1)] {
                let (ours, other) = (ours[at], other[at]);
                let share = ours / other;
                println!(
                    "{what}: {:.3} ms, the other service {:.3} ms: {share:.3} of it",
                    1e3 * ours,
                    1e3 * other
                );
            }
        }
    }
    assert!(is_cheap);
}
