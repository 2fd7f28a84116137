//! From buffers to the bytes of a trace: packets, clocks, statistics.

use std::io;

use tracebuf::buffer::{BufferStats, DataLoss, FillPolicy, Reader, SequenceInfo};
use tracebuf::proto::trace_stats::{self, FinalFlush, TraceStats, TraceStatsPacket, WriterStats};
use tracebuf::proto::{Message, SequenceId, TracePackets, TrustedFields};
use tracebuf::service::{Exported, TraceExporter, sequence_id, writer_stats};

use crate::totals::Totals;
use tracebuf_std::system::user_id;

/// Bytes that go to a file at once.
pub const PIECE: usize = 1 << 20;

/// How many of the first `most` bytes of a trace, or of a part of one, are whole packets.
pub fn whole_within(trace: &[u8], most: u64) -> usize {
    let mut packets = TracePackets::new(trace);
    let mut whole = 0;
    while packets.next().is_some_and(|packet| packet.is_ok()) && packets.offset() as u64 <= most {
        whole = packets.offset();
    }
    whole
}

/// One buffer's part of the statistics.
pub struct BufferReport {
    stats: BufferStats,
    pub sequences: Vec<SequenceInfo>,
}

impl BufferReport {
    pub fn new(
        policy: FillPolicy,
        stats: BufferStats,
        sequences: impl Iterator<Item = SequenceInfo>,
    ) -> Self {
        Self { stats: stats.of_trace(policy), sequences: sequences.collect() }
    }
}

/// Consecutive packets in memory: a piece of a trace that ends with a whole packet.
#[derive(Default)]
pub struct Piece {
    pub bytes: Vec<u8>,
    pub packets: u64,
}

/// The result of reading a piece of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct HasRead {
    /// There are no more packets for now.
    pub exhausted: bool,
    /// Packets that were left out because of their content or length.
    pub refused: u64,
    /// Their bytes.
    pub refused_bytes: usize,
}

impl Piece {
    /// Adds packets of `reader` until there are none, or until the piece and what was left out exceed `limit` bytes:
    /// looking at a packet takes time, whatever becomes of it.
    pub fn read(&mut self, reader: &mut Reader<'_>, limit: usize) -> io::Result<HasRead> {
        let before = self.bytes.len();
        let mut exporter = TraceExporter::new(&mut self.bytes);
        let mut has_read = HasRead::default();
        while before + exporter.file().bytes() as usize + has_read.refused_bytes <= limit {
            let Some(packet) = reader.next_packet() else {
                has_read.exhausted = true;
                break;
            };
            let id = sequence_id(packet.producer_id(), packet.writer_id());
            let len = packet.len();
            match exporter.packet(&packet, id, DataLoss::empty()) {
                Ok(Exported::Written(_)) => {}
                Ok(left_out) => {
                    reader.reject_packet(left_out.loss());
                    has_read.refused_bytes += len;
                }
                Err(error) => {
                    reader.reject_packet(DataLoss::READ_GAP);
                    return Err(io::Error::other(error.to_string()));
                }
            }
        }
        self.packets += exporter.file().packets();
        has_read.refused = exporter.invalid_packets();
        Ok(has_read)
    }

    /// Adds what another one has.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.packets += other.packets;
    }

    /// Adds a packet of the service.
    pub fn service<M: Message>(&mut self, message: &M) -> io::Result<()> {
        let mut exporter = TraceExporter::new(&mut self.bytes);
        exporter
            .file()
            .message(message, &TrustedFields::new(user_id(), SequenceId::SERVICE))
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.packets += 1;
        Ok(())
    }

    /// Adds the statistics, in which readers find losses: the end of every trace.
    pub fn stats(&mut self, totals: &Totals, buffers: &[BufferReport], at: Option<u64>) -> io::Result<()> {
        let told = totals.dropped.told(buffers.iter().map(|buffer| buffer.stats));
        let stats: Vec<_> = told.map(|stats| trace_stats::BufferStats::from(&stats)).collect();
        let writers: Vec<WriterStats> = buffers
            .iter()
            .zip(0u32..)
            .flat_map(|(buffer, index)| {
                let told =
                    move |s: &SequenceInfo| writer_stats(s, sequence_id(s.producer_id, s.writer_id), index);
                buffer.sequences.iter().map(told)
            })
            .collect();
        let Totals { endpoints, flushes, .. } = totals;
        let stats = TraceStats {
            buffers: &stats,
            producers_connected: totals.producers_connected,
            producers_seen: totals.producers_seen,
            chunks_discarded: endpoints.chunks_discarded,
            patches_discarded: endpoints.patches_discarded,
            invalid_packets: totals.invalid_packets,
            flushes_requested: flushes.requested,
            flushes_succeeded: flushes.succeeded,
            flushes_failed: flushes.failed,
            final_flush: match flushes.last {
                None => FinalFlush::Unspecified,
                Some(true) => FinalFlush::Succeeded,
                Some(false) => FinalFlush::Failed,
            },
            ..TraceStats::default()
        };
        self.service(&TraceStatsPacket { timestamp: at, stats: stats.with_writers(writers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebuf::buffer::{Chunk, ChunkHeader, Config, TraceBuffer};
    use tracebuf_analysis::trace_stats::TraceReport;

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

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn packets_too_long_for_a_trace_are_counted_with_those_that_are_left_out() {
        use tracebuf_testing::long_packet::{PART, PARTS, SIZE, in_buffer};
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
        let (mut piece, reports) =
            (Piece::default(), [FillPolicy::Discard, FillPolicy::RingBuffer].map(report));
        piece.stats(&Totals::default(), &reports, None).expect("memory");
        let counted = TraceReport::of(&piece.bytes).statistics.expect("statistics");
        let said: Vec<_> = counted.iter().map(|told| (told.name, told.buffer, told.value)).collect();
        assert_eq!(said, [("chunks_discarded", Some(0), 3), ("chunks_discarded", Some(1), 2)]);
    }
}
