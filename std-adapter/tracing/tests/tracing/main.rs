//! The layer and the subscriber for `tracing`: what becomes of spans and events.

mod doors;
mod event_names;
mod flows;
mod lifetimes;
mod logs;
mod losses;
mod nested_lives;
mod order;
mod origins;
mod relays;
mod reload;
mod slow;
mod threads;
mod values;

use std::pin::pin;
use std::task::{Context, Waker};

use trace::{Field, Trace, fields, message, number, scratch};
use tracebuf_session::{Recorder, Session};
use tracebuf_testing::{trace, transport};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::field::Empty;
use tracing::{Dispatch, Instrument, Level, Span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

type FrontEnd = (&'static str, fn(Recorder, bool) -> Dispatch);

/// The subscriber and the layer, with flows or without.
const KINDS: [FrontEnd; 2] = [
    ("subscriber", |recorder, flows| Dispatch::new(TraceSubscriber::new(recorder).flows(flows))),
    ("layer", |recorder, flows| {
        Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(recorder).flows(flows)))
    }),
];

/// Runs under the subscriber and under the layer, and looks at what each has recorded.
fn both(name: &str, flows: bool, work: impl Fn(&Dispatch), check: impl Fn(&Trace)) {
    for (kind, make) in KINDS {
        let session = Session::builder().fast_clock().start().expect("a session");
        let dispatch = make(session.recorder(), flows);
        tracing::dispatcher::with_default(&dispatch, || work(&dispatch));
        let path = scratch(&format!("{name}-{kind}.pftrace"));
        session.stop().expect("a stop").write_to(&path).expect("a file");
        let trace = Trace::read(&path);
        assert_eq!(trace.events(1), trace.events(2), "{kind}: as many ends as begins");
        assert_eq!(trace.losses(), 0, "{kind}");
        check(&trace);
    }
}

const ANNOTATION: u32 = 4;
const FLOW: u32 = 47;

/// How many fields with this number each event of a type has.
fn counts(trace: &Trace, kind: u64, wanted: u32) -> Vec<usize> {
    let is = |field: &Field<'_>| matches!(field, Field::Number(n, _) | Field::Bytes(n, _) if *n == wanted);
    let events = trace.packets().filter_map(|packet| message(packet, 11));
    let of_kind = events.filter(|event| number(event, 9) == Some(kind));
    of_kind.map(|event| fields(event).iter().filter(|field| is(field)).count()).collect()
}

#[test]
fn spans_are_slices_and_events_are_instants_named_by_their_messages() {
    let work = |_: &Dispatch| {
        tracing::info_span!("outer").in_scope(|| {
            tracing::warn!("found {} of {}", 1, 2);
            tracing::debug_span!("inner").in_scope(|| ());
        });
        tracing::error!(code = 7);
    };
    both("spans", false, work, |trace| {
        let story = trace.story();
        assert_eq!(story, "+outer !found 1 of 2 +inner - - !tracing");
        for level in ["INFO", "WARN", "DEBUG", "ERROR"] {
            assert!(trace.contains(level), "{level}");
        }
    });
}

#[test]
fn fields_are_annotations_also_those_recorded_later() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("request", path = "/index", size = 7u64, late = Empty);
        span.in_scope(|| tracing::info!(answer = ?Some(42), "event"));
        span.record("late", -5);
        span.in_scope(|| ());
    };
    both("fields", false, work, |trace| {
        for text in ["path", "/index", "size", "answer", "Some(42)", "late"] {
            assert!(trace.contains(text), "{text}");
        }
        assert_eq!(counts(trace, 1, ANNOTATION), [2, 3]);
    });
}

#[test]
fn fields_recorded_within_a_span_are_annotations_of_its_slice_s_end() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("request", path = "/index", status = Empty);
        span.in_scope(|| {
            Span::current().record("status", 200);
        });
        span.in_scope(|| ());
        let first = tracing::info_span!("first", value = Empty).entered();
        let second = tracing::info_span!("second", value = Empty).entered();
        first.record("value", 1);
        second.record("value", 2);
        // The second one's slice ends with it, and begins again.
        drop(first);
        drop(second);
    };
    both("within", false, work, |trace| {
        assert_eq!(counts(trace, 1, ANNOTATION), [1, 2, 0, 0, 1]);
        let ends = trace.packets().filter_map(|packet| message(packet, 11));
        let ends = ends.filter(|event| number(event, 9) == Some(2));
        let values = ends.map(|end| number(message(end, ANNOTATION)?, 4)).collect::<Vec<_>>();
        assert_eq!(values, [Some(200), None, Some(2), Some(1), None]);
    });
}

#[test]
fn a_future_s_polls_and_its_drop_are_slices() {
    let work = |_: &Dispatch| {
        let task = async { tracing::info!("polled") }.instrument(tracing::info_span!("task"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(task).poll(&mut context).is_ready());
    };
    both("future", false, work, |trace| {
        assert_eq!(trace.story(), "+task !polled - +task -");
    });
}

#[test]
fn filters_keep_out_what_they_should() {
    let session = Session::builder().start().expect("a session");
    let talk = || {
        tracing::info_span!("shown").in_scope(|| tracing::debug!("hidden"));
        tracing::debug_span!("hidden").in_scope(|| tracing::info!("shown"));
    };
    let own = TraceSubscriber::new(session.recorder()).max_level(Level::INFO);
    tracing::subscriber::with_default(own, talk);
    let layer = TraceLayer::new(session.recorder()).with_filter(LevelFilter::INFO);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), talk);
    let targets =
        TraceSubscriber::new(session.recorder()).targets("elsewhere=trace".parse().expect("targets"));
    tracing::subscriber::with_default(targets, talk);
    let path = scratch("filters.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).story(), "+shown - !shown +shown - !shown");
}
