//! The layer and the subscriber for `tracing`: what becomes of spans and events.

#[path = "support/trace.rs"]
mod trace;
#[path = "support/transport.rs"]
mod transport;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use trace::{Field, Trace, fields, message, number, scratch};
use tracebuf::producer::Exhaustion;
use tracebuf_std::session::{BufferConfig, Recorder, Session};
use tracebuf_std::tracing_layer::{TraceLayer, TraceSubscriber};
use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{Dispatch, Level, Span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use transport::Does;

type Kind = (&'static str, fn(Recorder, bool) -> Dispatch);

/// The subscriber and the layer, with flows or without.
const KINDS: [Kind; 2] = [
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

/// Types of the events and names of those that have one, in order; interned names by the writer's numbers.
fn story(trace: &Trace) -> String {
    let mut names = std::collections::HashMap::new();
    let mut story = Vec::new();
    for packet in trace.packets() {
        if let Some(data) = message(packet, 12) {
            for field in fields(data) {
                if let Field::Bytes(2, name) = field {
                    let text = String::from_utf8_lossy(message(name, 2).unwrap_or_default()).into_owned();
                    names.insert(number(name, 1), text);
                }
            }
        }
        let Some(event) = message(packet, 11) else { continue };
        let text = message(event, 23).map(|name| String::from_utf8_lossy(name).into_owned());
        let name = text.or_else(|| names.get(&number(event, 10)).cloned());
        let sign = ["", "+", "-", "!", "#"][number(event, 9).unwrap_or(0) as usize];
        let name = if sign == "-" { None } else { name };
        story.push(format!("{sign}{}", name.unwrap_or_default()));
    }
    story.join(" ")
}

const ANNOTATION: u32 = 4;
const FLOW: u32 = 47;

/// How many fields of a number each event of a type has.
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
        let story = story(trace);
        assert!(story.starts_with("+outer !found 1 of 2 +inner - - !event "), "{story}");
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
        // The second's slice ends with it, and begins again.
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
fn spans_exited_out_of_order_end_their_own_slices() {
    let work = |_: &Dispatch| {
        let first = tracing::info_span!("first").entered();
        let second = tracing::info_span!("second").entered();
        drop(first);
        tracing::info!("between");
        drop(second);
    };
    both("order", false, work, |trace| {
        assert_eq!(story(trace), "+first +second - - +second !between -");
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
        assert_eq!(story(trace), "+x +y +x - - - +y +x !between - -");
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
            assert_eq!(story(&trace), "+outer +x +y - - +y - !after -", "{name}");
            assert_eq!(counts(&trace, 1, ANNOTATION), [0, 2, 0, 0], "{name}");
            assert_eq!(counts(&trace, 1, FLOW), [usize::from(flows); 4], "{name}");
        }
    }
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
        assert_eq!(story(&trace), "+span +span - - +span !between -");
        assert_eq!(trace.losses(), 0);
    }
}

#[test]
fn a_span_that_wanders_between_threads_is_a_slice_on_each_and_one_flow() {
    let work = |dispatch: &Dispatch| {
        let span = tracing::info_span!("task");
        let next = tracing::info_span!("next");
        next.follows_from(&span);
        span.in_scope(|| ());
        let (dispatch, again) = (dispatch.clone(), span.clone());
        let poll = move || tracing::dispatcher::with_default(&dispatch, || again.in_scope(|| ()));
        std::thread::spawn(poll).join().expect("a thread");
        next.in_scope(|| ());
    };
    both("flows", true, work, |trace| {
        let mut flows = Vec::new();
        for packet in trace.packets() {
            let Some(event) = message(packet, 11).filter(|event| number(event, 9) == Some(1)) else {
                continue;
            };
            let of_event = fields(event).into_iter().filter_map(|field| match field {
                Field::Number(47, flow) => Some(flow),
                _ => None,
            });
            flows.push((number(packet, 10), of_event.collect::<Vec<_>>()));
        }
        let task: Vec<_> = flows.iter().filter(|(_, flows)| flows.len() == 1).collect();
        assert_eq!(task.len(), 2, "{flows:?}");
        assert_eq!(task[0].1, task[1].1, "one flow");
        assert_ne!(task[0].0, task[1].0, "two threads");
        let next = flows.iter().find(|(_, flows)| flows.len() == 2).expect("what follows");
        assert_eq!(next.1[1], task[0].1[0]);
    });
}

#[test]
fn of_a_span_s_slices_the_first_is_where_the_flow_of_one_that_it_follows_goes() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("task");
        span.in_scope(|| ());
        let next = tracing::info_span!("next");
        next.follows_from(&span);
        next.in_scope(|| ());
        next.in_scope(|| ());
    };
    both("follows", true, work, |trace| assert_eq!(counts(trace, 1, FLOW), [1, 2, 1]));
}

#[test]
fn of_many_spans_that_one_follows_the_newest_64_go_to_its_next_slice() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("worker");
        for _ in 0..100 {
            let request = tracing::info_span!("request");
            span.follows_from(&request);
        }
        let last = tracing::info_span!("last");
        last.in_scope(|| ());
        span.follows_from(&last);
        span.in_scope(|| ());
        span.in_scope(|| ());
    };
    both("newest", true, work, |trace| {
        assert_eq!(counts(trace, 1, FLOW), [1, 65, 1]);
        let begins = trace.packets().filter_map(|packet| message(packet, 11));
        let begins: Vec<_> = begins.filter(|event| number(event, 9) == Some(1)).map(fields).collect();
        let last =
            |begin: &[Field<'_>]| match begin.iter().rfind(|field| matches!(field, Field::Number(FLOW, _))) {
                Some(Field::Number(_, flow)) => Some(*flow),
                _ => None,
            };
        assert_eq!(last(&begins[0]), last(&begins[1]), "the newest");
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
    assert_eq!(story(&Trace::read(&path)), "+shown - !shown +shown - !shown");
}

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
    assert_eq!(story(&Trace::read(&path)), "+new -");
}

/// A value whose formatting traces.
struct Talkative;

impl std::fmt::Debug for Talkative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        tracing::info_span!("formatting").in_scope(|| tracing::info!("inner"));
        f.write_str("talk")
    }
}

/// What it traces, `tracing` itself keeps away from the subscriber that is at work.
#[test]
fn a_value_that_traces_while_it_is_formatted_is_recorded_whole() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", value = ?Talkative);
        span.in_scope(|| tracing::info!(value = ?Talkative, "outer"));
    };
    both("talkative", false, work, |trace| {
        assert_eq!(story(trace), "+span !outer -");
        assert!(trace.contains("talk"));
    });
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
    both("handles", false, work, |trace| assert_eq!(story(trace), "+shared +shared - - +shared -"));
}

/// A value that fails to format.
struct Failing;

impl std::fmt::Debug for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as far as this")?;
        Err(std::fmt::Error)
    }
}

#[test]
fn a_value_that_fails_to_format_is_recorded_as_far_as_it_went() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", value = ?Failing);
        span.in_scope(|| tracing::info!(value = ?Failing, "event"));
    };
    both("failing", false, work, |trace| {
        assert_eq!(story(trace), "+span !event -");
        assert_eq!(trace.bytes.windows(14).filter(|window| window == b"as far as this").count(), 2);
    });
}

/// A value whose formatting records another.
struct Recording(Span);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.record("inner", 2);
        f.write_str("one")
    }
}

#[test]
fn of_fields_recorded_at_the_same_time_none_is_lost() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", outer = Empty, inner = Empty);
        span.record("outer", tracing::field::debug(Recording(span.clone())));
        span.in_scope(|| ());
    };
    both("at-once", false, work, |trace| assert_eq!(counts(trace, 1, ANNOTATION), [2]));
}

/// Is entered when its thread ends.
struct EnteredLast(Span);

impl Drop for EnteredLast {
    fn drop(&mut self) {
        self.0.in_scope(|| ());
    }
}

#[test]
fn a_span_entered_while_its_thread_s_locals_are_destroyed_leaves_nothing_open() {
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
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.events(1), trace.events(2), "{}", story(&trace));
}

#[test]
fn a_thread_that_waits_for_room_for_a_span_s_fields_keeps_the_drain_thread_from_nothing() {
    for (kind, make) in KINDS {
        // Two chunks; dropped only when all is well, for a drain thread that waits would keep the test from its end.
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
        let transport = Does::new(move || {
            on_drain_thread("");
            true
        });
        session.attach(transport).expect("an answer");
        let (tell, told) = channel();
        std::thread::spawn(move || {
            (0..20).for_each(|_| use_it(&"y".repeat(20_000)));
            let _ = tell.send(());
        });
        told.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        ManuallyDrop::into_inner(session).stop().expect("a stop");
    }
}
