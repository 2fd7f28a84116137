//! Producers that a session, or a service of one's own, gets from elsewhere: how they come and go.
#![cfg(target_os = "linux")]

#[path = "support/trace.rs"]
mod trace;
#[path = "support/transport.rs"]
mod transport;

use std::time::Duration;

use memmap2::MmapMut;
use trace::{Trace, message, scratch};
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::producer::{Consumer, SharedMemory, atomic_words_in};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};
use tracebuf_std::session::{BufferConfig, CentralBuffer, LongTrace, Session, SessionError, Transport};
use transport::Does;

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
        let header = ChunkHeader { producer_id, fragments: 1, complete: true, ..Default::default() };
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
    // It was given to nobody by the session, which finds it all the same.
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
            left.by_ref().for_each(|id| says(id, "here").drain(buffers));
            true
        });
        session.attach(many).expect("an answer");
        let summary = session.stop().expect("a stop").summary();
        assert_eq!(summary.buffers[0].chunks_refused, refused);
        assert_eq!(summary.sequences.len() as u64, 1500 - refused);
    }
}
