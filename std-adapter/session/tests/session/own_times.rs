//! Events with a time of their own.

use std::time::{Duration, Instant, SystemTime};

use tracebuf_analysis::Trace;
use tracebuf_session::{BufferConfig, EventTime, Session, Track, Unit, this_process};

fn trace_of(session: &Session) -> Trace {
    let mut bytes = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut bytes).expect("memory");
    Trace::of(&bytes).expect("a trace")
}

#[test]
fn events_of_any_time_leave_those_after_them_at_theirs() {
    for self_contained in [false, true] {
        let ring = BufferConfig::ring(1 << 20);
        let ring = if self_contained { ring.self_contained_chunks() } else { ring };
        let session = Session::builder().buffer(ring).start().expect("a session");
        let recorder = session.recorder();
        let process = this_process();
        let gpu = Track::custom("gpu").within(&process);
        let load = Track::counter("load", Unit::Count).within(&process);
        let start = EventTime::now().as_nanoseconds();
        let at =
            |nanoseconds: u64| recorder.on(&gpu).at(EventTime::nanoseconds(start - 1_000_000 + nanoseconds));
        for round in 0..500 {
            // The newest first, each with what lies in it.
            let begin = (500 - round) * 1000;
            recorder.instant("now");
            at(begin).slice_with("draw", Duration::from_nanos(900), |event| event.arg("round", round));
            at(begin + 10).begin("part");
            at(begin + 20).end_with(|event| event.arg("done", true));
            at(begin + 5).instant("mark");
            recorder.on(&load).at(EventTime::nanoseconds(start - 1_000_000 + begin)).count(round as i64);
        }
        recorder.on(&load).at(EventTime::nanoseconds(start)).measure(0.5);
        let (end, trace) = (EventTime::now().as_nanoseconds(), trace_of(&session));
        assert_eq!((trace.faults(), trace.losses().has_losses()), (&[][..], false));
        let draws: Vec<_> = trace.slices().filter(|slice| slice.name() == "draw").collect();
        assert_eq!(draws.len(), 500);
        for (place, draw) in draws.iter().enumerate() {
            assert_eq!(draw.begin(), start - 1_000_000 + (place as u64 + 1) * 1000);
            assert_eq!(draw.duration(), Some(Duration::from_nanos(900)));
            assert_eq!(draw.argument("round").and_then(|round| round.as_i64()), Some(499 - place as i64));
            let within: Vec<_> =
                draw.children().map(|child| (child.name(), child.begin() - draw.begin())).collect();
            assert_eq!(within, [("mark", 5), ("part", 10)]);
        }
        let points = trace.counter("load").expect("a counter").points();
        assert_eq!((points[0], points.last()), ((start - 999_000, 499.0), Some(&(start, 0.5))));
        let times: Vec<_> =
            trace.instants().filter(|instant| instant.name() == "now").map(|now| now.begin()).collect();
        assert!(times.len() == 500 && times.is_sorted() && times[0] >= start && times[499] <= end);
    }
}

#[test]
fn instants_and_times_of_day_are_the_same_moments_of_boot_time() {
    let (hour, before) = (Duration::from_secs(3600), EventTime::now());
    let pairs = [
        EventTime::from(Instant::now()),
        EventTime::from(SystemTime::now()),
        EventTime::from(Instant::now() + hour),
        EventTime::from(SystemTime::now() + hour),
    ];
    let (before, after) = (before.as_nanoseconds(), EventTime::now().as_nanoseconds());
    for (pair, later) in pairs.iter().zip([0, 0, hour.as_nanos() as u64, hour.as_nanos() as u64]) {
        let time = pair.as_nanoseconds() - later;
        // Two readings of the clock may be apart, and the time of day may be set a little.
        assert!(time + 50_000_000 > before && time < after + 50_000_000, "{before} {time} {after}");
    }
    assert_eq!(
        EventTime::from(SystemTime::UNIX_EPOCH),
        EventTime::nanoseconds(0),
        "before the machine's start"
    );
}
