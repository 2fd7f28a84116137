//! Records of the crate `log`, fields that are counters, and values of every kind.

use log::{Log, Record};
use tracebuf_analysis::Trace;
use tracebuf_session::{Recorder, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_log::LogTracer;
use tracing_subscriber::prelude::*;

/// Under a subscriber and under a layer, both with logs and origins.
fn both(work: impl Fn(), check: impl Fn(&Trace)) {
    let kinds: [fn(Recorder) -> Dispatch; 2] = [
        |recorder| Dispatch::new(TraceSubscriber::new(recorder).logs(true).origins(true)),
        |recorder| {
            let layer = TraceLayer::new(recorder).logs(true).origins(true);
            Dispatch::new(tracing_subscriber::registry().with(layer))
        },
    ];
    for make in kinds {
        let session = Session::builder().start().expect("a session");
        tracing::dispatcher::with_default(&make(session.recorder()), &work);
        let mut bytes = Vec::new();
        session.snapshot().expect("a snapshot").write(&mut bytes).expect("memory");
        let trace = Trace::of(&bytes).expect("a trace");
        assert!(trace.faults().is_empty() && !trace.losses().has_losses(), "{}", trace.losses());
        check(&trace);
    }
}

#[test]
fn records_of_the_crate_log_have_their_own_target_file_and_line() {
    let log = |level, target: &str, text: &str| {
        let args = format_args!("{text}");
        let mut record = Record::builder();
        record.level(level).target(target).module_path(Some("program::db")).file(Some("src/db.rs"));
        LogTracer::new().log(&record.line(Some(12)).args(args).build());
    };
    let long = "t".repeat(1000);
    let work = || {
        log(log::Level::Error, "db", "connection lost");
        log(log::Level::Info, &long, "long");
        LogTracer::new().log(&Record::builder().target("bare").args(format_args!("bare")).build());
        // It looks like one of them, and is not.
        tracing::info!(target: "log", { log.line = 3 }, "own");
    };
    both(work, |trace| {
        let lines: Vec<_> = trace.logs().map(|line| (line.text(), line.priority())).collect();
        assert_eq!(lines, [("connection lost", 6), ("long", 4), ("bare", 4), ("own log.line=3", 4)]);
        let told: Vec<_> = trace.logs().map(|line| line.event().expect("an instant")).collect();
        let names: Vec<_> = told.iter().map(|event| event.name()).collect();
        assert_eq!(names, ["connection lost", "long", "bare", "own"]);
        let long = format!("INFO,{long}");
        let categories: Vec<_> = told.iter().map(|event| event.category()).collect();
        assert_eq!(categories, ["ERROR,db", &long, "INFO,bare", "INFO,log"]);
        assert!(told[..3].iter().all(|event| event.arguments().count() == 0));
        let source = |at: usize| told[at].source().map(|source| (source.file.to_string(), source.line));
        assert_eq!([source(0), source(1)], [const { Some(()) }; 2].map(|_| Some(("src/db.rs".into(), 12))));
        assert_eq!(source(2), None);
        let tag = trace.logs().next().and_then(|line| line.source().cloned()).expect("a tag");
        assert_eq!((&*tag.file, tag.line), ("src/db.rs", 12));
    });
}

#[test]
fn fields_that_are_counters_are_values_on_tracks_of_this_process() {
    let work = || {
        tracing::info!(counter.queue = 5, "tick");
        tracing::info!(counter.queue = -2, gauge.load = 0.5);
        for more in [1u64, 2] {
            tracing::info!(
                histogram.latency = 5.5,
                monotonic_counter.requests = more,
                monotonic_counter.seconds = 0.25
            );
        }
        tracing::info!(
            monotonic_counter.requests = -4,
            counter.load = f64::NAN,
            counter.name = "text",
            "refused"
        );
        tracing::info!(
            counter.on = true,
            counter.most = u64::MAX,
            counter.i = i128::MIN,
            counter.small = 3i128
        );
    };
    both(work, |trace| {
        let values = |name: &str| {
            let counter = trace.counter(name).unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(counter.track().pid(), Some(i64::from(std::process::id())), "{name}");
            counter.values().collect::<Vec<_>>()
        };
        assert_eq!(values("queue"), [5.0, -2.0]);
        assert_eq!(values("load"), [0.5]);
        assert_eq!(values("latency"), [5.5, 5.5]);
        assert_eq!(values("requests"), [1.0, 3.0]);
        assert_eq!(values("seconds"), [0.25, 0.5]);
        assert_eq!(
            (values("on"), values("most"), values("small")),
            (vec![1.0], vec![i64::MAX as f64], vec![3.0])
        );
        assert_eq!(trace.counters().count(), 8);
        // Those with a message, and the last, of which one value is none.
        let named: Vec<_> = trace.instants().map(|instant| instant.name().to_owned()).collect();
        assert_eq!((named.len(), &named[0], &named[1]), (3, &"tick".to_owned(), &"refused".to_owned()));
        let instants: Vec<_> = trace.instants().collect();
        assert_eq!(instants[0].argument("counter.queue").and_then(|value| value.as_i64()), Some(5));
        assert_eq!(
            instants[2].argument("counter.i").and_then(|value| value.as_str().map(str::len)),
            Some(40)
        );
    });
}

#[test]
fn a_sum_of_many_threads_is_right_and_never_goes_back() {
    let dispatch_in_threads = || {
        let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    tracing::dispatcher::with_default(&dispatch, || {
                        (0..500).for_each(|_| tracing::info!(monotonic_counter.requests = 1));
                    });
                });
            }
        });
    };
    both(dispatch_in_threads, |trace| {
        let counter = trace.counter("requests").expect("a counter");
        assert!(counter.values().is_sorted());
        assert_eq!((counter.values().next_back(), trace.instants().count()), (Some(2000.0), 0));
    });
}

#[test]
fn values_of_every_kind_are_arguments() {
    let error = std::io::Error::other("boom");
    let error: &dyn std::error::Error = &error;
    let work = || {
        let (i, u) = (i128::MIN, u128::MAX);
        tracing::error!(error, dbg = ?vec![1, 2], u64 = u64::MAX, i, u, few = 7u128, nan = f64::NAN, is = true, "kinds");
    };
    both(work, |trace| {
        let kinds = trace.instants().next().expect("an event");
        let told: Vec<_> = kinds.arguments().map(|(name, value)| format!("{name}={value}")).collect();
        let (i, u) = (i128::MIN, u128::MAX);
        let expected = format!("error=boom dbg=[1, 2] u64={} i={i} u={u} few=7 nan=NaN is=true", u64::MAX);
        assert_eq!(told.join(" "), expected);
    });
}
