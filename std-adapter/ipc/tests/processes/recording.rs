//! What programs record: whole, in order, in the buffers that it is for.

use std::sync::Barrier;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{BufferConfig, LongTrace, PacketWriter, Session};

use crate::harness::{
    PATIENCE, Producer, Service, assert_all_of_two_threads, numbers, socket_of_parent, stalling, waits_for,
    write, write_by_two_threads,
};
use crate::trace::{Trace, message, number, scratch};

#[test]
#[ignore = "run by other tests, as a process"]
fn two_threads_that_wait() {
    let Some(socket) = socket_of_parent() else { return };
    let connection = stalling(socket);
    write_by_two_threads(&connection.recorder());
}

#[test]
fn what_programs_record_comes_out_whole_and_in_order_and_nothing_is_lost_of_those_who_wait() {
    let name = "stress";
    let socket = ProducerSocket::builder().shared_memory(64 << 10);
    let service = Service::start(name, Session::builder().ring(256 << 20), socket);
    let producers: Vec<_> = (0..3).map(|_| service.run("recording::two_threads_that_wait")).collect();
    // Scrapes while they write.
    for _ in 0..50 {
        service.session.flush(PATIENCE).expect("they answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pids: Vec<_> = producers.iter().map(Producer::pid).collect();
    producers.into_iter().for_each(Producer::assert_ends_well);
    let stopped = service.stop();
    let summary = stopped.summary();
    assert_eq!((summary.flushes.failed, summary.chunks_discarded, summary.patches_discarded), (0, 0, 0));
    let trace = write(stopped, name);
    assert_eq!(trace.losses(), 0);
    let all = numbers(&trace);
    assert_all_of_two_threads(&all, &pids);
}

#[test]
fn data_sources_and_long_packets_go_where_they_belong() {
    let (name, path) = ("sources", scratch("sources-long.pftrace"));
    let session = Session::builder()
        .buffer(BufferConfig::ring(1 << 20))
        .buffer(BufferConfig::discard(4 << 20))
        .data_source("rare", 1)
        .long_trace(LongTrace::to(&path));
    let service = Service::start(name, session, ProducerSocket::builder());
    let connection = Connection::builder().process_name("a producer").open(&service.path).expect("a service");
    assert!(connection.recorder_of("none").is_none());
    let rare = connection.recorder_of("rare").expect("a source");
    rare.packet_writer().expect("a writer").packet(|packet| {
        packet.message(900).string(1, &"x".repeat(500_000));
    });
    connection.recorder().instant("often");
    rare.instant("seldom");
    connection.flush(PATIENCE).expect("it answers");
    let buffers: Vec<_> = service.session.summary().expect("a summary").buffers;
    assert!(buffers[0].chunks_written == 1 && buffers[1].chunks_written > 200, "{buffers:?}");
    service.session.stop().expect("it runs");
    let trace = Trace::read(&path);
    assert!(trace.contains("often") && trace.contains("seldom") && trace.contains("a producer"));
    assert!(trace.packets().any(|packet| message(packet, 900).is_some_and(|text| text.len() > 500_000)));
    assert_eq!(trace.losses(), 0);
}

#[test]
fn events_for_which_there_is_no_room_are_counted_in_the_service() {
    let service = Service::start("drops", Session::builder(), ProducerSocket::builder().shared_memory(4096));
    let connection = Connection::builder().open(&service.path).expect("a service");
    let recorder = connection.recorder();
    // Two chunks, both with open packets of others: nobody takes those back.
    let [mut one, mut other] = [0, 1].map(|_| recorder.packet_writer().expect("a writer"));
    one.packet(|packet| {
        packet.varint(8, 1);
        other.packet(|packet| {
            packet.varint(8, 1);
            (0..10).for_each(|_| recorder.instant("lost"));
            connection.flush(PATIENCE).expect("it answers");
            let lost = || service.session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
            waits_for("the losses are told", || lost() >= 10);
            assert_eq!(lost(), 10);
        });
    });
    connection.flush(PATIENCE).expect("it answers");
    let trace = write(service.stop(), "drops");
    let whole = |trace: &Trace| trace.packets().filter(|packet| number(packet, 8) == Some(1)).count();
    assert_eq!((trace.contains("lost"), whole(&trace)), (false, 2));
}

// Small ones take nothing back.
#[cfg(not(tracebuf_small))]
#[test]
fn chunks_that_idle_writers_hold_go_to_the_service_when_others_need_them() {
    let service = Service::start("idle", Session::builder(), ProducerSocket::builder().shared_memory(4096));
    // However late the service comes.
    let connection =
        Connection::builder().exhaustion(Exhaustion::Stall).open(&service.path).expect("a service");
    let recorder = connection.recorder();
    // Two chunks, each with one packet, and room for more.
    let mut idle = [0, 1].map(|_| recorder.packet_writer().expect("a writer"));
    let write_one = |writer: &mut PacketWriter| {
        writer.packet(|packet| {
            packet.varint(8, 1);
        });
    };
    idle.iter_mut().for_each(write_one);
    (0..10).for_each(|_| recorder.instant("event"));
    // They go on in new chunks.
    idle.iter_mut().for_each(write_one);
    connection.flush(PATIENCE).expect("it answers");
    let lost = service.session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
    let trace = write(service.stop(), "idle");
    let whole = trace.packets().filter(|packet| number(packet, 8) == Some(1)).count();
    assert_eq!((lost, trace.losses(), trace.events(3), whole), (0, 0, 10, 4));
}

#[test]
fn threads_that_flush_at_once_are_all_answered() {
    let service = Service::start("flushes", Session::builder(), ProducerSocket::builder());
    let connection = Connection::builder().open(&service.path).expect("a service");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (connection, recorder) = (&connection, connection.recorder());
            scope.spawn(move || {
                for _ in 0..500 {
                    recorder.instant("event");
                    assert!(connection.flush(PATIENCE).is_ok(), "thread {thread}");
                }
            });
        }
    });
    let trace = write(service.stop(), "flushes");
    assert_eq!((trace.events(3), trace.losses()), (2000, 0));
}

/// For each sequence of a trace, its packets, and how many of those no reader can make sense of because the state they
/// need was overwritten.
fn unreadable(trace: &Trace) -> Vec<(u64, u64)> {
    let sequences = TraceReport::of(&trace.bytes).sequences.into_values();
    sequences.filter(|sequence| sequence.packets > 0).map(|one| (one.packets, one.unreadable)).collect()
}

#[test]
fn of_a_ring_that_many_programs_share_most_can_be_read() {
    const PROGRAMS: usize = 8;
    let name = "shared-ring";
    // What they have not sent yet gets into the ring late, so it should be little.
    let socket = ProducerSocket::builder().shared_memory(32 << 10);
    let service = Service::start(name, Session::builder().ring(1 << 20), socket);
    let connections: Vec<_> = (0..PROGRAMS).map(|_| stalling(&service.path)).collect();
    let barrier = Barrier::new(PROGRAMS);
    std::thread::scope(|scope| {
        for (number, connection) in connections.iter().enumerate() {
            let (recorder, barrier) = (connection.recorder(), &barrier);
            scope.spawn(move || {
                // In turn, some more than others: 18 rings in all.
                for _ in 0..100 {
                    barrier.wait();
                    (0..240 * (number + 1)).for_each(|_| drop(recorder.enter("work")));
                }
            });
        }
    });
    service.session.flush(PATIENCE).expect("all answer");
    let trace = write(service.stop(), name);
    let sequences = unreadable(&trace);
    let all = |of: fn(&(u64, u64)) -> u64| sequences.iter().map(of).sum::<u64>();
    let share = all(|one| one.1) as f64 / all(|one| one.0) as f64;
    assert!(share < 0.3, "{share:.2} of the packets cannot be read: {sequences:?}");
    assert!(sequences.len() >= PROGRAMS);
    assert!(sequences.iter().all(|(packets, unreadable)| unreadable < packets), "{sequences:?}");
}
