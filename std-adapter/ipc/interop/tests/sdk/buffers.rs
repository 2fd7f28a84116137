//! Which buffer programs' data goes to, and how much of it at a time.

use std::time::Duration;

use tracebuf_interop::{DEFAULT_CATEGORIES, SOURCE};
use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::{BufferConfig, LongTrace, Session};

use crate::harness::{PATIENCE, Program, Service, waits_for, write};
use crate::reading::{Sequence, sequences_of, threads_of};
use crate::recording::{ALL, COMMANDS, assert_all_is_there, assert_packets};
use crate::trace::{Trace, scratch};

#[test]
fn each_data_source_goes_to_the_buffer_that_is_for_it() {
    let session = Session::builder()
        .buffer(BufferConfig::ring(32 << 20))
        .buffer(BufferConfig::discard(32 << 20))
        .data_source(SOURCE, 1);
    let socket = PerfettoSocket::builder().categories(DEFAULT_CATEGORIES).data_source(SOURCE, []);
    let service = Service::start("buffers", session, socket, &ALL);
    let mut program = service.run(&[]);
    let pid = program.pid();
    COMMANDS.iter().for_each(|command| program.does(command));
    program.ends();
    let stopped = service.session.stop().expect("it runs");
    let buffers = &stopped.summary().buffers;
    // 4,000 events of each of three threads, some 50 bytes long; 200 packets of each of two threads, some 16,000 bytes
    // long.
    assert!((100..500).contains(&buffers[0].chunks_written), "{buffers:?}");
    assert!((1000..3000).contains(&buffers[1].chunks_written), "{buffers:?}");
    assert_all_is_there(&write(stopped, "buffers"), pid);
}

#[test]
fn a_long_trace_has_what_a_ring_has_no_room_for() {
    let path = scratch("long.pftrace");
    let long_trace = LongTrace::to(&path).period(Duration::from_millis(20));
    let session = Session::builder().ring(8 << 20).long_trace(long_trace);
    let socket = PerfettoSocket::builder().categories(DEFAULT_CATEGORIES).data_source(SOURCE, []);
    let service = Service::start("long", session, socket, &ALL);
    let mut program = service.run(&[]);
    let pid = program.pid();
    for step in 0..10 {
        program.does("packets 1 100 30000");
        program.does(&format!("events 0 {} {} 20", step * 100, step * 100 + 100));
        // New data in the ring is less than it has room for.
        let bytes = || service.session.long_trace().expect("a long trace").bytes;
        waits_for("it is in the file", || bytes() > (step + 1) * 1_500_000);
    }
    program.ends();
    service.session.stop().expect("it runs");
    let trace = Trace::read(&path);
    threads_of(&trace, pid)[&0].assert_is(0..1000, &DEFAULT_CATEGORIES);
    let sequences = sequences_of(&trace, pid);
    sequences.values().for_each(Sequence::assert_packets_are_whole);
    let packets = sequences.values().flat_map(|sequence| &sequence.packets);
    assert_eq!(packets.filter(|packet| packet.thread == 0).count(), 1000);
    assert_eq!(trace.losses(), 0);
}

#[test]
fn many_threads_record_at_once() {
    let socket = PerfettoSocket::builder().categories(DEFAULT_CATEGORIES);
    let service = Service::start("threads", Session::builder().ring(64 << 20), socket, &DEFAULT_CATEGORIES);
    let mut program = service.run(&[]);
    let pid = program.pid();
    program.does("events 60 0 100 5");
    program.ends();
    let trace = service.stop();
    let threads = threads_of(&trace, pid);
    assert_eq!(threads.len(), 60);
    threads.values().for_each(|sequence| sequence.assert_is(0..100, &DEFAULT_CATEGORIES));
}

#[test]
fn programs_that_wait_for_little_memory_lose_nothing_while_a_service_asks_all_the_time() {
    let socket = PerfettoSocket::builder().data_source(SOURCE, []).shared_memory(64 << 10);
    let service = Service::start("asked", Session::builder().ring(128 << 20), socket, &[SOURCE]);
    let mut programs: Vec<Program> = (0..3).map(|_| service.run(&["--policy", "abort"])).collect();
    let pids: Vec<_> = programs.iter().map(Program::pid).collect();
    programs.iter_mut().for_each(|program| program.tell("packets 3 300 12000"));
    for _ in 0..50 {
        service.session.flush(PATIENCE).expect("they answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    for program in &mut programs {
        program.hears("packets");
    }
    programs.into_iter().for_each(Program::ends);
    let trace = service.stop();
    pids.iter().for_each(|pid| assert_packets(&trace, *pid, &[0, 1, 2], 300, 12_000));
    assert_eq!(trace.losses(), 0);
}
