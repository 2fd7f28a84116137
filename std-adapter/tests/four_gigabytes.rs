//! The largest ring there can be, lapped.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use tracebuf::buffer::{ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
use tracebuf_std::PagedMemory;

/// Scraped chunks keep room for all that they may become, so that only the page of each header is ever touched.
#[test]
fn a_ring_of_four_gigabytes_laps_and_gives_its_packets_back() {
    const ROOM: usize = 65_000;
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(u32::MAX)).expect("64 bits");
    let memory = PagedMemory::new(region).expect("address space");
    let mut buffer = TraceBuffer::new(memory, config).expect("a region of the right size");
    let size = buffer.stats().buffer_size;
    assert_eq!(size, u64::from(u32::MAX) & !3);
    let held = u32::try_from(size / (ROOM as u64 + 24)).expect("fewer chunks than bytes");
    // The ring's end is passed, and chunks after it are overwritten.
    let chunks = held + held / 8;
    for chunk_id in 0..chunks {
        let header =
            ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 2, ..ChunkHeader::default() };
        let outcome = buffer.commit_with(&header, ROOM, |_, private| {
            // A packet of one byte, and one that is still being written.
            private.iter_mut().zip([1, 7, 0]).for_each(|(byte, value)| *byte = value);
        });
        assert_eq!(outcome, Commit::Written, "{chunk_id}");
    }
    buffer.check().expect("a sound buffer");
    let stats = buffer.stats();
    assert_eq!((stats.write_wrap_count, stats.chunks_offered()), (1, u64::from(chunks)));
    assert!(stats.chunks_overwritten > u64::from(held / 16));
    // A scraped chunk is waited for, so what comes out is the first one's packet.
    let mut reader = buffer.read();
    let packet = reader.next_packet().expect("a packet");
    assert_eq!((packet.len(), packet.loss().is_empty()), (1, false));
}
