//! Producers alongside what is written: ones that never end, that never answer, or that record in the middle of a
//! flush.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracebuf::buffer::{Chunk, ChunkHeader};
use tracebuf::service::EndpointStats;
use tracebuf::service::FlushTracker;
use tracebuf_session::{CentralBuffer, LongTrace, Session, Transport};

use crate::trace::{Trace, scratch};
use crate::transport::Does;
use crate::{quick, wait_for};

/// A producer that always has more, or never answers.
#[derive(Clone, Default)]
struct Other {
    more: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    chunk_id: u32,
}

impl Transport for Other {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        if !self.silent.load(Ordering::Relaxed) {
            flushes.answer_all();
        }
        for _ in 0..2048 {
            if !self.more.load(Ordering::Relaxed) {
                break;
            }
            // A packet of a thousand bytes, with its time in it many times.
            let payload = [&[0xE8, 0x07][..], &[0x40, 1].repeat(500)].concat();
            let header = ChunkHeader {
                producer_id: 2,
                writer_id: 1,
                chunk_id: self.chunk_id,
                fragments: 1,
                ..ChunkHeader::default()
            };
            buffers[0].copy_chunk_untrusted(&Chunk { header, payload: &payload });
            self.chunk_id += 1;
        }
    }

    fn ask_flush(&mut self, _: u64) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }
}

/// Where what is written takes no room; on Windows a file.
fn nowhere(name: &str) -> PathBuf {
    if cfg!(unix) { "/dev/null".into() } else { scratch(name) }
}

#[test]
fn a_producer_that_brings_as_much_as_is_read_keeps_nobody_waiting() {
    let trace = quick(&nowhere("as much"));
    let session = Session::builder().ring(16 << 20).long_trace(trace).start().expect("a session");
    let other = Other::default();
    other.more.store(true, Ordering::Relaxed);
    session.attach(other.clone()).expect("an answer");
    let status = wait_for(&session, |status| status.bytes > 8 << 20);
    let summary = session.summary();
    // Otherwise a session that reads without end would do so for ever.
    other.more.store(false, Ordering::Relaxed);
    let summary = summary.expect("an answer");
    assert!(summary.buffers[0].bytes_read > status.bytes / 2 && summary.invalid_packets == 0);
    session.stop().expect("a stop");
}

#[test]
fn packets_that_are_left_out_are_not_read_all_at_once_either() {
    // Long enough for all of them, so that it is not the period's end that ends the reading.
    let trace = LongTrace::to(nowhere("refused")).period(Duration::from_secs(2));
    let session = Session::builder().ring(8 << 20).long_trace(trace).start().expect("a session");
    // Forged packets of two bytes, once; and how many chunks are read between one look for more and the next.
    let (mut forged, mut read) = (0..1200, 0);
    let most = Arc::new(AtomicU64::new(0));
    let most_read = most.clone();
    let forger = Does::new(move |buffers: &mut [CentralBuffer]| {
        let before = std::mem::replace(&mut read, buffers[0].stats().chunks_read);
        most_read.fetch_max(read - before, Ordering::Relaxed);
        let payload = [2, 0x18, 0].repeat(1000);
        for chunk_id in forged.by_ref() {
            let header = ChunkHeader { producer_id: 2, chunk_id, fragments: 1000, ..Default::default() };
            buffers[0].copy_chunk_untrusted(&Chunk { header, payload: &payload });
        }
        true
    });
    session.attach(forger).expect("an answer");
    while session.summary().expect("an answer").invalid_packets < 1_200_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    session.stop().expect("a stop");
    let most = most.load(Ordering::Relaxed);
    assert!((1..=525).contains(&most), "{most} chunks, and a MiB is 524 and a part");
}

#[test]
fn a_buffer_that_is_filled_as_fast_as_it_is_read_keeps_no_other_waiting() {
    let session = Session::builder().ring(16 << 20).ring(1 << 20).data_source("rare", 1);
    let session = session.long_trace(quick(&nowhere("as fast"))).start().expect("a session");
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
#[ignore = "takes 12 s"]
fn a_producer_that_does_not_answer_keeps_nobody_waiting() {
    let path = scratch("silent.pftrace");
    let period = Duration::from_secs(7);
    let session = Session::builder().long_trace(LongTrace::to(&path).period(period)).start();
    let session = session.expect("a session");
    let head = session.long_trace().expect("one").bytes;
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
    // It has 5 seconds, not a period, which may be an hour. The clocks are there from the start on.
    wait_for(&session, |status| status.bytes > head);
    assert!(asked.elapsed() < Duration::from_millis(6500), "{:?}", asked.elapsed());
    assert!(session.summary().expect("an answer").flushes.failed == 1);
    other.silent.store(false, Ordering::Relaxed);
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("x"));
}

#[test]
fn a_flush_that_waits_for_a_producer_does_not_keep_the_file_waiting() {
    let session = Session::builder().long_trace(quick(&nowhere("waited for"))).start().expect("a session");
    let other = Other::default();
    other.silent.store(true, Ordering::Relaxed);
    session.attach(other.clone()).expect("an answer");
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| session.flush(Duration::from_secs(30)));
        // It has begun by then, and does not end before the producer answers.
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..2 {
            let before = session.long_trace().expect("there is one").bytes;
            wait_for(&session, |status| status.bytes > before);
        }
        assert!(!flush.is_finished());
        other.silent.store(false, Ordering::Relaxed);
        flush.join().expect("no panic").expect("an answer");
    });
    session.stop().expect("a stop");
}

#[test]
fn chunks_that_are_completed_in_the_midst_of_a_flush_are_written_once_and_none_counts_as_late() {
    let path = scratch("midst.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    // On the drain thread, after the process's own chunks: what is recorded here is complete but not sent when the
    // flush goes on with a scrape.
    let (recorder, mut times) = (session.recorder(), 0..100);
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let records = Does::new(move |_| {
        if times.next().is_some() {
            (0..400).for_each(|_| recorder.instant("in the midst"));
        } else {
            is_done.store(true, Ordering::Relaxed);
        }
        true
    });
    session.attach(records).expect("an answer");
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
    session.flush(Duration::from_secs(5)).expect("a flush");
    let buffer = session.summary().expect("an answer").buffers[0];
    assert_eq!((buffer.chunks_discarded, buffer.chunks_overwritten), (0, 0));
    session.stop().expect("a stop");
    let trace = Trace::read(&path);
    assert_eq!(trace.events(3), 40_000);
    assert_eq!(trace.losses(), 0);
}
