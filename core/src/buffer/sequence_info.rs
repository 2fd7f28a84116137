//! What is known about a sequence.

use super::data_loss::DataLoss;
use super::region::Layout;
use super::sequence_state::Status;
use crate::debug::debug_fields;
use crate::proto::trace_stats::ChunkHistogram;
use core::fmt;

/// A sequence in the table: who writes it, and what it lost.
///
/// The packet counters count each packet once, where it begins. All counters stick at `u32::MAX`, and restart from 0
/// when a full table has forgotten the sequence.
///
/// In a ring that was given all packets of a [`TraceWriter`](crate::producer::TraceWriter), finished and sent, and was
/// read to its end, the [packets](crate::producer::WriterStats::packets) of that writer are those that were read, those
/// that it [dropped](crate::producer::WriterStats::dropped), `packets_evicted`, and `packets_broken`.
/// [`trace_writer_packet_loss`](super::BufferStats::trace_writer_packet_loss) counts some of the dropped ones again,
/// and is not to be added.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer))?;
/// let header = ChunkHeader { producer_id: 7, fragments: 1, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
/// let sequence = buffer.sequences().next().unwrap();
/// assert_eq!((sequence.producer_id, sequence.packets_evicted), (7, 0));
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceInfo {
    /// The producer.
    pub producer_id: u16,
    /// Its writer.
    pub writer_id: u16,
    /// The user that the first commit named.
    pub uid: u32,
    /// The process that the first commit named.
    pub pid: i32,
    /// Whole packets that were overwritten unread.
    pub packets_evicted: u64,
    /// Packets that began but could not be put together, including those that were overwritten while they waited for a
    /// patch. One whose patch had not come when its producer ended counts as given up:
    /// [`BufferStats::trace_writer_packet_loss`](super::BufferStats::trace_writer_packet_loss).
    pub packets_broken: u64,
    /// Chunks whose rest was dropped because it was malformed or because they held fewer fragments than they declared.
    /// They count once they have been read or are overwritten.
    pub chunks_malformed: u64,
    /// What the next packet will carry, as far as it is certain.
    pub pending: DataLoss,
    /// Chunk sizes, if the buffer keeps them.
    pub histogram: Option<ChunkHistogram>,
}

impl SequenceInfo {
    pub(super) fn all<'a>(layout: &Layout, memory: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        let (table, histograms) = layout.table(memory).unwrap_or_default();
        let entries = table.iter().enumerate().filter(|(_, entry)| entry.has(Status::IN_USE));
        entries.map(move |(slot, entry)| Self {
            producer_id: entry.producer_id.get(),
            writer_id: entry.writer_id.get(),
            uid: entry.uid.get(),
            pid: entry.pid.get() as i32,
            packets_evicted: u64::from(entry.evicted.get()),
            packets_broken: u64::from(entry.broken.get()),
            chunks_malformed: u64::from(entry.malformed.get()),
            pending: entry.pending().marked(),
            histogram: histograms.get(slot).map(|histogram| histogram.get()),
        })
    }
}

impl fmt::Debug for SequenceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields!(
            self,
            f,
            "SequenceInfo",
            producer_id,
            writer_id,
            uid,
            pid,
            packets_evicted,
            packets_broken,
            chunks_malformed,
            pending,
            histogram,
        )
    }
}
