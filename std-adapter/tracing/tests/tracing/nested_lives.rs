//! Whose life lies within whose.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::channel;
use std::time::Duration;

use tracebuf_session::{BufferConfig, Relay, Session, this_process};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::span::{Id, Record};
use tracing::{Dispatch, Level, Span, dispatcher, info_span};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, layer};

use crate::lifetimes::{make, trace_of, written};
use crate::trace::{Trace, message, number};

const KINDS: [&str; 2] = ["subscriber", "layer"];

/// What the current state of a sequence says of tracks: each one's parent and name.
type State = BTreeMap<u64, (Option<u64>, String)>;

/// The lives that a trace has, by their tracks: each with the names from the outermost to its own, and how many begins
/// and ends there are. All tracks above a track are described in the state by which an event on it is read.
fn lives(trace: &Trace) -> BTreeMap<u64, (String, [usize; 2])> {
    let (mut states, mut lives) = (BTreeMap::<_, State>::new(), BTreeMap::new());
    for packet in trace.packets() {
        let sequence = number(packet, 10);
        let flags = number(packet, 13).unwrap_or(0);
        if flags & 1 != 0 {
            states.insert(sequence, State::new());
        }
        // Without the beginning of a state nothing of it can be read.
        let Some(state) = states.get_mut(&sequence) else { continue };
        if let Some(track) = message(packet, 60) {
            let name = String::from_utf8_lossy(message(track, 2).unwrap_or_default()).into_owned();
            state.insert(number(track, 1).expect("an id"), (number(track, 5), name));
        }
        let event = message(packet, 11);
        let Some((track, kind)) = event.and_then(|event| number(event, 11).zip(number(event, 9))) else {
            continue;
        };
        let (mut names, mut next) = (Vec::new(), track);
        loop {
            let (parent, name) = state.get(&next).unwrap_or_else(|| panic!("{next} above {names:?} is told"));
            let Some(parent) = parent else { break };
            names.insert(0, name.as_str());
            next = *parent;
        }
        assert_eq!(next, this_process().uuid(), "all lie within the process");
        let (path, counts) = lives.entry(track).or_insert_with(|| (names.join(" "), [0; 2]));
        assert_eq!(*path, names.join(" "));
        counts[kind as usize - 1] += 1;
    }
    lives
}

/// The names of each life's track and of those above it, in order; all of these have begun once and ended once.
fn paths(trace: &Trace) -> Vec<String> {
    let lives = lives(trace);
    assert!(lives.values().all(|(_, counts)| *counts == [1, 1]), "{lives:?}");
    let mut paths: Vec<_> = lives.into_values().map(|(path, _)| path).collect();
    paths.sort_unstable();
    paths
}

/// Under the subscriber and under the layer.
fn each(name: &str, expected: &[&str], work: impl Fn(&Dispatch)) {
    for kind in KINDS {
        let session = Session::builder().start().expect("a session");
        let dispatch = make(kind, session.recorder(), false);
        dispatcher::with_default(&dispatch, || work(&dispatch));
        assert_eq!(paths(&trace_of(&session, &format!("{name}-{kind}"))), expected, "{kind}");
    }
}

#[test]
fn a_life_lies_within_that_of_the_span_that_it_was_made_in_or_for() {
    let expected = [
        "request",
        "request explicit",
        "request explicit deeper",
        "request handler",
        "request spawned",
        "root",
    ];
    each("rules", &expected, |dispatch| {
        let request = info_span!("request", path = "/");
        let explicit = info_span!(parent: &request, "explicit");
        request.in_scope(|| {
            drop(info_span!("handler"));
            drop(info_span!(parent: None, "root"));
            drop(info_span!(parent: &explicit, "deeper"));
        });
        let (dispatch, request) = (dispatch.clone(), request.clone());
        let spawned = move || {
            dispatcher::with_default(&dispatch, || drop(request.in_scope(|| info_span!("spawned"))));
        };
        std::thread::spawn(spawned).join().expect("no panic");
    });
}

#[test]
fn a_life_that_outlasts_those_above_it_ends_within_them() {
    each("outlasts", &["outer", "outer middle", "outer middle inner"], |dispatch| {
        let outer = info_span!("outer");
        let middle = info_span!(parent: &outer, "middle");
        let inner = info_span!(parent: &middle, "inner");
        drop((outer, middle));
        // Whatever takes their places.
        for _ in 0..100 {
            let _guard = inner.enter();
        }
        // By a thread that knows none of them.
        let dispatch = dispatch.clone();
        let end = move || dispatcher::with_default(&dispatch, || drop(inner));
        std::thread::spawn(end).join().expect("no panic");
    });
}

#[test]
fn a_span_that_has_the_id_of_one_that_is_gone_lies_within_none_of_its_parents() {
    for kind in KINDS {
        let session = Session::builder().start().expect("a session");
        dispatcher::with_default(&make(kind, session.recorder(), false), || {
            for _ in 0..100 {
                let outer = info_span!("outer");
                drop(outer.in_scope(|| info_span!("inner")));
                drop(outer);
                drop(info_span!("alone"));
            }
        });
        let paths = paths(&trace_of(&session, &format!("ids-{kind}")));
        let count = |wanted: &str| paths.iter().filter(|path| *path == wanted).count();
        assert_eq!(["outer", "outer inner", "alone"].map(count), [100; 3], "{kind}");
    }
}

#[test]
fn of_a_recursion_those_deepest_down_lie_within_the_eighth() {
    for kind in KINDS {
        let session = Session::builder().start().expect("a session");
        dispatcher::with_default(&make(kind, session.recorder(), false), || {
            let mut spans = vec![info_span!("fall")];
            for number in 1..1000 {
                spans.push(info_span!(parent: &spans[number - 1], "fall"));
            }
            // The registry closes in turn those of which only children are left, in nested calls.
            while spans.pop().is_some() {}
        });
        let paths = paths(&trace_of(&session, &format!("deep-{kind}")));
        let deep = |depth: usize| paths.iter().filter(|path| path.split(' ').count() == depth).count();
        assert_eq!((1..=10).map(deep).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 1, 992, 0], "{kind}");
    }
}

#[test]
fn where_a_parent_is_filtered_out_the_one_above_it_is_the_parent() {
    let work = || {
        info_span!("outer").in_scope(|| {
            tracing::debug_span!("hidden").in_scope(|| drop(info_span!("inner")));
        });
        tracing::debug_span!("hidden").in_scope(|| drop(info_span!("alone")));
    };
    for kind in KINDS {
        let session = Session::builder().start().expect("a session");
        let dispatch: Dispatch = if kind == "layer" {
            let layer = TraceLayer::new(session.recorder()).lifetimes(true).with_filter(LevelFilter::INFO);
            // Another layer, so that the registry has them all.
            tracing_subscriber::registry().with(layer).with(LevelFilter::TRACE).into()
        } else {
            TraceSubscriber::new(session.recorder()).lifetimes(true).max_level(Level::INFO).into()
        };
        dispatcher::with_default(&dispatch, work);
        let paths = paths(&trace_of(&session, &format!("filter-{kind}")));
        assert_eq!(paths, ["alone", "outer", "outer inner"], "{kind}");
    }
}

#[test]
fn what_others_record_is_nobody_s_parent() {
    let sessions = [(); 2].map(|()| Session::builder().start().expect("a session"));
    let [first, second] = sessions.each_ref().map(|session| make("subscriber", session.recorder(), false));
    let foreign = dispatcher::with_default(&first, || {
        // So that the second has no span with the last one's id.
        let fillers: Vec<_> = (0..100).map(|_| info_span!("filler")).collect();
        fillers[99].in_scope(|| {
            dispatcher::with_default(&second, || drop(info_span!("within another's")));
            info_span!("foreign")
        })
    });
    dispatcher::with_default(&second, || drop(info_span!(parent: foreign.id(), "for another's")));
    dispatcher::with_default(&first, || drop(foreign));
    let [first, second] = [0, 1].map(|at| paths(&trace_of(&sessions[at], &format!("others-{at}"))));
    assert_eq!((first.len(), first.last().expect("some").as_str()), (101, "filler foreign"));
    assert_eq!(second, ["for another's", "within another's"]);
}

#[test]
fn of_two_layers_each_has_lives_within_its_own() {
    let sessions = [(); 2].map(|()| Session::builder().start().expect("a session"));
    let [first, second] =
        sessions.each_ref().map(|session| TraceLayer::new(session.recorder()).lifetimes(true));
    let second = second.with_filter(filter_fn(|span| span.name() != "outer"));
    let subscriber = tracing_subscriber::registry().with(first).with(second);
    tracing::subscriber::with_default(subscriber, || {
        info_span!("outer").in_scope(|| info_span!("middle").in_scope(|| drop(info_span!("inner"))));
    });
    let [first, second] = [0, 1].map(|at| paths(&trace_of(&sessions[at], &format!("layers-{at}"))));
    assert_eq!(first, ["outer", "outer middle", "outer middle inner"]);
    assert_eq!(second, ["middle", "middle inner"]);
}

#[test]
fn of_two_layers_of_one_recorder_each_has_lives_within_one_of_the_parent_s() {
    for (name, with_lives, expected) in [
        ("both", [true, true], &["outer", "outer", "outer inner", "outer inner"][..]),
        ("first", [true, false], &["outer", "outer inner"]),
        ("second", [false, true], &["outer", "outer inner"]),
    ] {
        let session = Session::builder().start().expect("a session");
        let [first, second] =
            with_lives.map(|lifetimes| TraceLayer::new(session.recorder()).lifetimes(lifetimes));
        let subscriber = tracing_subscriber::registry().with(first).with(second);
        tracing::subscriber::with_default(subscriber, || {
            info_span!("outer", field = 1).in_scope(|| drop(info_span!("inner", field = 1)));
        });
        assert_eq!(paths(&trace_of(&session, &format!("recorder-{name}"))), expected, "{name}");
    }
}

#[test]
fn a_life_lies_only_within_one_of_its_own_session() {
    for kind in KINDS {
        let sessions = [(); 2].map(|()| Session::builder().start().expect("a session"));
        let [first, second] = sessions.each_ref().map(Session::recorder);
        let relay = Relay::new();
        dispatcher::with_default(&make(kind, relay.recorder(), false), || {
            let before = info_span!("before").entered();
            relay.connect(&first).expect("it runs");
            let outer = info_span!("outer").entered();
            relay.connect(&second).expect("it runs");
            let middle = info_span!("middle").entered();
            drop(info_span!("inner"));
            relay.disconnect();
            let off = info_span!("off").entered();
            relay.connect(&first).expect("it runs");
            drop(info_span!(parent: &*off, "within off"));
            drop(info_span!(parent: &*outer, "again"));
            drop((off, middle, outer, before));
        });
        let [first, second] = [0, 1].map(|at| trace_of(&sessions[at], &format!("relay-{kind}-{at}")));
        let of_first = ["before", "before outer", "before outer again", "off", "off within off"];
        assert_eq!(paths(&first), of_first, "{kind}");
        assert_eq!(paths(&second), ["middle", "middle inner"], "{kind}");
        let tracks = second.packets().filter_map(|packet| message(packet, 60));
        let names: Vec<_> = tracks.filter_map(|track| message(track, 2)).collect();
        assert!(!names.contains(&b"outer".as_slice()), "it has nothing there");
    }
}

#[test]
fn what_is_above_a_life_is_told_with_it_when_a_ring_has_overwritten_the_beginning() {
    let ring = BufferConfig::ring(64 << 10);
    for (name, buffer) in [("states", ring.clone()), ("chunks", ring.self_contained_chunks())] {
        for kind in KINDS {
            let session = Session::builder().buffer(buffer.clone()).start().expect("a session");
            dispatcher::with_default(&make(kind, session.recorder(), false), || {
                let [outer, middle] = [info_span!("outer"), info_span!("middle")];
                for round in 0..3000 {
                    outer.in_scope(|| {
                        let inner = info_span!("inner", round);
                        inner.in_scope(|| middle.in_scope(|| drop(info_span!("innermost"))));
                    });
                    // So that all of it is there, even if others are using the machine.
                    if round % 100 == 0 {
                        session.flush(Duration::from_secs(30)).expect("it answers");
                    }
                }
            });
            let lives = lives(&written(&session, &format!("lapped-{name}-{kind}")));
            let count = |wanted: &str| lives.values().filter(|(path, _)| path == wanted).count();
            let counts = ["outer", "outer inner", "middle innermost", "middle"].map(count);
            assert!(counts[0] == 1 && counts[3] == 1 && counts[1] > 50 && counts[2] > 50, "{counts:?}");
            assert_eq!(lives.len(), counts.iter().sum::<usize>());
            assert!(counts[1] < 3000 && lives.values().any(|(_, counts)| *counts == [0, 1]), "it has lapped");
        }
    }
}

#[test]
fn children_are_made_by_many_threads_while_their_parent_ends() {
    let (threads, each) = if cfg!(miri) { (2, 10) } else { (4, 500) };
    for kind in KINDS {
        let session = Session::builder().ring(16 << 20).shared_memory(8 << 20).start().expect("a session");
        let dispatch = make(kind, session.recorder(), false);
        let (send, dropper) = channel::<Span>();
        let own = dispatch.clone();
        let dropper =
            std::thread::spawn(move || dispatcher::with_default(&own, || dropper.iter().for_each(drop)));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (send, dispatch) = (send.clone(), &dispatch);
                scope.spawn(move || {
                    dispatcher::with_default(dispatch, || {
                        for _ in 0..each {
                            let outer = info_span!("outer");
                            let handle = outer.clone();
                            let inner = info_span!(parent: &outer, "inner");
                            // The last handle goes here or there.
                            let _ = send.send(outer);
                            let innermost = handle.in_scope(|| info_span!(parent: &inner, "innermost"));
                            let _ = send.send(inner);
                            drop((handle, innermost));
                        }
                    });
                });
            }
        });
        drop(send);
        dropper.join().expect("no panic");
        let paths = paths(&trace_of(&session, &format!("threads-{kind}")));
        let count = |wanted: &str| paths.iter().filter(|path| *path == wanted).count();
        let expected = [threads * each; 3];
        assert_eq!(["outer", "outer inner", "outer inner innermost"].map(count), expected, "{kind}");
    }
}

#[test]
fn without_the_parent_s_life_a_life_lies_alone() {
    let session = Session::builder().start().expect("a session");
    let layer = |lifetimes| TraceLayer::new(session.recorder()).lifetimes(lifetimes);
    let (reloadable, handle) = tracing_subscriber::reload::Layer::new(layer(false));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(reloadable), || {
        let without = info_span!("without", field = 1).entered();
        handle.reload(layer(true)).expect("it is there");
        info_span!("alone").in_scope(|| {
            handle.reload(layer(false)).expect("it is there");
            drop(info_span!("also without"));
            handle.reload(layer(true)).expect("it is there");
            drop(info_span!("within"));
        });
        drop(without);
    });
    assert_eq!(paths(&trace_of(&session, "without")), ["alone", "alone within"]);
}

/// A value that makes spans when it is formatted.
struct Traces;

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        info_span!("formatting").in_scope(|| drop(info_span!("within")));
        f.write_str("formatted")
    }
}

/// Formats what is recorded while a span's extensions are locked, as `tracing-subscriber`'s layer that writes lines
/// does.
struct Formats;

impl<S: tracing::Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Formats {
    fn on_record(&self, id: &Id, values: &Record<'_>, context: layer::Context<'_, S>) {
        let span = context.span(id).expect("it is there");
        span.extensions_mut().insert(format!("{values:?}"));
    }
}

#[test]
fn a_span_may_be_made_while_another_layer_has_its_parent_locked() {
    let session = Session::builder().start().expect("a session");
    let layer = TraceLayer::new(session.recorder()).lifetimes(true);
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(Formats).with(layer));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        dispatcher::with_default(&dispatch, || {
            let span = info_span!("span", value = tracing::field::Empty);
            span.in_scope(|| span.record("value", tracing::field::debug(Traces)).has_field("value"));
        });
        let _ = tell.send(());
    });
    told.recv_timeout(Duration::from_secs(30)).expect("it waits for nothing");
    // Formatted by each layer.
    let expected =
        ["span", "span formatting", "span formatting", "span formatting within", "span formatting within"];
    assert_eq!(paths(&trace_of(&session, "formats")), expected);
}
