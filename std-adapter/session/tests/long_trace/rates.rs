//! Rates that a long trace with nothing set but its path loses nothing of, and gaps where the file takes nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf_analysis::Trace;
use tracebuf_session::{Compression, Exhaustion, LongTrace, Recorder, Session};

use crate::trace::scratch;

/// A slice with arguments: begin and end take some 72 bytes.
const SLICE: f64 = 72.0;

/// Records slices from so many threads, so many bytes a second in all; returns how many slices.
fn record(session: &Session, threads: u64, rate: f64, time: Duration) -> u64 {
    let start = Instant::now();
    let slices = |recorder: Recorder, number: u64| {
        let mut index = 0_u64;
        while start.elapsed() < time {
            let due = (start.elapsed().as_secs_f64() * rate / SLICE / threads as f64) as u64;
            while index < due {
                recorder.slice_with(
                    "request",
                    |event| event.arg("thread", number).arg("index", index).arg("path", "/api/v1/items"),
                    || (),
                );
                index += 1;
            }
            thread::sleep(Duration::from_millis(2));
        }
        index
    };
    thread::scope(|scope| {
        let threads = (0..threads).map(|number| {
            let recorder = session.recorder();
            scope.spawn(move || slices(recorder, number))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// Whether each slice of each thread is there once, with its arguments, and has ended.
fn assert_has_all(path: &Path, recorded: u64) {
    let trace = Trace::open(path).expect("a trace");
    let mut seen: Vec<(i64, i64)> = Vec::new();
    for slice in trace.slices().filter(|slice| slice.name() == "request") {
        let argument = |name| slice.argument(name).and_then(|value| value.as_i64()).expect("an argument");
        assert!(slice.duration().is_some() && slice.argument("path").is_some());
        seen.push((argument("thread"), argument("index")));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, recorded);
    assert_eq!(trace.slices().count() as u64, recorded);
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    assert!(!trace.losses().has_losses(), "{}", trace.losses());
}

fn assert_loses_nothing(name: &str, trace: impl Fn(&Path) -> LongTrace, rate: f64, time: Duration) {
    let path = scratch(name);
    let session = Session::builder().long_trace(trace(&path)).start().expect("a session");
    let recorded = record(&session, 8, rate, time);
    let stopped = session.stop().expect("a stop");
    let losses = stopped.summary().losses();
    assert!(losses.is_nothing(), "of {recorded}: {losses}");
    assert_has_all(&path, recorded);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn with_nothing_set_nothing_of_four_megabytes_a_second_is_lost() {
    assert_loses_nothing("four.pftrace", |path| LongTrace::to(path), 4e6, Duration::from_secs(3));
}

#[cfg(feature = "deflate")]
#[test]
fn nor_is_with_compression() {
    let trace = |path: &Path| LongTrace::to(path).compress(Compression::Deflate);
    assert_loses_nothing("deflated.pftrace", trace, 4e6, Duration::from_secs(2));
}

#[test]
#[ignore = "takes 80 s, and a machine of its own"]
fn nor_is_of_that_for_a_minute_nor_of_forty_for_ten_seconds() {
    assert_loses_nothing("minute.pftrace", |path| LongTrace::to(path), 4e6, Duration::from_secs(60));
    assert_loses_nothing("forty.pftrace", |path| LongTrace::to(path), 40e6, Duration::from_secs(10));
    let _ = Compression::None;
}

#[test]
fn the_file_is_written_when_a_ring_is_half_full_though_the_period_is_not_over() {
    let path = scratch("half full.pftrace");
    let trace = LongTrace::to(&path).period(Duration::MAX);
    let session = Session::builder().ring(1 << 20).shared_memory(256 << 10).exhaustion(Exhaustion::Stall);
    let session = session.long_trace(trace).start().expect("a session");
    // Some five rings.
    let recorded = record(&session, 2, 5e6, Duration::from_secs(1));
    let is_written = |_| {
        thread::sleep(Duration::from_millis(10));
        session.long_trace().expect("a status").bytes > 300_000
    };
    assert!((0..1000).any(is_written), "{:?}", session.long_trace());
    let losses = session.stop().expect("a stop").summary().losses();
    assert!(losses.is_nothing(), "{losses}");
    assert_has_all(&path, recorded);
}

/// A pipe takes 64 KiB and then nothing, for some mebibytes; then it takes everything.
#[cfg(unix)]
#[test]
fn what_a_file_does_not_take_is_one_gap_that_costs_nothing_else_and_is_counted_to_the_packet() {
    use std::io::Read;

    let path = scratch("gap.fifo");
    crate::trace::mkfifo(&path);
    let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("a reader's end");
    let trace = LongTrace::to(&path).period(Duration::from_millis(10)).backlog(2 << 20);
    let session = Session::builder().long_trace(trace).start().expect("a session");
    let recorder = session.recorder();
    let open = recorder.enter_with("whole", |event| event.arg("key", 1));
    let mut recorded = 0_u64;
    let mut slice = |recorder: &Recorder| {
        recorder.slice_with("request", |event| event.arg("index", recorded), || ());
        recorded += 1;
    };
    let lost = || session.long_trace().expect("a status").packets_not_written;
    while lost() < 1000 {
        (0..2000).for_each(|_| slice(&recorder));
        session.flush(Duration::from_secs(5)).expect("the drain thread does not wait for the reader");
    }
    static DONE: AtomicBool = AtomicBool::new(false);
    let received = thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 65_536]);
        while !bytes.ends_with(b"THE END") {
            let len = reader.read(&mut part).expect("the pipe");
            bytes.extend_from_slice(&part[..len]);
        }
        assert!(DONE.load(Ordering::Relaxed));
        bytes.truncate(bytes.len() - 7);
        bytes
    });
    // A thread that begins behind the gap, and one that goes on.
    thread::scope(|scope| scope.spawn(|| session.recorder().instant("behind")).join().expect("no panic"));
    (0..100).for_each(|_| slice(&recorder));
    drop(open);
    let stopped = session.stop().expect("a stop");
    DONE.store(true, Ordering::Relaxed);
    std::fs::write(&path, "THE END").expect("the pipe is open");
    let trace = Trace::of(&received.join().expect("the trace")).expect("a trace");
    let (losses, status) = (stopped.summary().losses(), stopped.long_trace.clone().expect("a status"));
    assert_eq!(losses.packets_unreadable, 0, "{losses}");
    assert_eq!(losses.packets_not_written, status.packets_not_written);
    let index =
        |slice: &tracebuf_analysis::trace::Event<'_>| slice.argument("index").and_then(|v| v.as_i64());
    let requests: Vec<_> = trace.slices().filter(|slice| slice.name() == "request").collect();
    let mut there: Vec<_> = requests.iter().filter_map(index).collect();
    there.dedup();
    assert!(there.is_sorted() && there.last() == Some(&(recorded as i64 - 1)));
    // Of each lost slice begin and end; of one that is open at an edge of the gap both are there.
    let lost = 2 * (recorded - there.len() as u64);
    let told = losses.packets_not_written;
    assert!(lost.abs_diff(told) <= 2, "{lost} and {told} told");
    let gaps = there.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert_eq!(gaps, 1, "{losses}");
    // What was open before the gap is one slice, with its real begin, which encloses what came after it.
    let whole = trace.slice("whole").expect("it was open");
    assert!(whole.argument("key").is_some());
    assert!(whole.duration().is_some(), "{losses}; {:?}; {:?}", trace.faults(), stopped.summary().sequences);
    assert!(requests.iter().all(|slice| slice.parent() == Some(whole)));
    assert!(trace.instants().any(|event| event.name() == "behind"));
    assert!(trace.losses().has_losses(), "{}", trace.losses());
}
