//! Long traces: kills at any moment, full disks, removed files, readers that stop, and the largest size.

#[path = "support/trace.rs"]
mod trace;

use std::io::{BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trace::{Trace, mkfifo, scratch};
use tracebuf::buffer::{Chunk, ChunkHeader};
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::service::EndpointStats;
use tracebuf_std::session::{CentralBuffer, LongTrace, LongTraceStatus, PacketWriter, Session, Transport};

static COUNTER: Track<'static> = Track::counter("events", Unit::Count);

fn quick(path: &Path) -> LongTrace {
    LongTrace::to(path).period(Duration::from_millis(10))
}

/// Waits for the file to get into a state; it is looked at every period.
fn wait_for(session: &Session, is: impl Fn(&LongTraceStatus) -> bool) -> LongTraceStatus {
    for _ in 0..1000 {
        let status = session.long_trace().expect("a long trace");
        if is(&status) {
            return status;
        }
        session.recorder().instant("meanwhile");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("ten seconds are over: {:?}", session.long_trace());
}

#[test]
fn what_is_recorded_is_in_the_file_before_the_end_and_all_of_it_after() {
    let path = scratch("periods.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    session.recorder().instant("early");
    wait_for(&session, |_| Trace::read_cut(&path).contains("early"));
    let so_far = session.summary().expect("an answer").file.expect("a file");
    assert!(so_far.packets > 0 && so_far.bytes > 0, "{so_far:?}");
    session.recorder().instant("late");
    let stopped = session.stop().expect("a stop");
    let trace = Trace::read(&path);
    assert!(trace.contains("late"));
    assert_eq!(stopped.file.expect("a file").packets, trace.packets().count() as u64);
    assert_eq!(stopped.file.expect("a file").bytes, trace.bytes.len() as u64);
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
}

#[test]
fn nothing_is_written_in_place_of_the_long_trace() {
    let (path, link) = (scratch("in its place.pftrace"), scratch("another name.pftrace"));
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    session.recorder().instant("hello");
    let why = "it is the file of the session's long trace";
    for path in [&path, &link] {
        let error = session.snapshot().expect("a snapshot").write_to(path).expect_err("it is in use");
        assert_eq!(error.to_string(), why);
    }
    let mut stopped = session.stop().expect("a stop");
    let before = Trace::read(&path).bytes;
    for path in [&path, &link] {
        assert_eq!(stopped.write_to(path).expect_err("it is complete").to_string(), why);
    }
    assert!(Trace::read(&path).contains("hello") && Trace::read(&path).bytes == before);
    std::fs::remove_file(&link).expect("it is there");
    stopped.write_to(&link).expect("another file");
    // Of a device there is nothing to lose.
    let session = Session::builder().long_trace(quick("/dev/null".as_ref())).start().expect("a session");
    session.stop().expect("a stop").write_to("/dev/null".as_ref()).expect("it takes all");
}

#[test]
fn a_period_that_never_ends_leaves_all_to_the_end() {
    let path = scratch("one period.pftrace");
    let trace = LongTrace::to(&path).period(Duration::MAX);
    let session = Session::builder().long_trace(trace).start().expect("a session");
    session.recorder().instant("only");
    session.flush(Duration::from_secs(5)).expect("a flush");
    assert_eq!(Trace::read_cut(&path).bytes.len(), 0);
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("only"));
}

/// A producer that always has more, or never answers.
#[derive(Clone, Default)]
struct Other {
    more: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    chunk_id: u32,
}

impl Transport for Other {
    fn drain(&mut self, buffers: &mut [CentralBuffer]) -> usize {
        let mut count = 0;
        while self.more.load(Ordering::Relaxed) && count < 2048 {
            // A packet of a thousand bytes, with its time in it many times.
            let payload = [&[0xE8, 0x07][..], &[0x40, 1].repeat(500)].concat();
            let header = ChunkHeader {
                producer_id: 2,
                writer_id: 1,
                chunk_id: self.chunk_id,
                fragments: 1,
                complete: true,
                ..ChunkHeader::default()
            };
            buffers[0].copy_chunk_untrusted(&Chunk { header, payload: &payload });
            self.chunk_id += 1;
            count += 1;
        }
        count
    }

    fn ask_flush(&mut self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn is_flushed(&self) -> bool {
        !self.silent.load(Ordering::Relaxed)
    }

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }
}

#[test]
fn a_producer_that_brings_as_much_as_is_read_keeps_nobody_waiting() {
    let trace = quick("/dev/null".as_ref());
    let session = Session::builder().ring(16 << 20).long_trace(trace).start().expect("a session");
    let other = Other::default();
    other.more.store(true, Ordering::Relaxed);
    session.attach(other.clone()).expect("an answer");
    let status = wait_for(&session, |status| status.bytes > 8 << 20);
    let summary = session.summary();
    // Else a session that reads without end would do so for ever.
    other.more.store(false, Ordering::Relaxed);
    let summary = summary.expect("an answer");
    assert!(summary.buffers[0].bytes_read > status.bytes / 2 && summary.invalid_packets == 0);
    session.stop().expect("a stop");
}

#[test]
fn a_buffer_that_is_filled_as_fast_as_it_is_read_keeps_no_other_waiting() {
    let session = Session::builder().ring(16 << 20).ring(1 << 20).data_source("rare", 1);
    let session = session.long_trace(quick("/dev/null".as_ref())).start().expect("a session");
    let other = Other::default();
    other.more.store(true, Ordering::Relaxed);
    session.attach(other.clone()).expect("an answer");
    wait_for(&session, |status| status.bytes > 8 << 20);
    session.recorder_of("rare").expect("a source").instant("rare");
    let is_read = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        session.summary().is_ok_and(|summary| summary.buffers[1].chunks_read > 0)
    });
    other.more.store(false, Ordering::Relaxed);
    assert!(is_read);
    session.stop().expect("a stop");
}

#[test]
fn a_producer_that_does_not_answer_keeps_nobody_waiting() {
    let path = scratch("silent.pftrace");
    let period = Duration::from_secs(7);
    let session = Session::builder().long_trace(LongTrace::to(&path).period(period)).start();
    let session = session.expect("a session");
    let other = Other::default();
    other.silent.store(true, Ordering::Relaxed);
    session.attach(other.clone()).expect("an answer");
    session.recorder().instant("x");
    while !other.asked.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let asked = Instant::now();
    session.summary().expect("an answer");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    // It has 5 seconds, and not a period, which may be an hour.
    wait_for(&session, |status| status.bytes > 0);
    assert!(asked.elapsed() < Duration::from_millis(6500), "{:?}", asked.elapsed());
    assert!(session.summary().expect("an answer").flushes.failed == 1);
    other.silent.store(false, Ordering::Relaxed);
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("x"));
}

/// How many times to kill; 300 by `TRACEBUF_KILLS=300`.
fn kills() -> u64 {
    std::env::var("TRACEBUF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[test]
#[ignore = "the process that the next test kills"]
fn recording_until_killed() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    let session =
        Session::builder().ring(32 << 20).shared_memory(4 << 20).long_trace(quick(path.as_ref())).start();
    let session = session.expect("a session");
    for _ in 0..3 {
        let recorder = session.recorder();
        std::thread::spawn(move || {
            for value in 0.. {
                recorder.count(&COUNTER, value);
                if value % 256 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
    loop {
        println!("bytes {}", session.long_trace().expect("a long trace").bytes);
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn after_a_kill_the_file_holds_all_that_was_written_in_order_and_nothing_twice() {
    let path = scratch("killed.pftrace");
    let (mut events, mut longest) = (0, Vec::new());
    let mut random = u64::from(std::process::id()) | 1;
    for kill in 0..kills() {
        let _ = std::fs::remove_file(&path);
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["recording_until_killed", "--exact", "--ignored", "--nocapture"])
            .env("TRACEBUF_CHILD_TRACE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let bytes = |line: String| line.strip_prefix("bytes ")?.parse::<u64>().ok();
        let mut said = output.lines().map_while(Result::ok).filter_map(bytes);
        let first = said.next().expect("it records");
        let reader = std::thread::spawn(move || said.last().unwrap_or(first));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 200_000));
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let promised = reader.join().expect("its last words");
        let trace = Trace::read_cut(&path);
        assert!(trace.whole as u64 >= promised, "kill {kill}: {} of {promised} bytes", trace.whole);
        assert_eq!(trace.losses(), 0, "kill {kill}");
        for (sequence, values) in trace.counters() {
            let expected: Vec<u64> = (0..values.len() as u64).collect();
            assert_eq!(values, expected, "kill {kill}, sequence {sequence}");
            events += values.len();
        }
        if trace.whole > longest.len() {
            longest = trace.bytes[..trace.whole].to_vec();
        }
    }
    assert!(events > 0, "some recorded something");
    // What is whole of the longest one, for other decoders to look at.
    std::fs::write(scratch("killed-whole.pftrace"), longest).expect("a file");
    std::fs::remove_file(&path).expect("it is there");
}

/// Records until the file is full.
fn fill(session: &Session) {
    let recorder = session.recorder();
    while recorder.is_on() {
        (0..100).for_each(|_| recorder.instant("event"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a session that has filled its file has left there, in so many bytes.
fn stop_full(session: &Session, path: &Path, sizes: RangeInclusive<usize>) -> Trace {
    let stopped = session.stop().expect("a stop");
    assert!(stopped.long_trace.is_some_and(|status| status.full && status.bytes_given_up == 0));
    let trace = Trace::read(path);
    assert!(sizes.contains(&trace.bytes.len()), "{} of {sizes:?}", trace.bytes.len());
    assert_eq!(stopped.file.expect("a file").packets, trace.packets().count() as u64);
    trace
}

#[test]
fn a_full_file_ends_with_its_statistics_and_the_session_records_no_more() {
    let path = scratch("full.pftrace");
    let trace = quick(&path).max_file_size(50_000);
    let session = Session::builder().long_trace(trace).start().expect("a session");
    fill(&session);
    stop_full(&session, &path, 45_000..=50_000).assert_ends_with_stats();
}

#[test]
fn more_writers_than_there_is_room_left_for_make_the_file_no_larger() {
    let path = scratch("many writers.pftrace");
    let session = Session::builder().shared_memory(4 << 20).long_trace(quick(&path).max_file_size(50_000));
    let session = session.start().expect("a session");
    let mut writers: Vec<_> = (0..900).map_while(|_| session.recorder().packets()).collect();
    // for_testing.str
    let write = |writer: &mut PacketWriter, len| {
        writer.packet(|packet| packet.message(900).string(1, &"x".repeat(len)));
    };
    (0..30).for_each(|_| write(&mut writers[0], 1000));
    wait_for(&session, |status| status.bytes > 30_000);
    writers.iter_mut().for_each(|writer| write(writer, 1));
    stop_full(&session, &path, 30_000..=50_000).assert_ends_with_stats();
}

#[test]
fn a_file_may_be_too_small_for_anything() {
    let path = scratch("too small");
    for size in [0, 64, 400, 1000, 2000, 5000] {
        let session = Session::builder().long_trace(quick(&path).max_file_size(size));
        let session = session.start().expect("a session");
        fill(&session);
        let trace = stop_full(&session, &path, 0..=size as usize);
        if size >= 400 {
            trace.assert_ends_with_stats();
        }
    }
    std::fs::remove_file(&path).expect("the file is there");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_while_it_is_full_and_at_the_end() {
    let session = Session::builder().long_trace(quick("/dev/full".as_ref())).start().expect("a session");
    session.recorder().instant("x");
    let status = wait_for(&session, |status| status.error.is_some());
    assert!(status.error.expect("an error").contains("No space left"), "and what it is");
    assert_eq!(status.bytes, 0);
    let stopped = session.stop().expect("a stop");
    let status = stopped.long_trace.expect("a status");
    assert!(status.error.is_some() && status.bytes_given_up > 0, "{status:?}");
}

#[test]
fn a_removed_file_is_told() {
    let path = scratch("removed.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    wait_for(&session, |status| status.bytes > 0);
    std::fs::remove_file(&path).expect("the file is there");
    let status = wait_for(&session, |status| status.error.is_some());
    assert_eq!(status.error.as_deref(), Some("the file was removed"));
    assert!(session.stop().expect("a stop").long_trace.expect("a status").error.is_some());
}

#[test]
fn a_file_that_somebody_else_cuts_is_told_to_the_end_and_goes_on_without_a_hole() {
    let path = scratch("cut.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    wait_for(&session, |status| status.bytes > 1000);
    // As `> cut.pftrace` does, and what copies a log and then empties it.
    std::fs::File::create(&path).expect("the file is there");
    let status = wait_for(&session, |status| status.error.is_some());
    assert!(status.error.as_deref().is_some_and(|error| error.contains("somebody else changed the file")));
    session.recorder().instant("after it");
    let stopped = session.stop().expect("a stop");
    assert_eq!(stopped.long_trace.expect("a status").error, status.error);
    let trace = Trace::read(&path);
    assert!(trace.contains("after it"));
    trace.assert_ends_with_stats();
    let written = stopped.file.expect("a file");
    assert_eq!((written.bytes, written.packets), (trace.bytes.len() as u64, trace.packets().count() as u64));
}

/// The pipe takes 64 KiB and then nothing: packets stay in the ring until they are overwritten there.
#[cfg(target_os = "linux")]
#[test]
fn while_a_reader_does_not_read_losses_are_counted_and_shown() {
    let path = scratch("stalled.fifo");
    mkfifo(&path);
    // For reading and writing, so that neither side waits for the other.
    let mut reader =
        std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("the reader's end");
    let session = Session::builder().ring(256 << 10).long_trace(quick(&path)).start().expect("a session");
    let recorder = session.recorder();
    let overwritten = |session: &Session| session.summary().expect("a summary").buffers[0].chunks_overwritten;
    for value in 0.. {
        recorder.count(&COUNTER, value);
        if value % 1000 == 0 {
            session.flush(Duration::from_secs(5)).expect("the drain thread does not wait for the reader");
            if overwritten(&session) > 50 {
                break;
            }
        }
    }
    // The session waits for the reader at its end, and no longer before.
    let received = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut part = [0; 65_536];
        while !bytes.ends_with(b"THE END") {
            let len = reader.read(&mut part).expect("the pipe");
            bytes.extend_from_slice(&part[..len]);
        }
        bytes.truncate(bytes.len() - 7);
        bytes
    });
    session.stop().expect("a stop");
    std::fs::write(&path, "THE END").expect("the pipe is open");
    let copy = scratch("stalled.pftrace");
    std::fs::write(&copy, received.join().expect("the trace")).expect("a file");
    let trace = Trace::read(&copy);
    assert!(trace.losses() > 0);
    trace.assert_ends_with_stats();
}
