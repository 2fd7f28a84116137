//! The whole life of a span as a slice on a track of its own.

use std::collections::BTreeMap;

use tracebuf_session::{Recorder, Relay, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::field::Empty;
use tracing::{Dispatch, Span};
use tracing_subscriber::prelude::*;

use crate::trace::{Field, Trace, fields, message, number, scratch};
use crate::{ANNOTATION, FLOW};

/// The subscriber and the layer, with flows or without.
pub(crate) fn make(kind: &str, recorder: Recorder, flows: bool) -> Dispatch {
    match kind {
        "layer" => {
            let layer = TraceLayer::new(recorder).lifetimes(true).flows(flows);
            Dispatch::new(tracing_subscriber::registry().with(layer))
        }
        _ => Dispatch::new(TraceSubscriber::new(recorder).lifetimes(true).flows(flows)),
    }
}

fn both(name: &str, flows: bool, work: impl Fn(&Dispatch), check: impl Fn(&Trace)) {
    for kind in ["subscriber", "layer"] {
        let session = Session::builder().fast_clock().start().expect("a session");
        let dispatch = make(kind, session.recorder(), flows);
        tracing::dispatcher::with_default(&dispatch, || work(&dispatch));
        check(&trace_of(&session, &format!("{name}-{kind}")));
    }
}

/// What a session has recorded.
pub(crate) fn written(session: &Session, name: &str) -> Trace {
    let path = scratch(&format!("lifetimes-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    Trace::read(&path)
}

/// The same, with nothing lost.
pub(crate) fn trace_of(session: &Session, name: &str) -> Trace {
    let trace = written(session, name);
    assert_eq!(trace.losses(), 0, "{name}");
    trace
}

/// What one event is: 1 for a begin, 2 for an end; and what it says.
#[derive(Debug)]
struct Event {
    kind: u64,
    /// Which thread it belongs to.
    sequence: Option<u64>,
    annotations: usize,
    flows: Vec<u64>,
}

/// The events on each track, by its name; threads' own tracks have none.
fn lives(trace: &Trace) -> BTreeMap<(String, u64), Vec<Event>> {
    let mut names = BTreeMap::new();
    let mut lives = BTreeMap::<_, Vec<_>>::new();
    for packet in trace.packets() {
        if let Some(track) = message(packet, 60) {
            let name = message(track, 2).unwrap_or_default();
            names.insert(number(track, 1), String::from_utf8_lossy(name).into_owned());
        }
        let Some(event) = message(packet, 11) else { continue };
        let all = fields(event);
        let annotations = all.iter().filter(|field| matches!(field, Field::Bytes(ANNOTATION, _))).count();
        let flow = |field: &Field<'_>| match field {
            Field::Number(FLOW, flow) => Some(*flow),
            _ => None,
        };
        let event = Event {
            kind: number(event, 9).expect("a type"),
            sequence: number(packet, 10),
            annotations,
            flows: all.iter().filter_map(flow).collect(),
        };
        let own = message(packet, 11).and_then(|event| number(event, 11));
        lives.entry(own).or_default().push(event);
    }
    let named = |(track, events): (Option<u64>, Vec<Event>)| {
        let name = if track.is_some() { names[&track].clone() } else { String::new() };
        ((name, track.unwrap_or(0)), events)
    };
    lives.into_iter().map(named).collect()
}

fn kinds(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn requests_that_overlap_are_slices_from_their_making_to_their_end_whoever_ends_them() {
    let work = |dispatch: &Dispatch| {
        let request = |path| tracing::info_span!("request", path, status = Empty);
        let [first, second] = ["/first", "/second"].map(request);
        let never_entered = tracing::debug_span!("never entered");
        first.in_scope(|| second.in_scope(|| ()));
        second.record("status", 200);
        first.in_scope(|| ());
        let again = second.clone();
        drop(second);
        tracing::info!("the second is not over");
        let dispatch = dispatch.clone();
        let end = move || tracing::dispatcher::with_default(&dispatch, || drop((first, again)));
        std::thread::spawn(end).join().expect("no panic");
        drop(never_entered);
    };
    both("overlap", false, work, |trace| {
        let lives = lives(trace);
        let named = |name: &str| lives.iter().filter(|((of, _), _)| of == name).collect::<Vec<_>>();
        let requests = named("request");
        assert_eq!(requests.len(), 2, "{lives:?}");
        let mut said = Vec::new();
        for (_, events) in requests {
            // The sequences of threads come one after the other.
            let of = |kind| events.iter().find(|event| event.kind == kind).expect("one");
            assert_eq!(events.len(), 2, "{events:?}");
            said.push((of(1).annotations, of(2).annotations));
            // By the thread that dropped the last handle.
            assert_ne!(of(1).sequence, of(2).sequence, "{events:?}");
        }
        said.sort_unstable();
        assert_eq!(said, [(1, 0), (1, 1)], "fields recorded later are at the end");
        assert_eq!(kinds(named("never entered")[0].1), [1, 2]);
        // And those of the threads, as usual.
        assert_eq!(kinds(named("")[0].1), [1, 1, 2, 2, 1, 2, 3]);
    });
}

#[test]
fn a_flow_leads_from_a_span_s_life_to_its_slices_on_whatever_thread() {
    let work = |dispatch: &Dispatch| {
        let tasks = [(); 2].map(|()| tracing::info_span!("task"));
        tasks.iter().for_each(|task| task.in_scope(|| ()));
        let dispatch = dispatch.clone();
        let poll = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                tasks.iter().for_each(|task| task.in_scope(|| ()))
            });
        };
        std::thread::spawn(poll).join().expect("no panic");
    };
    both("flow", true, work, |trace| {
        let mut slices = BTreeMap::<_, Vec<_>>::new();
        for ((track, _), events) in lives(trace) {
            for event in events.iter().filter(|event| event.kind == 1) {
                assert_eq!(event.flows.len(), 1, "{event:?}");
                slices.entry(event.flows[0]).or_default().push(track.clone());
            }
        }
        let each = ["", "", "task"];
        slices.values_mut().for_each(|slices| slices.sort_unstable());
        assert_eq!(slices.values().collect::<Vec<_>>(), [&each; 2], "a flow of its own for each task");
    });
    both("no flow", false, work, |trace| {
        assert!(lives(trace).values().flatten().all(|event| event.flows.is_empty()));
    });
}

#[test]
fn a_life_ends_in_the_session_where_it_has_begun_and_without_a_begin_there_is_no_end() {
    for kind in ["subscriber", "layer"] {
        let sessions = [(); 2].map(|()| Session::builder().start().expect("a session"));
        let relay = Relay::new();
        let spans = tracing::dispatcher::with_default(&make(kind, relay.recorder(), false), || {
            let before = tracing::info_span!("made before", field = 1);
            relay.connect(&sessions[0].recorder()).expect("it runs");
            let (ended, open) = (tracing::info_span!("ended"), tracing::info_span!("open"));
            relay.connect(&sessions[1].recorder()).expect("it runs");
            tracing::info!("in the second");
            drop((before, ended));
            open
        });
        let of = |session, which| lives(&trace_of(session, &format!("{which}-{kind}")));
        let first = of(&sessions[0], "first");
        drop(spans);
        let told: Vec<_> = first.iter().map(|((name, _), events)| (&**name, kinds(events))).collect();
        assert_eq!(told, [("ended", vec![1, 2]), ("open", vec![1])]);
        let second = of(&sessions[1], "second");
        assert_eq!(second.into_values().map(|events| kinds(&events)).collect::<Vec<_>>(), [[3]]);
    }
}

/// The kinds of events on the tracks of spans that end after layers have been put on a registry and changed.
fn lives_of_layers(name: &str, work: impl FnOnce(&dyn Fn() -> Recorder)) -> Vec<Vec<u64>> {
    let session = Session::builder().start().expect("a session");
    work(&|| session.recorder());
    let lives = lives(&trace_of(&session, name));
    lives.iter().filter(|((name, _), _)| name == "span").map(|(_, events)| kinds(events)).collect()
}

#[test]
fn layers_of_one_recorder_end_each_other_s_lives_once() {
    for (name, [first, second], expected) in [
        ("two", [true, true], vec![vec![1, 2]; 2]),
        ("the first", [true, false], vec![vec![1, 2]]),
        ("the second", [false, true], vec![vec![1, 2]]),
    ] {
        let found = lives_of_layers(name, |recorder| {
            let layer = |lifetimes| TraceLayer::new(recorder()).lifetimes(lifetimes);
            let layers = tracing_subscriber::registry().with(layer(first)).with(layer(second));
            tracing::subscriber::with_default(layers, || drop(tracing::info_span!("span", field = 1)));
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn lives_end_under_the_layer_that_has_taken_another_one_s_place() {
    let found = lives_of_layers("reload", |recorder| {
        let layer = |lifetimes| TraceLayer::new(recorder()).lifetimes(lifetimes);
        let (reloadable, handle) = tracing_subscriber::reload::Layer::new(layer(true));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(reloadable), || {
            let before = tracing::info_span!("span");
            handle.reload(layer(false)).expect("it is there");
            let without = tracing::info_span!("span", field = 1);
            drop((before, without));
        });
    });
    assert_eq!(found, [[1, 2]]);
}

#[test]
fn spans_of_a_session_that_is_over_end_nowhere() {
    for kind in ["subscriber", "layer"] {
        let session = Session::builder().start().expect("a session");
        tracing::dispatcher::with_default(&make(kind, session.recorder(), false), || {
            let open = tracing::info_span!("open");
            let handles = [(); 3].map(|()| open.clone());
            session.stop().expect("a stop");
            drop((handles, open));
            drop(Span::current());
            drop(tracing::info_span!("made afterwards"));
        });
    }
}
