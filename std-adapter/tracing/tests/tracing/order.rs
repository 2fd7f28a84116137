//! Whose slice a span's exit ends, in whatever order spans are exited.

use std::sync::Arc;

use tracebuf_session::{BufferConfig, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::trace::{Trace, scratch};
use crate::{ANNOTATION, FLOW, both, counts};

#[test]
fn spans_exited_out_of_order_end_their_own_slices() {
    let work = |_: &Dispatch| {
        let first = tracing::info_span!("first").entered();
        let second = tracing::info_span!("second").entered();
        drop(first);
        tracing::info!("between");
        drop(second);
    };
    both("order", false, work, |trace| {
        assert_eq!(trace.story(), "+first +second - - +second !between -");
    });
}

#[test]
fn with_flows_spans_of_one_place_exited_out_of_order_end_their_own_slices() {
    let work = |_: &Dispatch| {
        let [x, y] = [|| tracing::info_span!("x").entered(), || tracing::info_span!("y").entered()];
        let (first, y, second) = (x(), y(), x());
        drop(first);
        tracing::info!("between");
        drop(second);
        drop(y);
    };
    both("one-callsite", true, work, |trace| {
        assert_eq!(trace.story(), "+x +y +x - - - +y +x !between - -");
    });
}

#[test]
fn spans_exited_out_of_order_end_their_own_slices_in_each_of_two_sessions() {
    for flows in [false, true] {
        let sessions = [(); 2].map(|()| Session::builder().start().expect("a session"));
        let [first, second] =
            sessions.each_ref().map(|session| TraceLayer::new(session.recorder()).flows(flows));
        let subscriber = tracing_subscriber::registry().with(first).with(second);
        tracing::subscriber::with_default(subscriber, || {
            let _outer = tracing::info_span!("outer").entered();
            let x = tracing::info_span!("x", n = 1, late = Empty);
            x.record("late", 2);
            let x = x.entered();
            let y = tracing::info_span!("y").entered();
            drop(x);
            drop(y);
            tracing::info!("after");
        });
        for (session, name) in sessions.iter().zip(["two-first.pftrace", "two-second.pftrace"]) {
            let path = scratch(name);
            session.stop().expect("a stop").write_to(&path).expect("a file");
            let trace = Trace::read(&path);
            assert_eq!(trace.story(), "+outer +x +y - - +y - !after -", "{name}");
            assert_eq!(counts(&trace, 1, ANNOTATION), [0, 2, 0, 0], "{name}");
            assert_eq!(counts(&trace, 1, FLOW), [usize::from(flows); 4], "{name}");
        }
    }
}

/// A session of two buffers, the second for a layer that takes errors or everything. Returns what is in the trace:
/// first what the first buffer holds.
fn in_two_buffers(name: &str, filter: LevelFilter, work: impl FnOnce()) -> String {
    let session = Session::builder().buffer(BufferConfig::ring(1 << 16)).buffer(BufferConfig::ring(1 << 16));
    let session = session.data_source("other", 1).start().expect("a session");
    let other = TraceLayer::new(session.recorder_of("other").expect("a source")).with_filter(filter);
    let subscriber = tracing_subscriber::registry().with(TraceLayer::new(session.recorder())).with(other);
    tracing::subscriber::with_default(subscriber, work);
    let path = scratch(name);
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.losses(), 0);
    trace.story()
}

/// A thread has one track, whichever buffers its slices are in.
#[test]
fn spans_exited_out_of_order_end_those_above_them_in_all_buffers() {
    let story = in_two_buffers("two-buffers-order.pftrace", LevelFilter::ERROR, || {
        let first = tracing::info_span!("first").entered();
        let second = tracing::error_span!("second", n = 1).entered();
        drop(first);
        tracing::error!("between");
        drop(second);
    });
    assert_eq!(story, "+first +second - - +second !between - +second - +second !between -");
}

#[test]
fn spans_in_two_buffers_exited_in_order_have_a_slice_in_each() {
    let story = in_two_buffers("two-buffers.pftrace", LevelFilter::INFO, || {
        let _first = tracing::info_span!("first").entered();
        let again = tracing::info_span!("second");
        again.in_scope(|| again.in_scope(|| ()));
    });
    let each = "+first +second +second - - -";
    assert_eq!(story, format!("{each} {each}"));
}

#[test]
fn a_span_is_no_subscriber_s_that_has_not_entered_it() {
    let session = Session::builder().buffer(BufferConfig::ring(1 << 16)).buffer(BufferConfig::ring(1 << 16));
    let session = session.data_source("other", 1).start().expect("a session");
    let other = session.recorder_of("other").expect("a source");
    let [one, two] =
        [session.recorder(), other].map(|recorder| Dispatch::new(TraceSubscriber::new(recorder)));
    let enter = |dispatch: &Dispatch| {
        tracing::dispatcher::with_default(dispatch, || tracing::info_span!("same").entered())
    };
    let (_of_one, of_two) = (enter(&one), enter(&two));
    assert!(one.current_span().id().is_some() && two.current_span().id().is_some());
    drop(of_two);
    assert!(one.current_span().id().is_some() && two.current_span().id().is_none());
}

#[test]
fn subscribers_that_record_to_one_place_do_not_take_each_other_s_spans_for_their_own() {
    let kinds: [fn() -> EnteredSpan; 2] =
        [|| tracing::info_span!("span").entered(), || tracing::info_span!("span", n = 1).entered()];
    for enter in kinds {
        let session = Session::builder().start().expect("a session");
        let [one, two] = [(); 2].map(|()| Dispatch::new(TraceSubscriber::new(session.recorder())));
        let of_one = tracing::dispatcher::with_default(&one, enter);
        assert!(one.current_span().id().is_some() && two.current_span().id().is_none());
        let of_two = tracing::dispatcher::with_default(&two, enter);
        drop(of_one);
        assert!(one.current_span().id().is_none() && two.current_span().id().is_some());
        session.recorder().instant("between");
        drop(of_two);
        let path = scratch("one-place.pftrace");
        session.stop().expect("a stop").write_to(&path).expect("a file");
        let trace = Trace::read(&path);
        assert_eq!(trace.story(), "+span +span - - +span !between -");
        assert_eq!(trace.losses(), 0);
    }
}

#[test]
fn handles_of_spans_that_are_cloned_and_dropped_anywhere_leave_nothing_open() {
    let work = |_: &Dispatch| {
        let span = Arc::new(tracing::info_span!("shared", field = 1));
        let clones: Vec<_> = (0..10).map(|_| (*span).clone()).collect();
        clones[3].in_scope(|| clones[7].in_scope(|| ()));
        drop(span);
        clones[9].in_scope(|| ());
    };
    both("handles", false, work, |trace| assert_eq!(trace.story(), "+shared +shared - - +shared -"));
}
