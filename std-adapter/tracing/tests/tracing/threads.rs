//! Threads that end, that wait, and whose session ends before them.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::mpsc::channel;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf_session::Session;
use tracebuf_tracing::TraceSubscriber;
use tracing::field::Empty;
use tracing::{Dispatch, Span};

use crate::KINDS;
use crate::trace::{Trace, scratch};
use crate::transport::Does;

#[test]
fn a_session_that_ends_in_the_midst_of_spans_hurts_nobody() {
    let session = Session::builder().start().expect("a session");
    let dispatch = Dispatch::new(TraceSubscriber::new(session.recorder()));
    tracing::dispatcher::with_default(&dispatch, || {
        let _span = tracing::info_span!("cut", field = 1).entered();
        session.stop().expect("a stop");
        tracing::info!("late");
    });
    // A later one on the same thread is not confused by what was never exited.
    let session = Session::builder().start().expect("a session");
    let dispatch = Dispatch::new(TraceSubscriber::new(session.recorder()));
    tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("new").in_scope(|| ()));
    let path = scratch("cut.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).story(), "+new -");
}

/// Is entered when its thread ends.
struct EnteredLast(Span);

impl Drop for EnteredLast {
    fn drop(&mut self) {
        self.0.in_scope(|| ());
    }
}

#[test]
fn a_span_entered_while_its_thread_s_locals_are_destroyed_leaves_nothing_open_and_is_told_to_be_lost() {
    thread_local!(static LAST: RefCell<Option<EnteredLast>> = const { RefCell::new(None) });
    let session = Session::builder().start().expect("a session");
    let dispatch = Dispatch::new(TraceSubscriber::new(session.recorder()));
    let work = move || {
        tracing::dispatcher::with_default(&dispatch, || {
            // What is made last is destroyed first: what remembers entered spans, then this one, then the writer.
            tracing::info!("writer");
            LAST.set(Some(EnteredLast(tracing::info_span!("last"))));
            tracing::info_span!("first").in_scope(|| ());
        });
    };
    std::thread::spawn(work).join().expect("a thread");
    let path = scratch("last.pftrace");
    let mut stopped = session.stop().expect("a stop");
    // On Windows the order is different, and may be one in which everything is there.
    let lost = stopped.summary().buffers[0].trace_writer_packet_loss;
    assert!(lost == 2 || cfg!(windows) && lost == 0, "its begin and its end: {lost}");
    stopped.write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.events(1), trace.events(2), "{}", trace.story());
}

#[test]
fn a_thread_that_waits_for_room_for_a_span_s_fields_keeps_the_drain_thread_from_nothing() {
    for (kind, make) in KINDS {
        // Two chunks; dropped only when all is well, because a drain thread that waits would keep the test from ending.
        let session = Session::builder().shared_memory(4096).exhaustion(Exhaustion::Stall).start();
        let session = ManuallyDrop::new(session.expect("a session"));
        let dispatch = make(session.recorder(), true);
        let span = |text: &str| tracing::info_span!("shared", text, late = Empty);
        let [shared, other] =
            tracing::dispatcher::with_default(&dispatch, || [span(&"x".repeat(20_000)), span("")]);
        let use_it = move |late: &str| {
            for _ in 0..32 {
                shared.follows_from(&other);
            }
            shared.in_scope(|| {
                shared.record("late", late);
            });
        };
        let on_drain_thread = use_it.clone();
        let transport = Does::new(move |_| {
            on_drain_thread("");
            true
        });
        session.attach(transport).expect("an answer");
        let (tell, told) = channel();
        std::thread::spawn(move || {
            (0..20).for_each(|_| use_it(&"y".repeat(20_000)));
            let _ = tell.send(());
        });
        // On a busy machine the hundreds of waits take 30 s and more.
        told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        ManuallyDrop::into_inner(session).stop().expect("a stop");
    }
}
