//! Very many programs, and what the service takes for itself.

use std::path::Path;

use tracebuf::proto::fields::{config, ipc, trace_packet};
use tracebuf::proto::reader::{message, number};
use tracebuf_service::wire::ProtoBuilder;

use super::Service;
use super::program::Program;
use crate::trace::Trace;

/// The data source of programs that write.
const WRITES: &str = "example.writes";

/// A session with a buffer of so many KiB for them.
pub(super) fn wanted(kib: u64) -> ProtoBuilder {
    let buffer = ProtoBuilder::new().number(config::buffer_config::SIZE_KB, kib);
    let source = ProtoBuilder::new().bytes(ipc::data_source_config::NAME, WRITES.as_bytes());
    let source = ProtoBuilder::new().message(config::trace_config_data_source::CONFIG, &source);
    ProtoBuilder::new()
        .message(config::trace_config::BUFFERS, &buffer)
        .message(config::trace_config::DATA_SOURCES, &source)
}

/// Programs that connect, and write so many packets each for each of so many sessions: number 0, 1, 2 and so on.
pub(super) fn write(socket: &Path, sessions: usize, programs: u64, packets: u64) {
    std::thread::scope(|scope| {
        for program in 0..programs {
            scope.spawn(move || {
                let mut one = Program::connect(socket, WRITES).expect("it listens");
                let mut started = one.started(sessions).expect("a session");
                let record = started.record(|writers, commit| {
                    for number in 0..packets {
                        for writer in &mut *writers {
                            let mut packet = writer.packet();
                            packet.varint(8, 1 << 40 | number); // timestamp
                            let mut inner = packet.message(900); // for_testing
                            inner.varint(2, number);
                            inner.varint(3, program);
                            // Of many lengths, some longer than a chunk.
                            let len = if number % 500 == 499 { 9000 } else { number as usize % 50 };
                            inner.bytes(1, &vec![program as u8; len]);
                        }
                        if number % 16 == 0 {
                            commit();
                        }
                    }
                });
                record.expect("the service takes it");
            });
        }
    });
}

/// Each of the programs has each of its packets there, once, in their order, and as it was.
pub(super) fn assert_whole(trace: &Trace, programs: u64, packets: u64) {
    let mut next = vec![0; programs as usize];
    for packet in trace.packets() {
        let inner = message(packet, 900).expect("well-formed");
        let Some(program) = number(inner, 3) else { continue };
        let place = &mut next[program as usize];
        assert_eq!(number(inner, 2), Some(*place), "of {program}");
        let len = if *place % 500 == 499 { 9000 } else { *place as usize % 50 };
        assert!(message(inner, 1).is_some_and(|text| text == vec![program as u8; len]), "of {program}");
        assert!(number(packet, trace_packet::TRUSTED_PID) == Some(std::process::id().into()));
        *place += 1;
    }
    assert!(next.iter().all(|count| *count == packets), "{next:?}");
    assert_eq!(trace.losses(), 0);
}

/// KiB of memory that only this process has. That of its own program, which may have been written just now, and of what
/// it shares with others is not counted.
fn private(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a process");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
#[ignore = "takes more than five seconds"]
fn of_a_thousand_programs_a_hundred_write_at_a_time_nothing_is_lost_and_memory_is_what_the_buffers_have() {
    const KIB: u64 = 64 << 10;
    const MORE: u64 = 10_000;
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).expect("it may have those");
    let service = Service::start("serve-many");
    let socket = service.folder.join("p");
    let connect = |_| Program::connect(&socket, "example.silent").expect("it listens");
    let mut silent: Vec<Program> = (0..900).map(connect).collect();
    silent.iter_mut().for_each(|one| one.sync().expect("it answers"));
    let mut consumer = service.consumer();
    let enabled = consumer.enable(&wanted(KIB), None);
    write(&socket, 1, 100, 2000);
    let mut is_there = || silent.iter_mut().all(|one| one.sync().is_ok());
    assert!(is_there(), "the others are connected still");
    consumer.disable(enabled);
    let after = private(service.child.id());
    let path = service.folder.join("trace.pftrace");
    let trace = consumer.read(&path);
    assert_whole(&trace, 100, 2000);
    // The buffer's pages that were never written to take nothing.
    let held = KIB.min(path.metadata().expect("a file").len() * 5 / 4 / 1024);
    trace.assert_ends_with_stats();
    let read = private(service.child.id());
    println!("private KiB: {after} with {held} in the buffer, {read} once it was read");
    assert!(after <= held + MORE && read <= held + MORE, "{after} {read}");
    drop(consumer);
    assert!(crate::wait_until(30, || private(service.child.id()) <= MORE), "{}", private(service.child.id()));
}
