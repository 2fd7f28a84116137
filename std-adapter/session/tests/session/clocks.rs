//! The times of events: boot time, monotonic time and time of day, for a reader that never extrapolates backwards.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track};
use tracebuf::service::ProducerIdentity;
use tracebuf_session::limits::SHARED_MEMORY;
use tracebuf_session::parts::{ClockReading, ProducerCell, RecordingGate, endpoint, words};
use tracebuf_session::{BufferConfig, LongTrace, Session, Waker};
use tracebuf_testing::clocks::Moment;
use tracebuf_testing::trace::Trace;
use tracebuf_testing::transport::Does;

/// More than clocks and threads are late by on a busy machine.
const LATE: u64 = 2_000_000_000;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracebuf-clocks-{name}-{}", std::process::id()))
}

/// Records some instants, with pauses, and returns what the clocks showed before each.
fn record(session: &Session) -> Vec<ClockReading> {
    let recorder = session.recorder();
    let instants = (0..4).map(|_| {
        let now = ClockReading::now();
        recorder.instant("now");
        std::thread::sleep(Duration::from_millis(30));
        now
    });
    instants.collect()
}

/// Checks each event's times. Those of events one after the other differ by as much as they do in truth.
fn assert_right(trace: &Trace, truth: &[ClockReading]) {
    let moments = trace.moments();
    assert_eq!(moments.len(), truth.len());
    for (Moment { boottime, monotonic, realtime }, truth) in moments.iter().zip(truth) {
        let late = boottime - truth.boottime;
        assert!(late < LATE, "{late}");
        let off = |time: &u64, truth: u64| (*time - truth).abs_diff(late);
        assert!(off(monotonic, truth.monotonic) < 200_000 && off(realtime, truth.realtime) < 5_000_000);
    }
    let (pairs, last) = (trace.clock_pairs(), moments.last().expect("an event").boottime);
    assert!(
        pairs.len() >= 2 && pairs.last().expect("a pair").boottime > last,
        "one is newer than all events"
    );
}

#[test]
fn in_a_snapshot_and_at_the_end_each_event_has_its_times() {
    let session = Session::builder().ring(1 << 20).start().expect("a session");
    let mut truth = record(&session);
    let out = path("snapshot");
    session.snapshot().expect("a snapshot").write_to(&out).expect("a trace");
    assert_right(&Trace::read(&out), &truth);
    // Of a part of it too.
    let middle = truth[2].boottime;
    session.snapshot().expect("a snapshot").since(middle).write_to(&out).expect("a trace");
    assert_right(&Trace::read(&out), &truth[2..]);
    truth.extend(record(&session));
    session.stop().expect("a stop").write_to(&out).expect("a trace");
    assert_right(&Trace::read(&out), &truth);
    std::fs::remove_file(out).expect("it is there");
}

#[test]
fn in_a_long_trace_each_event_has_its_times_at_any_moment() {
    let out = path("long");
    let long = LongTrace::to(&out).period(Duration::from_millis(20));
    let session = Session::builder().ring(1 << 20).long_trace(long).start().expect("a session");
    let truth = record(&session);
    let so_far = Trace::read_cut(&out).moments().len();
    session.stop().expect("a stop");
    let trace = Trace::read(&out);
    assert_right(&trace, &truth);
    assert!(so_far <= truth.len());
    // With its statistics, which tell the same boot time, it ends.
    let last = trace.packets().next_back().expect("statistics");
    let stats_at = tracebuf_testing::trace::number(last, 8);
    assert_eq!(stats_at, trace.clock_pairs().last().map(|pair| pair.boottime));
    std::fs::remove_file(out).expect("it is there");
}

#[cfg(unix)]
#[test]
fn what_a_killed_session_left_has_its_times() {
    use tracebuf_analysis::recover::Survivor;

    let (region, out) = (path("region"), path("recovered"));
    let buffer = BufferConfig::ring(1 << 20).in_file(&region);
    let session = Session::builder().buffer(buffer).start().expect("a session");
    let truth = record(&session);
    session.flush(Duration::from_secs(5)).expect("a flush");
    // As a kill leaves it.
    Survivor::open(&region).expect("a buffer").write_to(&out).expect("a trace");
    let trace = Trace::read(&out);
    let moments = trace.moments();
    assert_eq!(moments.len(), truth.len());
    for (moment, truth) in moments.iter().zip(&truth) {
        let late = moment.boottime - truth.boottime;
        assert!(late < LATE && (moment.realtime - truth.realtime).abs_diff(late) < 5_000_000);
    }
    drop(session);
    [region, out].into_iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
}

#[test]
fn the_time_of_day_is_that_of_the_system() {
    let before = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let reading = ClockReading::now();
    let after = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    assert!((before.as_nanos()..=after.as_nanos()).contains(&u128::from(reading.realtime)));
}

/// A clock of the system by its number in traces.
#[derive(Clone, Copy)]
struct SystemClock(u32);

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        let ClockReading { boottime, monotonic, realtime } = ClockReading::now();
        match self.0 {
            1 => realtime,
            3 => monotonic,
            _ => boottime,
        }
    }
}

/// Adds the instants of a producer with a clock of its own, and returns when they were.
fn attach_with_clock(session: &Session, clock: u32) -> Vec<ClockReading> {
    let (gate, waker) = (RecordingGate::new().into(), Waker::default());
    let cell = ProducerCell::in_memory(words(*SHARED_MEMORY.start()), gate, waker, "own clock".into());
    // It lives as long as the session, which is to the end of the test.
    let cell: &'static ProducerCell = Box::leak(Box::new(cell.expect("memory")));
    let writer = cell.producer().writer(0, Exhaustion::Drop).expect("a writer");
    let track = Track::thread(1, clock, "own clock");
    let config = TracerConfig::new(1_000_000_000).clock_id(clock);
    let tracer: Tracer<'_, _> = Tracer::new(writer, SystemClock(clock), &track, config);
    let truth = (0..3).map(|_| {
        let now = ClockReading::now();
        tracer.track().instant("now");
        std::thread::sleep(Duration::from_millis(20));
        now
    });
    let truth = truth.collect();
    drop(tracer);
    cell.producer().flush();
    let mut requests = Vec::new();
    cell.queue().take(&mut requests);
    let producer_id = session.new_producer_id().expect("a number");
    let identity = ProducerIdentity { producer_id, uid: 0, pid: 1 };
    let mut its_end = endpoint(cell.producer().memory(), identity, 1);
    let carry_out = move |buffers: &mut [_]| {
        requests.drain(..).for_each(|request| _ = its_end.carry_out_one(&request, buffers));
        true
    };
    session.attach(Does::new(carry_out)).expect("it runs");
    truth
}

#[test]
fn threads_whose_clock_is_the_time_of_day_or_the_steady_clock_have_the_same_times_as_others() {
    let (snapshot, long) = (path("own-clocks"), path("own-clocks-long"));
    for is_long in [false, true] {
        let mut builder = Session::builder().ring(1 << 20);
        if is_long {
            builder = builder.long_trace(LongTrace::to(&long).period(Duration::from_millis(20)));
        }
        let session = builder.start().expect("a session");
        let mut truth = record(&session);
        truth.extend([1, 3, 6].into_iter().flat_map(|clock| attach_with_clock(&session, clock)));
        let mut stopped = session.stop().expect("a stop");
        let trace = if is_long {
            Trace::read(&long)
        } else {
            stopped.write_to(&snapshot).expect("a trace");
            Trace::read(&snapshot)
        };
        let mut moments = trace.moments();
        moments.sort_unstable_by_key(|moment| moment.boottime);
        assert_eq!(moments.len(), truth.len());
        for (moment, truth) in moments.iter().zip(&truth) {
            // Two clocks that are read one after the other agree to some hundred nanoseconds.
            let late = moment.boottime as i64 - truth.boottime as i64;
            assert!((-100_000..LATE as i64).contains(&late), "{late}");
            assert!((moment.realtime as i64 - truth.realtime as i64).abs_diff(late) < 5_000_000);
        }
        assert!(trace.packets().all(shows_boot_time), "in each packet with clocks");
    }
    [snapshot, long].into_iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
}

/// Whether a packet's clocks, if it has any, leave it at boot time what the trace is shown in.
fn shows_boot_time(packet: &[u8]) -> bool {
    use tracebuf_testing::trace::{message, number};
    message(packet, 6).is_none_or(|clocks| number(clocks, 2) == Some(6))
}
