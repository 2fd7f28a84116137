//! Spans that take too long, and what a flight recorder writes of them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf_session::{FlightRecorder, FlightStatus, Session};
use tracebuf_testing::trace::{find_snapshot, folder, wait_for_snapshot};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

use crate::trace::{Field, Trace, fields, message, number};

const LIMIT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_millis(40);

fn recorder(name: &str) -> (Arc<Session>, FlightRecorder, std::path::PathBuf) {
    let folder = folder(name);
    let session = Arc::new(Session::builder().fast_clock().start().expect("a session"));
    let flight = FlightRecorder::new(&session, &folder).expect("a recorder");
    (session, flight, folder)
}

type Make = fn(&Session, &FlightRecorder) -> Dispatch;

/// Runs under a subscriber and under a layer.
fn both(name: &str, kinds: [Make; 2], work: impl Fn(&FlightRecorder, &Path)) {
    for (kind, make) in ["subscriber", "layer"].into_iter().zip(kinds) {
        let (session, flight, folder) = recorder(&format!("slow {name} {kind}"));
        tracing::dispatcher::with_default(&make(&session, &flight), || work(&flight, &folder));
    }
}

/// The status once so many are written: a file is there a moment before it is counted.
fn status(flight: &FlightRecorder, written: u64) -> FlightStatus {
    let start = Instant::now();
    while flight.status().written < written {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", flight.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    flight.status()
}

fn sleep() {
    std::thread::sleep(LONG);
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("the folder").count()
}

/// The values of the marks' arguments that are fractions, in order.
fn fractions(trace: &Trace) -> Vec<f64> {
    let events = trace.packets().filter_map(|packet| message(packet, 11));
    let marks = events.filter(|event| number(event, 9) == Some(3)).flat_map(fields);
    let fraction = |field| match field {
        Field::Bytes(4, arg) => number(arg, 5).map(f64::from_bits),
        _ => None,
    };
    marks.filter_map(fraction).collect()
}

#[test]
fn a_span_over_its_limit_has_its_snapshot_and_those_under_it_have_none() {
    let kinds: [Make; 2] = [
        |session, flight| {
            Dispatch::new(TraceSubscriber::new(session.recorder()).slow("request", LIMIT, flight))
        },
        |session, flight| {
            let layer = TraceLayer::new(session.recorder()).slow("request", LIMIT, flight);
            Dispatch::new(tracing_subscriber::registry().with(layer))
        },
    ];
    both("name", kinds, |flight, folder| {
        tracing::info!("long before");
        std::thread::sleep(Duration::from_millis(200));
        tracing::info_span!("request").in_scope(|| ());
        tracing::info_span!("another").in_scope(sleep);
        assert_eq!(files(folder), 0);
        tracing::info_span!("request", url = "/buy", status = tracing::field::Empty).in_scope(|| {
            tracing::info_span!("query").in_scope(sleep);
            tracing::Span::current().record("status", 200);
        });
        let trace = Trace::read(&wait_for_snapshot(folder, "slow-request", 1));
        let story = trace.story();
        assert!(story.contains("+request +query - - !slow-request"), "{story}");
        for text in ["duration_ms", "limit_ms", "/buy", "status"] {
            assert!(trace.contains(text), "{text}");
        }
        let [took, limit] = fractions(&trace)[..] else { panic!("two of them") };
        assert!((40.0..400.0).contains(&took) && limit == 30.0, "{took} {limit}");
        assert!(!trace.contains("long before"), "it is out of the window");
        let status = status(flight, 1);
        assert_eq!((status.written, status.merged), (1, 0));
    });
}

#[test]
fn an_async_span_s_waiting_counts_though_no_poll_takes_long() {
    let kinds: [Make; 2] = [
        |session, flight| {
            Dispatch::new(TraceSubscriber::for_async(session.recorder()).slow("task", LIMIT, flight))
        },
        |session, flight| {
            let layer = TraceLayer::for_async(session.recorder()).slow("task", LIMIT, flight);
            Dispatch::new(tracing_subscriber::registry().with(layer))
        },
    ];
    both("async", kinds, |_, folder| {
        let task = tracing::info_span!("task");
        let poll = || task.in_scope(|| tracing::info!("polled"));
        poll();
        // The window reaches back to where it began.
        std::thread::sleep(Duration::from_millis(300));
        poll();
        drop(task);
        let trace = Trace::read(&wait_for_snapshot(folder, "slow-task", 1));
        // Its life, and twice a poll with a message.
        let story = trace.story();
        assert_eq!((story.matches("+task").count(), story.matches("!polled").count()), (3, 2), "{story}");
        assert_eq!(trace.events(1), trace.events(2), "{story}");
    });
}

#[test]
fn rules_are_for_targets_or_for_all_and_the_first_that_is_broken_counts() {
    // So long that no other span takes it on a busy machine.
    const ANY: Duration = LIMIT.saturating_mul(20);
    let layer: Make = |session, flight| {
        let layer = TraceLayer::new(session.recorder())
            .slow("patient", Duration::from_secs(60), flight)
            .slow_in("shop::db", LIMIT, flight)
            .slow_any(ANY, flight);
        Dispatch::new(tracing_subscriber::registry().with(layer))
    };
    let subscriber: Make = |session, flight| {
        let subscriber = TraceSubscriber::new(session.recorder());
        let subscriber = subscriber.slow_in("shop::db", LIMIT, flight);
        Dispatch::new(subscriber.slow_any(ANY, flight))
    };
    both("rules", [subscriber, layer], |flight, folder| {
        tracing::info_span!(target: "shop::db", "of it").in_scope(sleep);
        tracing::info_span!(target: "shop::db::pool", "within it").in_scope(sleep);
        tracing::info_span!(target: "shop::dbx", "not of it").in_scope(sleep);
        tracing::info_span!("GET /any").in_scope(|| std::thread::sleep(ANY + LIMIT));
        for reason in ["slow-of it", "slow-within it", "slow-GET _any"] {
            wait_for_snapshot(folder, reason, 1);
        }
        assert_eq!((status(flight, 3).written, files(folder)), (3, 3));
    });
}

#[test]
fn where_several_layers_hear_of_an_end_there_is_one_snapshot_and_none_once_the_recorder_is_gone() {
    let (session, flight, folder) = recorder("slow layers");
    let layers = [0, 1].map(|_| TraceLayer::new(session.recorder()).flows(true));
    let [first, second] = layers;
    let both = tracing_subscriber::registry().with(first.slow("x", LIMIT, &flight)).with(second);
    tracing::subscriber::with_default(both, || {
        tracing::info_span!("x").in_scope(sleep);
        wait_for_snapshot(&folder, "slow-x", 1);
        let status = status(&flight, 1);
        assert_eq!((status.written, status.merged, status.suppressed), (1, 0, 0));
        drop(flight);
        tracing::info_span!("x").in_scope(sleep);
    });
    assert_eq!(find_snapshot(&folder, "slow-x", 2), None);
}

#[test]
fn a_storm_of_slow_spans_leaves_a_few_snapshots_and_counts_the_rest() {
    let (session, flight, folder) = recorder("slow storm");
    let layer = TraceLayer::new(session.recorder()).slow_any(Duration::ZERO, &flight);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        (0..10_000).for_each(|_| tracing::info_span!("x").in_scope(|| ()));
    });
    assert!(flight.status().merged + flight.status().suppressed > 9_000, "{:?}", flight.status());
    drop(flight);
    assert!((1..=8).contains(&files(&folder)), "{}", files(&folder));
}

#[test]
fn a_panic_while_a_field_is_formatted_is_in_the_trace_and_spoils_nothing() {
    struct Panics;
    impl std::fmt::Debug for Panics {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("while it is formatted")
        }
    }
    let (session, flight, folder) = recorder("slow panic");
    // Hooks hear of the panics of all tests.
    let flight = flight.keep(100).least_interval(Duration::ZERO);
    flight.on_panic();
    let layer = TraceLayer::for_async(session.recorder()).slow_any(Duration::from_secs(60), &flight);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let span = tracing::info_span!("outer", value = tracing::field::Empty).entered();
        let panics = |work: &dyn Fn()| {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            assert!(caught.is_err());
        };
        panics(&|| tracing::info!(value = ?Panics, "an event"));
        panics(&|| drop(tracing::info_span!("inner", value = ?Panics)));
        panics(&|| {
            span.record("value", tracing::field::debug(Panics));
        });
        tracing::info!("afterwards");
    });
    let traces =
        std::fs::read_dir(&folder).expect("the folder").map(|file| Trace::read(&file.expect("it").path()));
    let told = traces.filter(|trace| trace.contains("while it is formatted")).count();
    assert!(told >= 3, "{told}");
    let story = Trace::read(&flight.snapshot("later").expect("a snapshot")).story();
    let ours = story.split_once("+outer").expect("it").1;
    assert!(story.matches("!panic").count() >= 3 && ours.contains("!afterwards -"), "{story}");
}

#[test]
fn a_span_that_hangs_has_a_snapshot_while_it_is_open_and_another_one_when_it_ends() {
    let kinds: [Make; 2] = [
        |session, flight| Dispatch::new(TraceSubscriber::new(session.recorder()).slow_any(LIMIT, flight)),
        |session, flight| {
            let layer = TraceLayer::new(session.recorder()).slow_any(LIMIT, flight);
            Dispatch::new(tracing_subscriber::registry().with(layer))
        },
    ];
    both("hanging", kinds, |flight, folder| {
        let begun = Instant::now();
        tracing::info_span!("short").in_scope(|| ());
        tracing::info_span!("stuck", id = 7).in_scope(|| {
            let trace = Trace::read(&wait_for_snapshot(folder, "open-stuck", 1));
            let story = trace.story();
            assert!(story.contains("+stuck") && story.contains("!open-stuck"), "{story}");
            let [open, limit] = fractions(&trace)[..] else { panic!("two arguments") };
            assert!(limit == 30.0 && open > 1030.0 && open <= begun.elapsed().as_secs_f64() * 1e3, "{open}");
            // Once, however long it goes on.
            std::thread::sleep(Duration::from_millis(600));
            assert_eq!(status(flight, 1).written, 1);
        });
        wait_for_snapshot(folder, "slow-stuck", 1);
        let status = status(flight, 2);
        assert_eq!((status.written, status.merged, status.suppressed), (2, 0, 0));
        assert_eq!(find_snapshot(folder, "open-short", 1), None);
    });
}
