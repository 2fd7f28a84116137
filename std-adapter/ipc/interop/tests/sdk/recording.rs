//! What programs record: all of it, whole, in order.

use std::collections::BTreeSet;

use tracebuf_interop::{DEFAULT_CATEGORIES, SOURCE, packet_len};
use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::harness::{PATIENCE, Program, Service, waits_for, write};
use crate::reading::{Sequence, assert_same, sequences_of, threads_of};
use crate::trace::{Trace, scratch};

/// Events of three threads, and packets of two.
pub(crate) const COMMANDS: [&str; 2] = ["events 3 0 500 20", "packets 2 200 30000"];

/// What must be on when a program records that.
pub(crate) const ALL: [&str; 4] = ["work", "net.send", "net.receive", SOURCE];

/// Records the events and the packets.
pub(crate) fn service(test: &str) -> Service {
    let socket = PerfettoSocket::builder().categories(DEFAULT_CATEGORIES).data_source(SOURCE, []);
    Service::roomy(test, socket, &ALL)
}

/// Checks for what those commands record, with nothing lost.
pub(crate) fn assert_all_is_there(trace: &Trace, pid: u64) {
    let threads = threads_of(trace, pid);
    assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    for sequence in threads.values() {
        sequence.assert_is(0..500, &DEFAULT_CATEGORIES);
    }
    assert_packets(trace, pid, &[0, 1], 200, 30_000);
    assert!(sequences_of(trace, pid).values().all(|sequence| sequence.losses == 0));
}

/// Checks for all packets of these threads, and that they are whole.
pub(crate) fn assert_packets(trace: &Trace, pid: u64, threads: &[u64], count: u64, max: usize) {
    let sequences = sequences_of(trace, pid);
    let of = |thread: u64| {
        let is = |sequence: &&Sequence| sequence.packets.iter().any(|packet| packet.thread == thread);
        sequences.values().find(is).unwrap_or_else(|| panic!("packets of thread {thread}"))
    };
    for sequence in threads.iter().map(|thread| of(*thread)) {
        sequence.assert_packets_are_whole();
        let told = |number: u64, len: usize| format!("{number}: {len} bytes");
        let found: Vec<_> = sequence.packets.iter().map(|one| told(one.number, one.text.len())).collect();
        let expected = (0..count).map(|number| told(number, packet_len(number, max)));
        assert_same(found.iter().map(String::as_str), expected);
    }
}

#[test]
fn all_that_a_program_records_is_there_whole_and_in_order() {
    let service = service("all");
    let (session, since) = (service.session.clone(), service.session.now());
    let mut program = service.run(&[]);
    let pid = program.pid();
    COMMANDS.iter().for_each(|command| program.does(command));
    let until = session.now();
    program.ends();
    let trace = service.stop();
    assert_all_is_there(&trace, pid);
    threads_of(&trace, pid).values().for_each(|sequence| sequence.assert_times(since, until));
}

#[test]
fn summaries_tell_of_the_program_and_of_nothing_lost() {
    let service = service("summary");
    let mut program = service.run(&[]);
    program.does("events 2 0 100 20");
    service.session.flush(PATIENCE).expect("it answers");
    let summary = service.session.summary().expect("a summary");
    let of_program = |pid: i32| u64::try_from(pid) == Ok(program.pid());
    let mut identities = summary.producers.iter().filter_map(|producer| producer.identity);
    let identity = identities.find(|identity| of_program(identity.pid)).expect("the program");
    // SAFETY: no condition.
    assert_eq!(identity.uid, unsafe { libc::getuid() });
    assert!(summary.sequences.iter().filter(|sequence| of_program(sequence.pid)).count() >= 2);
    assert!(summary.producers.iter().all(|producer| producer.has_answered), "{:?}", summary.producers);
    assert!((summary.chunks_discarded, summary.patches_discarded) == (0, 0), "{summary:?}");
    program.ends();
    waits_for("the program is gone", || {
        let producers = service.session.summary().expect("a summary").producers;
        !producers.iter().any(|producer| producer.identity == Some(identity))
    });
}

/// Packets of many chunks, through shared memory with room for two of them: the threads wait for it.
#[test]
fn packets_over_many_chunks_are_whole_through_little_shared_memory() {
    let socket = PerfettoSocket::builder().data_source(SOURCE, []).shared_memory(64 << 10);
    let service = Service::start("many-chunks", Session::builder().ring(64 << 20), socket, &[SOURCE]);
    let mut program = service.run(&["--policy", "abort"]);
    let pid = program.pid();
    program.does("packets 2 1000 30000");
    program.ends();
    let trace = service.stop();
    assert_packets(&trace, pid, &[0, 1], 1000, 30_000);
    assert_eq!(trace.losses(), 0);
}

/// It goes through in parts, while the program waits.
#[test]
fn one_packet_larger_than_shared_memory_is_whole() {
    let socket = PerfettoSocket::builder().data_source(SOURCE, []).shared_memory(32 << 10);
    let service = Service::start("large", Session::builder().ring(16 << 20), socket, &[SOURCE]);
    let mut program = service.run(&["--policy", "abort"]);
    let pid = program.pid();
    program.does("packets 1 20 300000");
    program.ends();
    let trace = service.stop();
    assert_packets(&trace, pid, &[0], 20, 300_000);
}

#[test]
fn a_flush_brings_what_threads_have_in_chunks_that_they_still_write() {
    let service = service("flush");
    let mut program = service.run(&[]);
    let pid = program.pid();
    for step in 0..5 {
        // By the thread that reads commands, which keeps its chunk.
        program.does(&format!("events 0 {} {} 0", step * 40, step * 40 + 40));
        program.does("packets 0 3 500");
        service.session.flush(PATIENCE).expect("it answers");
        let path = scratch(&format!("flush-{step}.pftrace"));
        service.session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
        let trace = Trace::read(&path);
        threads_of(&trace, pid)[&0].assert_is(0..step * 40 + 40, &DEFAULT_CATEGORIES);
        let asked = trace.contains(&format!("asked to flush {step}"));
        assert!(asked, "what the program writes when it is asked to flush is there");
    }
    assert!(program.was_asked("flushes").parse::<u64>().expect("a number") >= 5);
    assert_eq!(service.stop().losses(), 0);
}

#[test]
fn snapshots_are_taken_while_a_program_records() {
    let service = service("snapshots");
    let mut program = service.run(&[]);
    let pid = program.pid();
    program.does("endless 2 10");
    for step in 0..10 {
        let (thread, number) = program.hears_flushed();
        let path = scratch(&format!("snapshot-{step}.pftrace"));
        service.session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
        let threads = threads_of(&Trace::read(&path), pid);
        // A snapshot may lose a packet over two chunks that a thread is within, and what follows it.
        threads.values().for_each(|one| {
            one.assert_begins_with_rounds(&DEFAULT_CATEGORIES);
        });
        let events = threads[&thread].assert_begins_with_rounds(&DEFAULT_CATEGORIES) as u64;
        assert!(events >= (number + 1) * 8, "{events} events, {number} rounds");
    }
    program.kill();
    waits_for("the program is gone", || service.session.summary().expect("a summary").producers.len() == 1);
    service.stop();
}

#[test]
fn several_programs_record_at_once() {
    let service = service("several");
    let mut programs: Vec<Program> = (0..4).map(|_| service.run(&[])).collect();
    let pids: BTreeSet<_> = programs.iter().map(Program::pid).collect();
    COMMANDS.iter().for_each(|command| {
        programs.iter_mut().for_each(|program| program.tell(command));
    });
    for program in &mut programs {
        program.hears("events");
        program.hears("packets");
    }
    service.session.flush(PATIENCE).expect("they answer");
    programs.into_iter().for_each(Program::ends);
    let trace = service.stop();
    pids.iter().for_each(|pid| assert_all_is_there(&trace, *pid));
}

#[test]
fn a_program_is_there_before_the_service_and_comes_by_itself() {
    let mut program = Program::start("early", &[]);
    let service = service("early");
    service.wait_for(&mut program);
    program.does("events 1 0 50 20");
    let (pid, stopped) = (program.pid(), service.session.stop().expect("it runs"));
    let trace = write(stopped, "early");
    threads_of(&trace, pid)[&0].assert_is(0..50, &DEFAULT_CATEGORIES);
}
