//! Spans that were made and entered before a relay was connected.

use std::time::Duration;

use tracebuf_analysis::Trace;
use tracebuf_analysis::trace::Event;
use tracebuf_session::{Recorder, Relay, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::{Dispatch, dispatcher, info_span};
use tracing_subscriber::prelude::*;

use crate::trace::scratch;

type FrontEnd = (&'static str, fn(Recorder) -> Dispatch);

/// The subscriber and the layer, with lives.
const KINDS: [FrontEnd; 2] = [
    ("subscriber", |recorder| Dispatch::new(TraceSubscriber::new(recorder).lifetimes(true))),
    ("layer", |recorder| {
        Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(recorder).lifetimes(true)))
    }),
];

fn each(name: &str, work: impl Fn(&Relay, &Session), check: impl Fn(&Trace)) {
    for (kind, make) in KINDS {
        let relay = Relay::new();
        let session = Session::builder().start().expect("a session");
        dispatcher::with_default(&make(relay.recorder()), || work(&relay, &session));
        let path = scratch(&format!("late-{name}-{kind}.pftrace"));
        session.stop().expect("a stop").write_to(&path).expect("a file");
        let trace = Trace::open(&path).expect("a trace");
        assert_eq!(trace.faults(), [], "{kind}");
        assert!(trace.slices().all(|slice| slice.end().is_some()), "{kind}");
        check(&trace);
    }
}

const PAUSE: Duration = Duration::from_millis(5);

#[test]
fn spans_entered_before_a_session_is_connected_begin_when_they_did_with_what_comes_within_them() {
    each(
        "open",
        |relay, session| {
            let outer = info_span!("outer", id = 7).entered();
            let plain = info_span!("plain").entered();
            std::thread::sleep(PAUSE);
            relay.connect(&session.recorder()).expect("it runs");
            info_span!("within").in_scope(|| std::thread::sleep(PAUSE));
            tracing::info!("event");
            drop(plain);
            drop(outer);
            info_span!("after").in_scope(|| ());
        },
        |trace| {
            // On the thread's track, and their lives.
            let all = |name: &str| trace.slices().filter(|slice| slice.name() == name).collect::<Vec<_>>();
            for slice in all("outer") {
                assert!(slice.duration() >= Some(PAUSE * 2), "{:?}", slice.duration());
                assert_eq!(slice.argument("id").and_then(|value| value.as_i64()), Some(7));
            }
            let of_thread = |name: &str| {
                let mut slices = all(name).into_iter().filter(|slice| slice.track().tid().is_some());
                let slice = slices.next().expect("it is there");
                assert!(slices.next().is_none(), "once");
                slice
            };
            let (within, plain) = (of_thread("within"), of_thread("plain"));
            let around: Vec<_> = within.ancestors().map(|slice| slice.name()).collect();
            assert_eq!(around, ["plain", "outer"]);
            assert_eq!(plain.parent(), Some(of_thread("outer")));
            assert_eq!(trace.instants().next().expect("the event").parent(), Some(plain));
            assert_eq!(of_thread("after").parent(), None);
            // Lives lie within each other, too, and each is there once.
            let life = all("within").into_iter().find(|slice| slice.track().tid().is_none()).expect("a life");
            let above: Vec<_> = life.track().parents().collect();
            assert!(
                above.starts_with(&["plain", "outer"]) || above.ends_with(&["outer", "plain"]),
                "{above:?}"
            );
            assert_eq!([all("outer").len(), all("plain").len(), all("within").len()], [2, 2, 2]);
        },
    );
}

#[test]
fn what_has_ended_before_a_session_is_connected_is_in_none_and_ends_nothing() {
    each(
        "ended",
        |relay, session| {
            info_span!("before", x = 1).in_scope(|| info_span!("in it").in_scope(|| ()));
            let (made, entered) = (info_span!("made", x = 2), info_span!("entered"));
            let _guard = entered.enter();
            info_span!("in it").in_scope(|| ());
            relay.connect(&session.recorder()).expect("it runs");
            let own = session.recorder();
            own.slice("around", || drop(made));
        },
        |trace| {
            let names: Vec<_> = trace.slices().map(|slice| slice.name()).collect();
            assert!(!names.contains(&"before") && !names.contains(&"in it"), "{names:?}");
            assert!(names.contains(&"around"), "{names:?}");
        },
    );
}

#[test]
fn a_span_waits_through_threads_and_is_found_where_it_is_entered_next() {
    each(
        "elsewhere",
        |relay, session| {
            let span = info_span!("task", x = 1);
            std::thread::sleep(PAUSE);
            relay.connect(&session.recorder()).expect("it runs");
            let dispatch = dispatcher::get_default(Dispatch::clone);
            std::thread::scope(|scope| {
                scope.spawn(|| dispatcher::with_default(&dispatch, || span.in_scope(|| ())));
            });
            drop(span);
        },
        |trace| {
            let slices: Vec<_> = trace.slices().filter(|slice| slice.name() == "task").collect();
            let (lives, polls): (Vec<&Event<'_>>, Vec<&Event<'_>>) =
                slices.iter().partition(|slice| slice.track().tid().is_none());
            assert_eq!((lives.len(), polls.len()), (1, 1));
            assert!(lives[0].duration() >= Some(PAUSE) && polls[0].duration() < Some(PAUSE));
            assert_eq!(lives[0].argument("x").and_then(|value| value.as_i64()), Some(1));
        },
    );
}
