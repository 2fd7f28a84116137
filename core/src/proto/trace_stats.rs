//! The `TraceStats` packet, with which a trace tells what it lost.
//!
//! With it in a trace, `select * from stats where severity = 'data_loss' and value != 0` in Perfetto's trace processor
//! shows every loss.
//!
//! ```
//! use tracebuf::proto::trace_stats::{BufferStats, TraceStats, TraceStatsPacket};
//! use tracebuf::proto::{SequenceId, TraceFileWriter, TrustedFields};
//!
//! let buffers = [BufferStats { buffer_size: 4096, chunks_overwritten: 3, ..BufferStats::default() }];
//! let stats = TraceStats { buffers: &buffers, invalid_packets: 1, ..TraceStats::default() };
//! let packet = TraceStatsPacket { timestamp: Some(1_000_000), stats };
//!
//! let mut file = [0; 128];
//! let mut writer = TraceFileWriter::new(&mut file[..]);
//! writer.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE)).unwrap();
//! ```

use core::fmt;
use core::iter::{self, Empty};

use crate::debug::debug_fields;

use super::fields::{final_flush_outcome, trace_packet, trace_stats, writer_stats};
use super::{Message, SequenceId, Sink};

pub use super::buffer_stats::BufferStats;

/// Upper ends of the buckets of a [`ChunkHistogram`], in bytes of chunk payload; one bucket more takes
/// the rest.
pub const CHUNK_HISTOGRAM_BOUNDS: [u32; 10] = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

/// Buckets in a [`ChunkHistogram`].
pub const CHUNK_HISTOGRAM_BUCKETS: usize = CHUNK_HISTOGRAM_BOUNDS.len() + 1;

/// How large one writer's chunks were: for each bucket of [`CHUNK_HISTOGRAM_BOUNDS`] and the rest, how
/// many there were and the sum of their payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkHistogram {
    /// Chunks.
    pub counts: [u64; CHUNK_HISTOGRAM_BUCKETS],
    /// Bytes.
    pub sums: [u64; CHUNK_HISTOGRAM_BUCKETS],
}

/// What is known about one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WriterStats {
    /// The id its packets carry.
    pub sequence_id: SequenceId,
    /// Which of [`TraceStats::buffers`] it writes to, from 0.
    pub buffer: u32,
    /// Its chunks, if they were counted.
    pub histogram: Option<ChunkHistogram>,
}

impl Message for WriterStats {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        use writer_stats as field;
        out.varint(field::SEQUENCE_ID, self.sequence_id.get().into())?;
        if let Some(histogram) = &self.histogram {
            out.packed(field::CHUNK_PAYLOAD_HISTOGRAM_COUNTS, histogram.counts.iter().copied())?;
            out.packed(field::CHUNK_PAYLOAD_HISTOGRAM_SUM, histogram.sums.iter().copied())?;
        }
        out.varint(field::BUFFER, self.buffer.into())
    }
}

/// How the flush at the end of a trace went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum FinalFlush {
    /// There was none, or it is not known.
    #[default]
    Unspecified = final_flush_outcome::UNSPECIFIED as u8,
    /// Every producer answered.
    Succeeded = final_flush_outcome::SUCCEEDED as u8,
    /// Some did not answer in time.
    Failed = final_flush_outcome::FAILED as u8,
}

/// What the service counted over a whole trace; names and meanings are those of Perfetto's `TraceStats`.
///
/// `W` is an iterator over the writers, cloned for each run over them (there are eight), so that they need
/// not lie in an array.
#[derive(Clone, Copy)]
pub struct TraceStats<'a, W = Empty<WriterStats>> {
    /// The central buffers, in the order that [`WriterStats::buffer`] refers to.
    pub buffers: &'a [BufferStats],
    /// Producers connected now.
    pub producers_connected: u32,
    /// Producers that were ever connected.
    pub producers_seen: u64,
    /// Chunks that no buffer wanted.
    pub chunks_discarded: u64,
    /// Patches that no buffer wanted.
    pub patches_discarded: u64,
    /// Packets refused for their form or their fields (see [`PacketValidator`](super::PacketValidator)).
    pub invalid_packets: u64,
    /// Flushes asked for.
    pub flushes_requested: u64,
    /// Flushes that every producer answered.
    pub flushes_succeeded: u64,
    /// Flushes that some did not answer in time.
    pub flushes_failed: u64,
    /// The last flush of all.
    pub final_flush: FinalFlush,
    /// The writers. If any has a histogram, [`CHUNK_HISTOGRAM_BOUNDS`] is written too.
    pub writers: W,
}

impl<W: fmt::Debug> fmt::Debug for TraceStats<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields! {
            self, f, "TraceStats",
            buffers, producers_connected, producers_seen, chunks_discarded, patches_discarded,
            invalid_packets, flushes_requested, flushes_succeeded, flushes_failed, final_flush, writers
        }
    }
}

impl Default for TraceStats<'_> {
    fn default() -> Self {
        Self {
            buffers: &[],
            producers_connected: 0,
            producers_seen: 0,
            chunks_discarded: 0,
            patches_discarded: 0,
            invalid_packets: 0,
            flushes_requested: 0,
            flushes_succeeded: 0,
            flushes_failed: 0,
            final_flush: FinalFlush::Unspecified,
            writers: iter::empty(),
        }
    }
}

impl<'a> TraceStats<'a> {
    /// The same statistics, with `writers`.
    pub fn with_writers<W>(self, writers: W) -> TraceStats<'a, W::IntoIter>
    where
        W: IntoIterator<Item = WriterStats, IntoIter: Clone>,
    {
        TraceStats {
            buffers: self.buffers,
            producers_connected: self.producers_connected,
            producers_seen: self.producers_seen,
            chunks_discarded: self.chunks_discarded,
            patches_discarded: self.patches_discarded,
            invalid_packets: self.invalid_packets,
            flushes_requested: self.flushes_requested,
            flushes_succeeded: self.flushes_succeeded,
            flushes_failed: self.flushes_failed,
            final_flush: self.final_flush,
            writers: writers.into_iter(),
        }
    }
}

impl<W: Iterator<Item = WriterStats> + Clone> Message for TraceStats<'_, W> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        use trace_stats as field;
        for buffer in self.buffers {
            out.message(field::BUFFER_STATS, buffer)?;
        }
        let counts = [
            (field::PRODUCERS_CONNECTED, self.producers_connected.into()),
            (field::PRODUCERS_SEEN, self.producers_seen),
            (field::CHUNKS_DISCARDED, self.chunks_discarded),
            (field::PATCHES_DISCARDED, self.patches_discarded),
            (field::INVALID_PACKETS, self.invalid_packets),
            (field::FLUSHES_REQUESTED, self.flushes_requested),
            (field::FLUSHES_SUCCEEDED, self.flushes_succeeded),
            (field::FLUSHES_FAILED, self.flushes_failed),
            (field::FINAL_FLUSH_OUTCOME, self.final_flush as u64),
        ];
        counts.iter().try_for_each(|&(number, value)| out.varint(number, value))?;
        if self.writers.clone().any(|writer| writer.histogram.is_some()) {
            for bound in CHUNK_HISTOGRAM_BOUNDS {
                out.varint(field::CHUNK_PAYLOAD_HISTOGRAM_DEF, bound.into())?;
            }
        }
        self.writers.clone().try_for_each(|writer| out.message(field::WRITER_STATS, &writer))
    }
}

/// A `TracePacket` that holds [`TraceStats`], to be written with the trusted fields of
/// [`SequenceId::SERVICE`].
#[derive(Debug, Clone, Copy)]
pub struct TraceStatsPacket<'a, W = Empty<WriterStats>> {
    /// When it was counted, in nanoseconds of the trace's clock, if there is one.
    pub timestamp: Option<u64>,
    /// What was counted.
    pub stats: TraceStats<'a, W>,
}

impl<W: Iterator<Item = WriterStats> + Clone> Message for TraceStatsPacket<'_, W> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        if let Some(timestamp) = self.timestamp {
            out.varint(trace_packet::TIMESTAMP, timestamp)?;
        }
        out.message(trace_packet::TRACE_STATS, &self.stats)
    }
}

#[cfg(test)]
mod tests;
