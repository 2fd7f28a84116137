//! Counters of a buffer, named as in Perfetto's `TraceStats.BufferStats`, and those of each of its sequences.

use super::config::FillPolicy;
use super::data_loss::DataLoss;
use super::words::Le64;
use crate::debug::debug_of;
use crate::proto::buffer_counters;
use crate::proto::trace_stats::{CHUNK_HISTOGRAM_BOUNDS, CHUNK_HISTOGRAM_BUCKETS, ChunkHistogram};
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::proto::trace_stats::BufferStats;

macro_rules! counters {
    (
        size { $($size:tt)* }
        counters { $($(#[$doc:meta])* $name:ident $(: $field:ident = $number:literal)?,)* }
    ) => {
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

            /// Resets counters that cannot be true to 0.
            pub(super) fn reset_if(&mut self, wrong: impl Fn(u64) -> bool) {
                for counter in [$(&mut self.$name,)*] {
                    if wrong(counter.get()) {
                        counter.set(0);
                    }
                }
            }
        }
    };
}
buffer_counters!(counters);

impl Counters {
    /// Sets the counters of reading to zero, as a clone starts.
    pub(super) fn start_reading_afresh(&mut self) {
        let Self { bytes_read, chunks_read, readaheads_succeeded, readaheads_failed, .. } = self;
        for counter in [bytes_read, chunks_read, readaheads_succeeded, readaheads_failed] {
            counter.set(0);
        }
    }
}

impl BufferStats {
    /// Chunks offered to the buffer, whatever became of them.
    pub fn chunks_offered(&self) -> u64 {
        let stored = [self.chunks_written, self.chunks_rewritten, self.chunks_relocated];
        let not = [self.chunks_unchanged, self.chunks_discarded, self.chunks_refused];
        stored.iter().chain(&not).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// These counters as a trace's statistics should have them: without the chunks that a ring discarded, which readers
    /// of a trace would take for a loss. A ring that is scraped has handed them out before; of those that came too
    /// late, the next packet tells.
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
/// In a ring that was given all of a [`TraceWriter`](crate::producer::TraceWriter)'s packets and was read to its end,
/// these [packets](crate::producer::TraceWriterStats::packets) are those that were read, those that the writer
/// [dropped](crate::producer::TraceWriterStats::dropped), `packets_evicted`, and `packets_broken`.
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
    /// patch.
    pub packets_broken: u64,
    /// Chunks that were malformed or held fewer fragments than they declared, once read or overwritten.
    pub chunks_malformed: u64,
    /// What the next packet will carry, as far as it is certain.
    pub pending: DataLoss,
    /// The same without what an observer that [folds](super::OverwriteObserver::FOLDS) was shown, and with what a later
    /// chunk could still take back.
    pub pending_since_folded: DataLoss,
    /// Chunk sizes, if the buffer keeps them.
    pub histogram: Option<ChunkHistogram>,
}

debug_of! {
    SequenceInfo {
        producer_id, writer_id, uid, pid, packets_evicted, packets_broken, chunks_malformed, pending, pending_since_folded,
        histogram,
    }
}

/// A histogram as it lies in the region.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct StoredHistogram {
    buckets: [Bucket; CHUNK_HISTOGRAM_BUCKETS],
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
        let index = CHUNK_HISTOGRAM_BOUNDS.iter().filter(|bound| u32::from(payload) > **bound).count();
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

    pub(super) fn get(&self) -> ChunkHistogram {
        let counts = self.buckets.map(|bucket| bucket.count.get());
        ChunkHistogram { counts, sums: self.buckets.map(|bucket| bucket.sum.get()) }
    }
}
