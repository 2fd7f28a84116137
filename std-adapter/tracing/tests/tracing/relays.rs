//! Spans and events with a relay's recorder, under which sessions come and go.

use tracebuf_session::{Relay, Session};
use tracebuf_tracing::TraceLayer;
use tracing::field::Empty;
use tracing::{Dispatch, Level};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;

use crate::KINDS;
use crate::trace::{Trace, scratch};

fn trace_of(session: &Session, name: &str) -> Trace {
    let path = scratch(&format!("relay-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.losses(), 0, "{name}");
    trace
}

fn connected(relay: &Relay) -> Session {
    let session = Session::builder().start().expect("a session");
    relay.connect(&session.recorder()).expect("it runs");
    session
}

/// With the subscriber and with the layer, with flows and without.
fn each(work: impl Fn(&str, &Relay)) {
    for (kind, make) in KINDS {
        for flows in [false, true] {
            let relay = Relay::new();
            let dispatch = make(relay.recorder(), flows);
            tracing::dispatcher::with_default(&dispatch, || work(&format!("{kind}-{flows}"), &relay));
        }
    }
}

#[test]
fn one_subscriber_records_into_one_session_after_the_other() {
    each(|kind, relay| {
        for round in ["first", "second"] {
            tracing::info_span!("nowhere", field = 1).in_scope(|| tracing::info!("nowhere"));
            let session = connected(relay);
            tracing::info_span!("span", round).in_scope(|| tracing::info!("event"));
            let trace = trace_of(&session, &format!("{round}-{kind}"));
            assert_eq!(trace.story(), "+span !event -", "{kind}");
            assert!(trace.contains(round), "its fields");
        }
    });
}

#[test]
fn spans_that_are_older_than_the_session_are_slices_each_time_that_they_are_entered_later() {
    each(|kind, relay| {
        let (plain, with_field) = (tracing::info_span!("plain"), tracing::info_span!("with", field = Empty));
        let entered = tracing::info_span!("entered", field = 1).entered();
        let session = connected(relay);
        with_field.record("field", 2);
        plain.in_scope(|| with_field.in_scope(|| tracing::info!("within")));
        drop(entered);
        let first = trace_of(&session, &format!("older-{kind}"));
        assert_eq!(first.story(), "+entered +plain +with !within - - -", "{kind}");
        // What was made in a session that is over stays what it was.
        let made_in_first = {
            let session = connected(relay);
            let span = tracing::info_span!("made", field = "kept");
            session.stop().expect("it runs");
            span
        };
        let session = connected(relay);
        made_in_first.in_scope(|| ());
        let second = trace_of(&session, &format!("older-second-{kind}"));
        assert_eq!(second.story(), "+made -", "{kind}");
        assert!(second.contains("kept"));
    });
}

#[test]
fn fields_recorded_between_two_sessions_are_those_of_the_next() {
    each(|kind, relay| {
        let first = connected(relay);
        let span = tracing::info_span!("span", state = "waits for it");
        first.stop().expect("it runs");
        span.record("state", "has got it");
        let second = connected(relay);
        span.in_scope(|| ());
        let trace = trace_of(&second, &format!("between-{kind}"));
        assert_eq!(trace.story(), "+span -", "{kind}");
        assert!(trace.contains("has got it") && !trace.contains("waits for it"), "{kind}");
    });
}

#[test]
fn spans_open_when_the_session_changes_end_none_of_the_next_one_s() {
    each(|kind, relay| {
        let first = connected(relay);
        let (outer, inner) =
            (tracing::info_span!("outer").entered(), tracing::info_span!("inner", x = 1).entered());
        let second = connected(relay);
        let next = tracing::info_span!("next").entered();
        let after = tracing::info_span!("after").entered();
        // In an order in which those above it would end with it.
        drop(outer);
        tracing::info!("between");
        drop(next);
        drop(inner);
        drop(after);
        // The first session went on, and these were in it all the time.
        let story = trace_of(&first, &format!("open-first-{kind}")).story();
        assert_eq!(story, "+outer +inner - - +inner -", "{kind}");
        let story = trace_of(&second, &format!("open-second-{kind}")).story();
        assert_eq!(story, "+next +after !between - - +after -", "{kind}");
    });
}

#[test]
fn spans_end_in_a_session_that_is_left_for_a_while() {
    each(|kind, relay| {
        let session = connected(relay);
        let own = session.recorder();
        let around = own.enter("around");
        let outer = tracing::info_span!("outer", field = Empty).entered();
        let inner = tracing::info_span!("inner").entered();
        relay.disconnect();
        outer.record("field", "changed");
        drop(inner);
        relay.connect(&own).expect("it runs");
        tracing::info!("in the outer one");
        relay.disconnect();
        drop(outer);
        own.instant("around");
        drop(around);
        let trace = trace_of(&session, &format!("left-{kind}"));
        assert_eq!(trace.story(), "+around +outer +inner - !in the outer one - !around -", "{kind}");
        assert!(trace.contains("changed"));
    });
}

#[test]
fn a_span_entered_again_while_its_session_is_left_ends_no_slice_of_it_there() {
    each(|kind, relay| {
        let session = connected(relay);
        let (plain, kept) = (tracing::info_span!("plain"), tracing::info_span!("kept", field = 1));
        let first = plain.enter();
        let second = kept.enter();
        relay.disconnect();
        plain.in_scope(|| kept.in_scope(|| kept.in_scope(|| ())));
        relay.connect(&session.recorder()).expect("it runs");
        tracing::info!("within");
        drop(second);
        drop(first);
        let trace = trace_of(&session, &format!("again-{kind}"));
        assert_eq!(trace.story(), "+plain +kept !within - -", "{kind}");
    });
}

#[test]
fn a_relay_and_a_session_s_own_recorder_lie_on_one_track_of_each_thread() {
    let relay = Relay::new();
    let session = connected(&relay);
    let by_relay = Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(relay.recorder())));
    let by_session = Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(session.recorder())));
    let enter = |dispatch, name| {
        tracing::dispatcher::with_default(dispatch, || match name {
            "outer" => tracing::info_span!("outer").entered(),
            _ => tracing::info_span!("inner").entered(),
        })
    };
    let (outer, inner) = (enter(&by_relay, "outer"), enter(&by_session, "inner"));
    drop(outer);
    drop(inner);
    assert_eq!(trace_of(&session, "beside").story(), "+outer +inner - - +inner -");
}

#[test]
fn with_a_relay_for_each_level_those_are_recorded_that_are_connected_on_one_track_of_a_thread() {
    let relays = [Level::ERROR, Level::INFO, Level::DEBUG].map(|level| (level, Relay::new()));
    let layers = relays.each_ref().map(|(level, relay)| {
        let level = *level;
        TraceLayer::new(relay.recorder()).with_filter(filter_fn(move |what| *what.level() == level))
    });
    let work = || {
        let _outer = tracing::info_span!("outer", field = 1).entered();
        tracing::debug_span!("middle", field = 2).in_scope(|| {
            tracing::error_span!("inner").in_scope(|| tracing::info!("information"));
            tracing::error!("error");
        });
        tracing::trace!("of no layer");
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(Vec::from(layers)), || {
        for (wanted, story) in [
            (&["INFO", "ERROR"][..], "+outer +inner !information - !error -"),
            (&["DEBUG"], "+middle -"),
            (&[], ""),
            (&["DEBUG", "INFO"], "+outer +middle !information - -"),
        ] {
            let session = Session::builder().start().expect("a session");
            for (_, relay) in relays.iter().filter(|(level, _)| wanted.contains(&level.as_str())) {
                relay.connect(&session.recorder()).expect("it runs");
            }
            work();
            let trace = trace_of(&session, &format!("levels-{}", wanted.join("-")));
            assert_eq!(trace.story(), story, "{wanted:?}");
        }
    });
}
