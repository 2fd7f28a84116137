//! Packets and statistics of a trace.

use super::*;
use tracebuf::buffer::{Chunk, ChunkHeader, Config};
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_testing::long_packet::{PART, PARTS, SIZE, in_buffer};

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
        assert_eq!(read.left_out, left_out as u64);
        assert_eq!(read.left_out_bytes, left_out as u64 * 2);
    }
    assert!(piece.bytes.is_empty());
    assert!(piece.read(&mut reader, 0).expect("memory").is_exhausted);
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
    assert_eq!(
        (read.left_out, read.left_out_bytes, piece.packets),
        (1, u64::from(PARTS) * (PART as u64 - 3), 0)
    );
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
