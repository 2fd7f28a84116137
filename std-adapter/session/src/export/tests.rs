//! Packets and statistics of a trace.

use super::*;
use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Commit, Config};
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_std::PagedMemory;

#[test]
fn packets_that_are_left_out_count_towards_what_is_read_at_once() {
    let config = Config::new(FillPolicy::RingBuffer);
    let mut buffer = TraceBuffer::new(vec![0; 1 << 18], config).expect("room");
    for chunk_id in 0..10 {
        let header = ChunkHeader { producer_id: 2, chunk_id, fragments: 1000, ..Default::default() };
        let forged = [2, 0x18, 0].repeat(1000); // trusted_uid = 0
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &forged });
    }
    let (mut piece, mut reader) = (Piece::default(), buffer.read());
    for left_out in [4000, 3999, 2001] {
        // The limit has room for everything before it, and one more.
        let limit = left_out * 2 - 1;
        let read = piece.read(&mut reader, limit).expect("memory");
        assert_eq!(read.refused, left_out as u64);
        assert_eq!(read.refused_bytes, left_out * 2);
    }
    assert!(piece.bytes.is_empty());
    assert!(piece.read(&mut reader, 0).expect("memory").exhausted);
}

#[test]
fn packets_too_long_for_a_trace_are_counted_with_those_that_are_left_out() {
    if usize::BITS < 64 {
        return;
    }
    // Each chunk has a string, as for_testing, that extends to its end.
    let mut part = vec![0; PART];
    part[..3].copy_from_slice(&SIZE);
    part[3..8].copy_from_slice(&[0xA2, 0x38, 0xF0, 0xFF, 0x03]);
    let mut buffer = in_buffer(&part);
    let mut piece = Piece::default();
    let read = piece.read(&mut buffer.read(), 0).expect("memory");
    assert_eq!((read.refused, read.refused_bytes, piece.packets), (1, PARTS as usize * (PART - 3), 0));
}

#[test]
fn chunks_that_a_buffer_did_not_take_are_told_as_discarded_but_for_those_that_a_ring_had_before() {
    let mut stats = BufferStats::default();
    (stats.chunks_discarded, stats.chunks_refused) = (1, 2);
    let report = |policy| BufferReport::new(policy, stats, std::iter::empty());
    let (mut piece, reports) = (Piece::default(), [FillPolicy::Discard, FillPolicy::RingBuffer].map(report));
    piece.stats(&Totals::default(), &reports, None).expect("memory");
    let counted = TraceReport::of(&piece.bytes).statistics.expect("statistics");
    let said: Vec<_> = counted.iter().map(|told| (told.name, told.buffer, told.value)).collect();
    assert_eq!(said, [("chunks_discarded", Some(0), 3), ("chunks_discarded", Some(1), 2)]);
}

/// Bytes of a chunk, three of which are its fragment's size: [`SIZE`].
const PART: usize = 65_528;
/// A fragment's size, without these bytes.
const SIZE: [u8; 3] = [0xF5, 0xFF, 0x03];
/// Chunks of one packet, whose length in a trace has up to 28 bits.
const PARTS: u32 = (1 << 28) / PART as u32 + 1;

/// A buffer with this packet of producer 1, which has this `part` in each of its chunks.
fn in_buffer(part: &[u8]) -> TraceBuffer<PagedMemory> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(300 << 20)).expect("64 bits");
    let mut buffer = TraceBuffer::new(PagedMemory::new(region).expect("memory"), config).expect("a region");
    for chunk_id in 0..PARTS {
        let mut flags = ChunkFlags::empty();
        flags.set(ChunkFlags::CONTINUES_FROM_PREVIOUS, chunk_id > 0);
        flags.set(ChunkFlags::CONTINUES_ON_NEXT, chunk_id < PARTS - 1);
        commit(&mut buffer, chunk_id, flags, part);
    }
    buffer
}

/// Commits a chunk of one fragment.
fn commit(buffer: &mut TraceBuffer<PagedMemory>, chunk_id: u32, flags: ChunkFlags, payload: &[u8]) {
    let header =
        ChunkHeader { producer_id: 1, chunk_id, fragments: 1, complete: true, flags, ..Default::default() };
    let outcome = buffer.copy_chunk_untrusted(&Chunk { header, payload });
    assert_eq!(outcome, Commit::Written, "{chunk_id}");
}
