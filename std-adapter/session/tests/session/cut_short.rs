//! Sessions that end, or of which a snapshot is taken, while a thread is in the middle of a long event.

use std::path::Path;
use std::sync::mpsc::channel;

use tracebuf_session::{LongTrace, Session, SessionBuilder};
use tracebuf_testing::trace::{Trace, folder, scratch};

/// Gets a trace out of a session while a thread that has recorded instants is within the details of an event that spans
/// more than two chunks. The last instants lie in the chunk in which this event begins, and the first of them began in
/// the chunk before. Returns the trace, and what `get` returns.
fn within_an_event<T>(
    name: &str,
    build: impl FnOnce(SessionBuilder, LongTrace) -> SessionBuilder,
    get: impl FnOnce(Session, &Path) -> T,
) -> (Trace, T) {
    let path = folder(name).join("x.pftrace");
    let session = build(Session::builder(), LongTrace::to(&path)).start().expect("a session");
    let recorder = session.recorder();
    let (within, is_within) = channel();
    let (end, ended) = channel::<()>();
    let got = std::thread::scope(|scope| {
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
        let got = get(session, &path);
        drop(end);
        got
    });
    (Trace::read(&path), got)
}

/// Ends the session, and returns the number of packets that count as given up.
fn stop(session: Session, path: &Path) -> u64 {
    let mut stopped = session.stop().expect("a stop");
    if stopped.file.is_none() {
        stopped.write_to(path).expect("a file");
    }
    stopped.summary().buffers[0].trace_writer_packet_loss
}

#[test]
fn what_a_thread_has_recorded_is_there_though_it_is_within_a_long_event_which_is_told_to_be_lost() {
    let builds: [fn(SessionBuilder, LongTrace) -> SessionBuilder; 2] =
        [|builder, _| builder, SessionBuilder::long_trace];
    for (name, build) in ["stopped", "long trace"].into_iter().zip(builds) {
        let (trace, given_up) = within_an_event(name, build, stop);
        assert_eq!((trace.events(3), given_up), (30, 1), "{name}");
    }
}

#[test]
fn it_is_in_a_snapshot_too_for_which_the_event_is_not_lost() {
    let snapshot = |session: Session, path: &Path| {
        session.snapshot().expect("a snapshot").write_to(path).expect("a file");
        session
    };
    let (trace, session) = within_an_event("snapshot", |builder, _| builder, snapshot);
    assert_eq!((trace.events(3), trace.losses()), (30, 0));
    let path = scratch("after the snapshot.pftrace");
    assert_eq!(stop(session, &path), 0);
    let trace = Trace::read(&path);
    assert_eq!((trace.events(3), trace.losses()), (31, 0));
}
