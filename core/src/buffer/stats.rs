//! Counters as a region holds them.

use super::config::FillPolicy;
use super::words::Le64;
use crate::proto::buffer_counters;
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
    /// let stats = BufferStats { chunks_discarded: 3, ..BufferStats::default() };
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
