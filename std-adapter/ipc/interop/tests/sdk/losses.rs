//! What does not fit is reported, and what is there can be read.

use std::collections::HashMap;

use tracebuf::buffer::SequenceInfo;
use tracebuf_interop::{DEFAULT_CATEGORIES, SOURCE, round};
use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::harness::{PATIENCE, Service, waits_for, write};
use crate::reading::{sequences_of, threads_of};

/// Rounds of each of two threads, some 30 rings in all.
const ROUNDS: u64 = 10_000;

#[test]
fn a_ring_that_is_lapped_many_times_holds_the_newest_and_can_be_read() {
    let socket = PerfettoSocket::builder().shared_memory(256 << 10);
    let service = Service::start("lapped", Session::builder().ring(512 << 10), socket, &DEFAULT_CATEGORIES);
    let mut program = service.run(&[]);
    let pid = program.pid();
    program.does(&format!("events 2 0 {ROUNDS} 20"));
    let summary = service.session.summary().expect("a summary");
    assert!(summary.buffers[0].bytes_overwritten > 10 * (512 << 10), "{:?}", summary.buffers);
    let stopped = service.session.stop().expect("it runs");
    let summary = stopped.summary();
    let trace = write(stopped, "lapped");
    let threads = threads_of(&trace, pid);
    assert_eq!(threads.len(), 2);
    for (thread, sequence) in &threads {
        let expected: Vec<_> =
            (0..ROUNDS).flat_map(|number| round(*thread, number, &DEFAULT_CATEGORIES)).collect();
        let places: HashMap<&str, usize> = expected.iter().map(String::as_str).zip(0..).collect();
        let (mut next, mut is_told, mut read) = (0, false, 0);
        for event in &sequence.events {
            is_told |= event.after_loss;
            let Some(line) = &event.line else { continue };
            let place = places[line.as_str()];
            assert!(place >= next, "thread {thread}: {line} comes again, or too late");
            assert!(place == next || is_told, "thread {thread}: nobody tells what is missing before {line}");
            (next, is_told, read) = (place + 1, false, read + 1);
        }
        let is =
            |one: &&SequenceInfo| u64::from(one.producer_id) << 16 | u64::from(one.writer_id) == sequence.id;
        let evicted = summary.sequences.iter().find(is).expect("it is counted").packets_evicted;
        let missing = (expected.len() - sequence.events.len()) as u64;
        // Names of tracks and the like are packets too.
        assert!((missing..missing * 21 / 20).contains(&evicted), "{missing} missing, {evicted} evicted");
        assert_eq!(next, expected.len(), "thread {thread}: up to the last one");
        let share = read as f64 / sequence.events.len() as f64;
        assert!(share > 0.7, "thread {thread}: {share:.2} of the events can be read");
    }
}

#[test]
fn packets_for_which_there_is_no_room_in_shared_memory_are_told() {
    let socket = PerfettoSocket::builder().data_source(SOURCE, []).shared_memory(32 << 10);
    let service = Service::start("dropped", Session::builder().ring(64 << 20), socket, &[SOURCE]);
    let mut program = service.run(&["--policy", "drop"]);
    let pid = program.pid();
    program.does("packets 3 2000 20000");
    service.session.flush(PATIENCE).expect("it answers");
    let lost = || service.session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
    waits_for("the losses are counted", || lost() > 0);
    let trace = service.stop();
    let mut missing = 0;
    for sequence in sequences_of(&trace, pid).into_values() {
        sequence.assert_packets_are_whole();
        for two in sequence.packets.windows(2).filter(|two| two[0].thread == two[1].thread) {
            assert!(two[1].number > two[0].number);
            let between = two[1].number - two[0].number - 1;
            assert!(between == 0 || two[1].after_loss, "{} behind {}", two[1].number, two[0].number);
            missing += between;
        }
    }
    assert!(missing > 0 && trace.losses() > 0);
}
