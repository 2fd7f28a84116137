//! The largest ring there can be, lapped.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::ops::Range;

use tracebuf::buffer::{ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
use tracebuf_std::PagedMemory;

/// Bytes of payload that chunks reserve.
const ROOM: usize = 65_000;

/// An empty ring of four sequences, and how many chunks it holds.
fn ring() -> (TraceBuffer<PagedMemory>, u32) {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(u32::MAX)).expect("64 bits");
    let memory = PagedMemory::new(region).expect("address space");
    let buffer = TraceBuffer::new(memory, config).expect("a region of the right size");
    let size = buffer.stats().buffer_size;
    assert_eq!(size, u64::from(u32::MAX) & !3);
    (buffer, u32::try_from(size / (ROOM as u64 + 24)).expect("fewer chunks than bytes"))
}

/// Scraped chunks keep room for all that they may become, so that only the page of each header is ever touched.
fn commit(buffer: &mut TraceBuffer<PagedMemory>, writer_id: u16, chunk_ids: Range<u32>) {
    for chunk_id in chunk_ids {
        let header = ChunkHeader {
            producer_id: 1,
            writer_id,
            chunk_id,
            fragments: 2,
            complete: false,
            ..ChunkHeader::default()
        };
        buffer.make_place(&header);
        let outcome = buffer.commit_with(&header, ROOM, |_, private| {
            // A packet of one byte, and one that is still being written.
            private.iter_mut().zip([1, 7, 0]).for_each(|(byte, value)| *byte = value);
        });
        assert_eq!(outcome, Commit::Written, "{chunk_id}");
    }
}

#[test]
#[ignore = "takes gigabytes"]
fn a_ring_of_four_gigabytes_laps_and_gives_its_packets_back() {
    let (mut buffer, held) = ring();
    // The ring's end is passed, and chunks after it are overwritten.
    let chunks = held + held / 8;
    commit(&mut buffer, 1, 0..chunks);
    buffer.check().expect("a sound buffer");
    let stats = buffer.stats();
    assert_eq!((stats.write_wrap_count, stats.chunks_offered()), (1, u64::from(chunks)));
    assert!(stats.chunks_overwritten > u64::from(held / 16));
    // A scraped chunk is waited for, so what comes out is the first one's packet.
    let mut reader = buffer.read();
    let packet = reader.next_packet().expect("a packet");
    assert_eq!((packet.len(), packet.loss().is_empty()), (1, false));
}

#[test]
#[ignore = "takes gigabytes"]
fn in_a_ring_of_four_gigabytes_too_a_newcomer_gets_the_place_of_whoever_was_silent_longest() {
    let (mut buffer, held) = ring();
    let (busy, silent) = (4, [1, 2, 3]);
    commit(&mut buffer, busy, 0..held / 2);
    silent.into_iter().for_each(|writer| commit(&mut buffer, writer, 0..1));
    // Over the ring's end, and not yet up to the silent ones' chunks.
    commit(&mut buffer, busy, held / 2..held + held / 4);
    commit(&mut buffer, 5, 0..1);
    let mut writers: Vec<_> = buffer.sequences().map(|sequence| sequence.writer_id).collect();
    writers.sort_unstable();
    assert_eq!(writers, [2, 3, 4, 5]);
    assert!(buffer.inspect().items().count() > held as usize / 2);
}
