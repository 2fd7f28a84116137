//! Snapshots beside a long trace.

use std::sync::Arc;
use std::time::Duration;

use tracebuf_analysis::Trace;
use tracebuf_session::{Exhaustion, FlightRecorder, LongTrace, Session};

use crate::trace::folder;

#[test]
fn a_flight_recorder_s_snapshots_have_what_the_file_has_already_and_the_file_misses_nothing() {
    let folder = folder("beside");
    let path = folder.join("long.pftrace");
    let trace = LongTrace::to(&path).period(Duration::from_millis(10));
    let session = Session::builder().ring(256 << 10).shared_memory(64 << 10).ring(64 << 10);
    let session = session.exhaustion(Exhaustion::Stall);
    let session = session.data_source("rare", 1).long_trace(trace).start().expect("a session");
    let session = Arc::new(session);
    let flight = FlightRecorder::new(&session, &folder).expect("a recorder");
    let (recorder, rare) = (session.recorder(), session.recorder_of("rare").expect("a source"));
    rare.instant("rare");
    let open = recorder.enter_with("request", |event| event.arg("key", 42));
    let mut indices = 0..;
    let mut record = |count: usize| {
        for index in indices.by_ref().take(count) {
            recorder.slice_with("part", |event| event.arg("index", index), || ());
            if index % 200 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    let in_snapshot = |reason: &str| {
        let path = flight.snapshot(reason).expect("a snapshot");
        let trace = Trace::open(path).expect("a trace");
        assert!(trace.faults().is_empty(), "{:?}", trace.faults());
        assert_eq!(trace.instants().filter(|event| event.name() == "rare").count(), 1, "{reason}");
        let request = trace.slice("request").expect("it is open");
        assert!(request.argument("key").is_some() && request.duration().is_none());
        let parts = trace.slices().filter(|slice| slice.name() == "part");
        let index = |part: tracebuf_analysis::trace::Event<'_>| {
            assert_eq!(part.parent(), Some(request));
            part.argument("index").and_then(|value| value.as_i64()).expect("an argument")
        };
        parts.map(index).collect::<Vec<_>>()
    };
    // All that was recorded, most of it written already.
    record(1000);
    crate::wait_for(&session, |status| status.bytes > 5000);
    assert_eq!(in_snapshot("few"), (0..1000).collect::<Vec<_>>());
    // As much as the ring has room for, without a gap, to the newest.
    record(29_000);
    let newest = in_snapshot("many");
    assert!(newest.len() > 2500 && newest.len() < 20_000, "{}", newest.len());
    assert!(newest.windows(2).all(|pair| pair[1] == pair[0] + 1) && newest.ends_with(&[29_999]));
    drop(open);
    drop(flight);
    let stopped = session.stop().expect("a stop");
    assert!(stopped.summary().losses().is_nothing(), "{}", stopped.summary().losses());
    let trace = Trace::open(&path).expect("a trace");
    assert_eq!(trace.slices().filter(|slice| slice.name() == "part").count(), 30_000);
    assert!(!trace.losses().has_losses());
}
