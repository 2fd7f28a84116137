//! Producers that a session, or a service of one's own, gets from elsewhere: how they come and go.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use memmap2::MmapMut;
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::producer::{Consumer, SharedMemory, atomic_words_in};
use tracebuf::service::FlushTracker;
use tracebuf::service::{EndpointStats, ProducerEndpoint, ProducerIdentity};
use tracebuf_session::{
    BufferConfig, CentralBuffer, FlightRecorder, LongTrace, Session, SessionError, Transport,
};
use tracebuf_testing::trace::{Trace, folder, message, scratch, wait_for_snapshot};
use tracebuf_testing::transport::Does;

/// Page faults of this thread for which nothing was read from a disk.
fn page_faults() -> usize {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().expect("a name in brackets");
    behind_name.split_whitespace().nth(7).and_then(|field| field.parse().ok()).expect("a count")
}

#[test]
fn a_producer_without_writers_goes_without_a_look_at_its_memory() {
    const PAGES: usize = 2048;
    let file = rustix::fs::memfd_create("producer", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    let file = std::fs::File::from(file);
    file.set_len(PAGES as u64 * 4096).expect("so many pages");
    // SAFETY: nobody else has the file.
    let mut map = unsafe { MmapMut::map_mut(&file) }.expect("address space");
    let memory = SharedMemory::new(atomic_words_in(&mut map), 4096).expect("a size that can be");
    let mut buffers = [TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).expect("room")];
    let identity = ProducerIdentity { producer_id: 2, uid: 0, pid: -1 };
    let mut endpoint = ProducerEndpoint::<64>::new(Consumer::new(memory), identity);
    assert!(endpoint.allow(0));
    let mut faults = |endpoint: &mut ProducerEndpoint<'_, 64>| {
        let before = page_faults();
        assert_eq!(endpoint.disconnect(&mut buffers), 0);
        page_faults() - before
    };
    let without = faults(&mut endpoint);
    assert!(without < PAGES / 8, "{without} page faults");
    // A writer may have written anywhere.
    assert!(endpoint.register_writer(1, 0));
    let with = faults(&mut endpoint);
    assert!(with > PAGES / 2, "{with} page faults");
}

/// A producer that sends this text in its first chunk, and goes.
fn says(producer_id: u16, text: &'static str) -> impl Transport {
    Does::new(move |buffers: &mut [CentralBuffer]| {
        let header = ChunkHeader { producer_id, fragments: 1, ..Default::default() };
        // for_testing.str
        let packet = [&[0xA2, 0x38, 2 + text.len() as u8, 0x0A, text.len() as u8], text.as_bytes()].concat();
        let payload = [&[packet.len() as u8], &packet[..]].concat();
        buffers[0].copy_chunk_untrusted(&Chunk { header, payload: &payload });
        false
    })
}

#[test]
fn what_a_producer_says_is_there_whoever_went_before_it_and_had_been_read() {
    let path = scratch("numbers.pftrace");
    let trace = LongTrace::to(&path).period(Duration::from_millis(10));
    let session = Session::builder().long_trace(trace).start().expect("a session");
    assert_eq!(session.new_producer_id().expect("a number"), Session::OWN_PRODUCER_ID + 1);
    // The session gave it to nobody, but finds it all the same.
    session.attach(says(3, "first")).expect("an answer");
    while session.summary().expect("an answer").buffers[0].chunks_read == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = session.new_producer_id().expect("a number");
    assert_eq!(id, 4);
    session.attach(says(id, "second")).expect("an answer");
    session.stop().expect("a stop");
    assert!(matches!(session.new_producer_id(), Err(SessionError::Stopped)));
    let trace = Trace::read(&path);
    assert_eq!(trace.packets().filter(|packet| message(packet, 900).is_some()).count(), 2);
    assert!(trace.contains("first") && trace.contains("second"));
}

/// A producer that answers after being looked at a few times, and sends a word with its answer.
#[derive(Default)]
struct Late {
    asked: u16,
    looks: u16,
}

impl Transport for Late {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        self.looks += 1;
        if !flushes.is_idle() && self.looks == 4 {
            let text = ["first", "second", "third"][usize::from(self.asked) - 1];
            says(10 + self.asked, text).drain(buffers, flushes);
        }
    }

    fn ask_flush(&mut self, _: u64) {
        (self.asked, self.looks) = (self.asked + 1, 0);
    }

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }
}

/// A producer that does not answer the first two times, and reports that it was asked.
struct Silent(u16, Sender<()>);

impl Transport for Silent {
    fn drain(&mut self, _: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        if self.0 > 2 {
            flushes.answer_all();
        }
    }

    fn ask_flush(&mut self, _: u64) {
        self.0 += 1;
        let _ = self.1.send(());
    }

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }
}

#[test]
#[ignore = "takes 5 s"]
fn who_answers_has_time_to_also_when_others_were_waited_for_before() {
    let session = Session::builder().start().expect("a session");
    let (asked, was_asked) = channel();
    session.attach(Late::default()).expect("an answer");
    session.attach(Silent(0, asked)).expect("an answer");
    let (snapshot, mut stopped) = std::thread::scope(|scope| {
        // Longer than producers have for a snapshot, or at the session's end, which comes after both.
        let flush = scope.spawn(|| session.flush(Duration::from_millis(6500)));
        was_asked.recv().expect("it is asked");
        let snapshot = scope.spawn(|| session.snapshot());
        std::thread::sleep(Duration::from_millis(100));
        let stopped = session.stop().expect("it runs");
        assert!(matches!(flush.join().expect("no panic"), Err(SessionError::Timeout)));
        (snapshot.join().expect("no panic").expect("it was asked for before the end"), stopped)
    });
    let flushes = stopped.summary().flushes;
    assert_eq!((flushes.succeeded, flushes.failed), (1, 2));
    let [of_snapshot, at_end] = ["snapshot.pftrace", "end.pftrace"].map(scratch);
    snapshot.write_to(&of_snapshot).expect("a file");
    stopped.write_to(&at_end).expect("a file");
    assert!(Trace::read(&of_snapshot).contains("second"));
    assert!(Trace::read(&at_end).contains("third"));
}

#[test]
#[ignore = "takes 5 s"]
fn who_answers_has_time_to_also_when_the_session_s_thread_comes_late() {
    let session = Session::builder().start().expect("a session");
    let (go, held) = channel::<()>();
    session.attach(Late::default()).expect("an answer");
    // It stands still for longer than producers have for a snapshot.
    session.attach(Does::new(move |_| held.recv().is_ok())).expect("it runs");
    let snapshot = std::thread::scope(|scope| {
        let snapshot = scope.spawn(|| session.snapshot());
        std::thread::sleep(Duration::from_millis(5500));
        drop(go);
        snapshot.join().expect("no panic").expect("an answer")
    });
    let path = scratch("late.pftrace");
    snapshot.write_to(&path).expect("a file");
    assert!(Trace::read(&path).contains("first"));
}

/// Makes a recorder's thread the last owner of a session, and that session's thread the last owner of the recorder.
fn owned(folder: &Path, begin: impl FnOnce(&FlightRecorder)) {
    let session = Arc::new(Session::builder().start().expect("a session"));
    let recorder = Arc::new(FlightRecorder::new(&session, folder).expect("a recorder"));
    let (owned, (go, held)) = (recorder.clone(), channel::<()>());
    let owner = Does::new(move |_| {
        let _owned = &owned;
        // The session's thread stands still.
        held.recv().is_err()
    });
    session.attach(owner).expect("it runs");
    begin(&recorder);
    // For long: it may also look for a moment whether there is a session.
    let mut looks = 0;
    while looks < 50 {
        looks = if Arc::strong_count(&session) == 1 { 0 } else { looks + 1 };
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((recorder, session));
    drop(go);
}

#[test]
fn a_flight_recorder_that_a_producer_owns_ends_with_it_also_on_a_thread_of_its_own() {
    let folder = folder("owned");
    owned(&folder, |recorder| recorder.trigger("triggered", Duration::ZERO));
    wait_for_snapshot(&folder, "triggered", 1);
    owned(&folder, |recorder| {
        recorder.on_signals(&[libc::SIGWINCH]).expect("one that can be caught");
        // SAFETY: it has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
    });
    wait_for_snapshot(&folder, "SIGWINCH", 1);
}

#[test]
fn a_buffer_has_places_for_as_many_sequences_as_it_is_said_to_have() {
    let start = |sequences| {
        let buffer = BufferConfig::ring(1 << 20).sequences(sequences);
        Session::builder().buffer(buffer).start()
    };
    let error = start(3).expect_err("an error").to_string();
    assert_eq!(error, "a buffer of the session: the sequence table must hold at least 4 sequences");
    for (sequences, refused) in [(4, 1496), (1499, 1), (1500, 0)] {
        let session = start(sequences).expect("a session");
        let mut left = 2..1502;
        let many = Does::new(move |buffers: &mut [CentralBuffer]| {
            left.by_ref().for_each(|id| says(id, "here").drain(buffers, &mut FlushTracker::new()));
            true
        });
        session.attach(many).expect("an answer");
        let summary = session.stop().expect("a stop").summary();
        assert_eq!(summary.buffers[0].chunks_refused, refused);
        assert_eq!(summary.sequences.len() as u64, 1500 - refused);
    }
}

/// One that says of itself what cannot be, and goes or stays.
struct Boasts {
    stays: bool,
}

impl Transport for Boasts {
    fn drain(&mut self, _: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        flushes.answer_all();
    }

    fn ask_flush(&mut self, _: u64) {}

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats {
            chunks_moved: u64::MAX,
            chunks_scraped: u64::MAX,
            chunks_scraped_before: u64::MAX,
            chunks_discarded: u64::MAX,
            chunks_missing: u64::MAX,
            patches_discarded: u64::MAX,
        }
    }

    fn is_connected(&self) -> bool {
        self.stays
    }
}

#[test]
fn producers_that_count_more_than_there_can_be_end_no_session() {
    let session = Session::builder().start().expect("a session");
    for stays in [false, false, true, true] {
        session.attach(Boasts { stays }).expect("an answer");
    }
    session.flush(Duration::from_secs(60)).expect("all have answered");
    let mut stopped = session.stop().expect("its thread is there");
    let mut summary = stopped.summary();
    assert_eq!((summary.chunks_discarded, summary.patches_discarded), (u64::MAX, u64::MAX));
    // Beside what no buffer took by itself.
    summary.chunks_too_late = 1;
    assert_eq!(summary.losses().chunks_not_taken, u64::MAX);
    let path = scratch("boasts.pftrace");
    stopped.write_to(&path).expect("a trace");
    Trace::read(&path).assert_ends_with_stats();
}
