//! Counters of a buffer, named as in Perfetto's `TraceStats.BufferStats`, and those of each of its sequences.

use super::config::FillPolicy;
use super::data_loss::DataLoss;
use super::region::RegionLayout;
use super::sequence_state::Status;
use super::words::Le64;
use crate::debug::debug_fields;
use crate::proto::trace_stats::{CHUNK_HISTOGRAM_BOUNDS, CHUNK_HISTOGRAM_BUCKETS};
use core::fmt;
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened in a buffer since it was made: a copy of all its counters.
        ///
        /// The counters count chunks, bytes or events since the buffer was made, in 64 bits, and are never reset while
        /// it is in use. Attaching resets to 0 those that cannot be true (2⁵⁶ or more), and corrects those that do not
        /// agree with what the region holds. Names are those of Perfetto's `TraceStats.BufferStats`; `chunks_unchanged`
        /// and `chunks_refused` are ours. At any time
        ///
        /// - every chunk offered counts once: written, rewritten, relocated, unchanged, discarded or refused;
        /// - `bytes_written + padding_bytes_written` = bytes held in chunks and padding + `bytes_read` +
        ///   `bytes_overwritten` + `padding_bytes_cleared` (a clone starts with read counters of zero).
        ///
        /// ```
        /// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
        ///
        /// let mut memory = vec![0u8; 4096];
        /// let buffer = TraceBuffer::new(&mut memory[..], Config::new(FillPolicy::RingBuffer))?;
        /// assert_eq!(buffer.stats().chunks_written, 0);
        /// # Ok::<(), tracebuf::buffer::RegionError>(())
        /// ```
        #[derive(Clone, Copy, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub struct BufferStats {
            /// Room for chunks in bytes, headers included.
            pub buffer_size: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters as they lie in the region's header.
        #[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(super) struct Counters {
            $(pub(super) $name: Le64,)*
        }

        impl Counters {
            pub(super) fn snapshot(&self, buffer_size: u64) -> BufferStats {
                BufferStats { buffer_size, $($name: self.$name.get(),)* }
            }
        }

        impl Counters {
            /// Resets counters that cannot be true to 0.
            pub(super) fn reset_if(&mut self, wrong: impl Fn(u64) -> bool) {
                for counter in [$(&mut self.$name,)*] {
                    if wrong(counter.get()) {
                        counter.set(0);
                    }
                }
            }
        }

        impl BufferStats {
            /// All counters with their names.
            pub fn named(&self) -> [(&'static str, u64); COUNTERS] {
                [("buffer_size", self.buffer_size), $((stringify!($name), self.$name),)*]
            }
        }

        const COUNTERS: usize = 1 + [$(stringify!($name),)*].len();
    };
}

counters! {
    /// Bytes of all chunks stored, headers and alignment included.
    bytes_written,
    /// Bytes of chunks that were overwritten with unread data in them.
    bytes_overwritten,
    /// Bytes of chunks that were erased after all of them had been read.
    bytes_read,
    /// Bytes of padding written, at the ring's end and after straddled chunks.
    padding_bytes_written,
    /// Bytes of padding overwritten.
    padding_bytes_cleared,
    /// Chunks stored anew.
    chunks_written,
    /// Chunks that grew in place when they were committed again.
    chunks_rewritten,
    /// Chunks that moved to the write cursor when they were committed again.
    chunks_relocated,
    /// Chunks overwritten with unread data in them.
    chunks_overwritten,
    /// Chunks not stored: the buffer is sealed, or they were consumed already.
    chunks_discarded,
    /// Chunks whose last byte was read.
    chunks_read,
    /// Chunks stored after a newer chunk of their sequence.
    chunks_committed_out_of_order,
    /// Times the write cursor went back to the start.
    write_wrap_count,
    /// Patches applied.
    patches_succeeded,
    /// Batches of patches refused: there is no such chunk, or a patch lies outside its payload.
    patches_failed,
    /// Fragmented packets put together.
    readaheads_succeeded,
    /// Fragmented packets found incomplete, for now or for good.
    readaheads_failed,
    /// Chunks that break the rules of the shared memory protocol.
    abi_violations,
    /// Packets given up by their writer, and those that still waited for a patch, or for their rest, when their
    /// [producer ended](super::TraceBuffer::end_producer). One that is overwritten while it waits is
    /// [broken](super::SequenceInfo::packets_broken) instead. Not counted here: one at the end of its sequence in a
    /// buffer that is full and keeps its oldest, whose rest may not have been taken (see `chunks_discarded`); and one
    /// that the program's end left waiting (see [`Salvage::chunks_cut`](super::Salvage::chunks_cut); the next packet
    /// reports it too).
    trace_writer_packet_loss,
    /// Chunks committed again with the bytes that are stored already.
    chunks_unchanged,
    /// Chunks not stored, for a reason that [`Refusal`](super::Refusal) lists.
    chunks_refused,
}

impl Counters {
    /// Sets the counters of reading to zero, as a clone starts.
    pub(super) fn start_reading_afresh(&mut self) {
        let reading = [
            &mut self.bytes_read,
            &mut self.chunks_read,
            &mut self.readaheads_succeeded,
            &mut self.readaheads_failed,
        ];
        for counter in reading {
            counter.set(0);
        }
    }
}

impl fmt::Debug for BufferStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("BufferStats");
        for (name, value) in self.named() {
            fields.field(name, &value);
        }
        fields.finish()
    }
}

impl BufferStats {
    /// Chunks offered to the buffer, whatever became of them: each counts once.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    ///
    /// let mut memory = [0; 2048];
    /// let config = Config::new(FillPolicy::RingBuffer).sequences(8);
    /// let mut buffer = TraceBuffer::new(&mut memory[..], config)?;
    /// buffer.copy_chunk_untrusted(&Chunk { header: ChunkHeader::default(), payload: b"of nobody: refused" });
    /// assert_eq!(buffer.stats().chunks_offered(), 1);
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    pub fn chunks_offered(&self) -> u64 {
        let stored = [self.chunks_written, self.chunks_rewritten, self.chunks_relocated];
        let not = [self.chunks_unchanged, self.chunks_discarded, self.chunks_refused];
        stored.iter().chain(&not).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// These counters as a trace's statistics should have them: without the chunks that a ring discarded, because
    /// readers of a trace take `chunks_discarded` for a loss. Where open chunks are scraped, a ring has handed these
    /// out before: they were read to their end, and then committed with nothing more. A chunk that comes after a newer
    /// one was read is reported by the next packet, unless that newer one is the first of its sequence.
    ///
    /// ```
    /// use tracebuf::buffer::{BufferStats, FillPolicy};
    ///
    /// let mut stats = BufferStats::default();
    /// stats.chunks_discarded = 3;
    /// assert_eq!(stats.of_trace(FillPolicy::RingBuffer).chunks_discarded, 0);
    /// assert_eq!(stats.of_trace(FillPolicy::Discard).chunks_discarded, 3);
    /// ```
    #[must_use]
    pub fn of_trace(mut self, policy: FillPolicy) -> Self {
        if matches!(policy, FillPolicy::RingBuffer) {
            self.chunks_discarded = 0;
        }
        self
    }
}

/// A sequence in the table: who writes it, and what it lost.
///
/// The packet counters count each packet once, where it begins. They stick at `u32::MAX`, `chunks_malformed` at
/// 65,535, and restart from 0 when a full table has forgotten the sequence.
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
    pub histogram: Option<Histogram>,
}

impl SequenceInfo {
    pub(super) fn all<'a>(layout: &RegionLayout, memory: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
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

/// A sequence's chunks by payload size: their number and their bytes.
///
/// ```
/// use tracebuf::buffer::Histogram;
///
/// assert_eq!(Histogram::BOUNDS[0], 8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Chunks in each bucket.
    pub counts: [u64; Self::BUCKETS],
    /// Payload bytes in each bucket.
    pub sums: [u64; Self::BUCKETS],
}

impl Histogram {
    /// Buckets: one for each bound, one for all that is larger.
    pub const BUCKETS: usize = CHUNK_HISTOGRAM_BUCKETS;
    /// The largest payload, in bytes, that belongs in each bucket except the last.
    pub const BOUNDS: [u32; Self::BUCKETS - 1] = CHUNK_HISTOGRAM_BOUNDS;
}

/// A histogram as it lies in the region.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct StoredHistogram {
    buckets: [Bucket; Histogram::BUCKETS],
}
const_assert_eq!(size_of::<StoredHistogram>(), 176);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Bucket {
    count: Le64,
    sum: Le64,
}

impl StoredHistogram {
    fn bucket(&mut self, payload: u16) -> Option<&mut Bucket> {
        let index = Histogram::BOUNDS.iter().filter(|bound| u32::from(payload) > **bound).count();
        self.buckets.get_mut(index)
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn add(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.add(1);
            bucket.sum.add(u32::from(payload));
        }
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn remove(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.sub(1);
            bucket.sum.sub(u32::from(payload));
        }
    }

    pub(super) fn clear(&mut self) {
        self.as_mut_bytes().fill(0);
    }

    pub(super) fn get(&self) -> Histogram {
        let mut histogram = Histogram::default();
        let places = histogram.counts.iter_mut().zip(histogram.sums.iter_mut());
        for ((count, sum), bucket) in places.zip(&self.buckets) {
            (*count, *sum) = (bucket.count.get(), bucket.sum.get());
        }
        histogram
    }
}
