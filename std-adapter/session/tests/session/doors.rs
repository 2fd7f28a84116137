//! What comes through the crates `log` and `metrics`, and counters that all threads add to.

use log::{Log, Record};
use tracebuf_analysis::Trace;
use tracebuf_session::{Exhaustion, Logger, MetricsRecorder, Session, SharedCounter, Unit};

fn trace_of(session: &Session) -> Trace {
    let mut bytes = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut bytes).expect("memory");
    Trace::of(&bytes).expect("a trace")
}

#[test]
fn a_log_record_is_an_instant_and_a_line_with_its_target_file_and_line() {
    let session = Session::builder().start().expect("a session");
    let logger = Logger::new(session.recorder()).max_level(log::LevelFilter::Info);
    let record = |level, target: &str, file: &'static str, text: &str| {
        let args = format_args!("{text} {}", 7);
        let mut record = Record::builder();
        record.level(level).target(target).file_static(Some(file)).line(Some(42));
        logger.log(&record.module_path_static(Some("program::disk")).args(args).build());
    };
    record(log::Level::Warn, "program::disk", "src/disk.rs", "slow");
    record(log::Level::Debug, "program::disk", "src/disk.rs", "too verbose");
    let long = "t".repeat(1000);
    record(log::Level::Error, &long, "src/disk.rs", "lost");
    // Without what lives as long as the program.
    let file = String::from("plugin.lua");
    let mut plugin = Record::builder();
    plugin.level(log::Level::Info).target("plugin").file(Some(&file)).line(Some(3));
    logger.log(&plugin.args(format_args!("loaded")).build());
    let trace = trace_of(&session);
    assert!(trace.faults().is_empty());
    let lines: Vec<_> = trace.logs().map(|line| (line.text(), line.priority())).collect();
    assert_eq!(lines, [("slow 7", 5), ("lost 7", 6), ("loaded", 4)]);
    let told = trace.logs().map(|line| {
        let event = line.event().expect("an instant");
        let source = event.source().expect("a place").clone();
        assert_eq!(
            (event.name(), line.source()),
            (line.text(), Some(&source).filter(|_| cfg!(not(tracebuf_small))))
        );
        format!("{} {}:{}", event.category(), source.file, source.line)
    });
    let expected = [
        "WARN,program::disk src/disk.rs:42".to_owned(),
        format!("ERROR,{long} src/disk.rs:42"),
        "INFO,plugin plugin.lua:3".to_owned(),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_record_that_logs_as_it_is_formatted_is_recorded_after_that_one() {
    struct Logs<'l>(&'l Logger);

    impl std::fmt::Display for Logs<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.log(&Record::builder().args(format_args!("inner")).build());
            f.write_str("outer")
        }
    }

    let session = Session::builder().start().expect("a session");
    let logger = Logger::new(session.recorder());
    logger.log(&Record::builder().args(format_args!("{}", Logs(&logger))).build());
    let trace = trace_of(&session);
    assert_eq!(trace.logs().map(|line| line.text()).collect::<Vec<_>>(), ["inner", "outer"]);
    assert!(!trace.losses().has_losses());
}

#[test]
fn metrics_are_counters_named_by_their_labels_with_their_units() {
    let session = Session::builder().start().expect("a session");
    let recorder = MetricsRecorder::new(session.recorder());
    metrics::with_local_recorder(&recorder, || {
        metrics::describe_counter!("requests", metrics::Unit::Count, "how many");
        metrics::describe_gauge!("memory", metrics::Unit::Bytes, "how much");
        for method in ["GET", "PUT", "GET"] {
            metrics::counter!("requests", "method" => method, "host" => "a").increment(2);
        }
        metrics::counter!("seen").absolute(7);
        metrics::counter!("seen").absolute(5);
        metrics::counter!("most").increment(u64::MAX);
        metrics::counter!("most").increment(1);
        let memory = metrics::gauge!("memory");
        memory.set(4096);
        memory.increment(0.5);
        memory.decrement(96.5);
        memory.set(f64::NAN);
        memory.increment(f64::INFINITY);
        metrics::histogram!("latency").record(0.25);
        metrics::histogram!("latency").record(1.0);
    });
    let trace = trace_of(&session);
    let values = |name: &str| {
        let counter = trace.counter(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(counter.track().pid(), Some(i64::from(std::process::id())));
        (counter.unit().to_owned(), counter.values().collect::<Vec<_>>())
    };
    assert_eq!(values("requests{method=GET,host=a}"), ("count".into(), vec![2.0, 4.0]));
    assert_eq!(values("requests{method=PUT,host=a}"), ("count".into(), vec![2.0]));
    assert_eq!(values("seen"), (String::new(), vec![7.0, 7.0]));
    assert_eq!(values("most"), (String::new(), vec![i64::MAX as f64; 2]));
    assert_eq!(values("memory"), ("bytes".into(), vec![4096.0, 4096.5, 4000.0]));
    assert_eq!(values("latency"), (String::new(), vec![0.25, 1.0]));
    assert_eq!(trace.counters().count(), 6);
}

#[test]
fn a_counter_of_many_threads_never_goes_back_and_ends_at_its_sum() {
    let session = Session::builder().ring(16 << 20).exhaustion(Exhaustion::Stall).start().expect("a session");
    let (whole, both) =
        ["whole", "both"].map(|name| SharedCounter::new(session.recorder(), name, Unit::Count)).into();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    whole.add(1);
                    both.add(1);
                    both.add_fraction(0.25);
                }
            });
        }
    });
    let trace = trace_of(&session);
    assert!(!trace.losses().has_losses());
    for (name, sum) in [("whole", 20_000.0), ("both", 25_000.0)] {
        let counter = trace.counter(name).expect("a counter");
        assert!(counter.values().is_sorted(), "{name}");
        assert_eq!(counter.values().next_back(), Some(sum), "{name}");
    }
    both.set(-2.5);
    assert_eq!(trace_of(&session).counter("both").and_then(|both| both.values().next_back()), Some(-2.5));
}
