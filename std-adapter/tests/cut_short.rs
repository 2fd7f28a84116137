//! Sessions that end while a thread is in the midst of a long event.

#[path = "support/trace.rs"]
mod trace;

use std::sync::mpsc::channel;

use trace::{Trace, folder, message, number};
use tracebuf_std::session::{LongTrace, Session, SessionBuilder};

/// Ends a session while a thread that has recorded instants is within the details of an event that goes on over more
/// chunks than two. The last instants lie in the chunk that this one begins in, and the first of them began in the one
/// before. Gives the number of instants in the trace, and of the packets that count as given up.
fn ended_within_an_event(
    name: &str,
    build: impl FnOnce(SessionBuilder, LongTrace) -> SessionBuilder,
) -> (usize, u64) {
    let path = folder(name).join("x.pftrace");
    let session = build(Session::builder(), LongTrace::to(&path)).start().expect("a session");
    let recorder = session.recorder();
    let (within, is_within) = channel();
    let (end, ended) = channel::<()>();
    let given_up = std::thread::scope(|scope| {
        scope.spawn(move || {
            recorder.with(|tracer| {
                let track = tracer.track();
                (0..30)
                    .for_each(|_| track.instant_with("short", |event| event.arg("text", &*"x".repeat(100))));
                track.instant_with("long", |event| {
                    event.arg("text", &*"x".repeat(6000));
                    within.send(()).expect("the test waits");
                    let _ = ended.recv();
                    event
                });
            });
        });
        is_within.recv().expect("a thread");
        let mut stopped = session.stop().expect("a stop");
        if stopped.file.is_none() {
            stopped.write_to(&path).expect("a file");
        }
        drop(end);
        stopped.summary().buffers[0].trace_writer_packet_loss
    });
    let is_instant = |packet: &&[u8]| message(packet, 11).is_some_and(|event| number(event, 9) == Some(3));
    (Trace::read(&path).packets().filter(is_instant).count(), given_up)
}

#[test]
fn what_a_thread_has_recorded_is_there_though_it_is_within_a_long_event_which_is_told_to_be_lost() {
    assert_eq!(ended_within_an_event("stopped", |builder, _| builder), (30, 1));
    assert_eq!(ended_within_an_event("long trace", SessionBuilder::long_trace), (30, 1));
}
