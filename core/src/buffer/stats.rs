//! Counters, named as in Perfetto's `TraceStats.BufferStats`.

use super::config::FillPolicy;
use super::words::Le64;
use core::fmt;
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
