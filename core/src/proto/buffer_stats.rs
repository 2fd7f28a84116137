//! Counters of a central buffer, and their one list.

use super::{Message, Sink};
use core::fmt;

/// Gives the list of counters to the macro of this name, in the order in which a region's header has them. Those that
/// Perfetto's `TraceStats.BufferStats` has too stand with their field there, which `.ci/check_field_numbers.py` checks.
///
/// A new counter is one more item at the end. It makes a region's header longer, which is a new version of its layout.
macro_rules! buffer_counters {
    ($macro:ident) => {
        $macro! {
            size {
                /// Room for chunks in bytes, headers included.
                buffer_size: BUFFER_SIZE = 12,
            }
            counters {
                /// Bytes of all chunks stored, headers and alignment included.
                bytes_written: BYTES_WRITTEN = 1,
                /// Bytes of chunks that were overwritten with unread data in them.
                bytes_overwritten: BYTES_OVERWRITTEN = 13,
                /// Bytes of chunks that were erased after all of them had been read.
                bytes_read: BYTES_READ = 14,
                /// Bytes of padding written, at the ring's end and after straddled chunks.
                padding_bytes_written: PADDING_BYTES_WRITTEN = 15,
                /// Bytes of padding overwritten.
                padding_bytes_cleared: PADDING_BYTES_CLEARED = 16,
                /// Chunks stored anew.
                chunks_written: CHUNKS_WRITTEN = 2,
                /// Chunks that grew in place when they were committed again.
                chunks_rewritten: CHUNKS_REWRITTEN = 10,
                /// Chunks that moved to the write cursor when they were committed again.
                chunks_relocated: CHUNKS_RELOCATED = 20,
                /// Chunks overwritten with unread data in them.
                chunks_overwritten: CHUNKS_OVERWRITTEN = 3,
                /// Chunks not stored: the buffer is sealed, or they were consumed already.
                chunks_discarded: CHUNKS_DISCARDED = 18,
                /// Chunks whose last byte was read.
                chunks_read: CHUNKS_READ = 17,
                /// Chunks stored after a newer chunk of their sequence.
                chunks_committed_out_of_order: CHUNKS_COMMITTED_OUT_OF_ORDER = 11,
                /// Times the write cursor went back to the start.
                write_wrap_count: WRITE_WRAP_COUNT = 4,
                /// Patches applied.
                patches_succeeded: PATCHES_SUCCEEDED = 5,
                /// Batches of patches refused: there is no such chunk, or a patch lies outside its payload.
                patches_failed: PATCHES_FAILED = 6,
                /// Fragmented packets put together.
                readaheads_succeeded: READAHEADS_SUCCEEDED = 7,
                /// Fragmented packets found incomplete, for now or for good.
                readaheads_failed: READAHEADS_FAILED = 8,
                /// Chunks that break the rules of the shared memory protocol.
                abi_violations: ABI_VIOLATIONS = 9,
                /// Packets given up by their writer, and those that still waited for a patch, or for their rest, when
                /// their [producer ended](crate::buffer::TraceBuffer::end_producer). One that is overwritten while it
                /// waits is [broken](crate::buffer::SequenceInfo::packets_broken) instead. Not counted here: one at the
                /// end of its sequence in a buffer that is full and keeps its oldest, whose rest may not have been
                /// taken (see `chunks_discarded`); and one that the program's end left waiting (see
                /// [`Salvage::chunks_cut`](crate::buffer::Salvage::chunks_cut); the next packet reports it too).
                trace_writer_packet_loss: TRACE_WRITER_PACKET_LOSS = 19,
                /// Chunks committed again with the bytes that are stored already.
                chunks_unchanged,
                /// Chunks not stored, for a reason that [`Refusal`](crate::buffer::Refusal) lists. In a trace's
                /// statistics they are among `chunks_discarded`, because the format has no counter for them.
                chunks_refused,
            }
        }
    };
}
pub(crate) use buffer_counters;

macro_rules! stats {
    (
        size { $(#[$size_doc:meta])* $size:ident: $size_field:ident = $size_number:literal, }
        counters { $($(#[$doc:meta])* $name:ident $(: $field:ident = $number:literal)?,)* }
    ) => {
        /// What happened in a buffer since it was made: a copy of all its counters. As a [`Message`] it is
        /// `TraceStats.BufferStats`, zeros included.
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
        /// use tracebuf::proto::trace_stats::BufferStats;
        ///
        /// /// Whether packets may be missing, as in a ring that has lapped.
        /// fn has_lost(of: &BufferStats) -> bool {
        ///     let chunks = of.chunks_overwritten + of.chunks_discarded + of.chunks_refused;
        ///     chunks + of.trace_writer_packet_loss + of.patches_failed + of.abi_violations > 0
        /// }
        /// // There may be more counters in later versions.
        /// assert!(has_lost(&BufferStats { chunks_overwritten: 3, ..BufferStats::default() }));
        /// ```
        #[derive(Clone, Copy, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub struct BufferStats {
            $(#[$size_doc])* pub $size: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        const NAMES: [&str; COUNTERS] = [stringify!($size), $(stringify!($name),)*];
        const COUNTERS: usize = 1 + [$(stringify!($name),)*].len();
        /// Their fields' numbers, 0 without one.
        const NUMBERS: [u8; COUNTERS] = [$size_number, $(0 $(+ $number)?,)*];

        impl BufferStats {
            /// All counters with their names.
            pub fn named(&self) -> [(&'static str, u64); COUNTERS] {
                [(stringify!($size), self.$size), $((stringify!($name), self.$name),)*]
            }

            const fn values(&self) -> [u64; COUNTERS] {
                [self.$size, $(self.$name,)*]
            }
        }
    };
}
buffer_counters!(stats);

/// How many have a field.
const FIELDS: usize = {
    let (mut fields, mut place) = (0, 0);
    while place < COUNTERS {
        fields += (NUMBERS[place] != 0) as usize;
        place += 1;
    }
    fields
};

/// The fields in the order of their numbers, each with its counter's place in the list.
const IN_ORDER: [(u8, u8); FIELDS] = {
    let (mut fields, mut filled, mut number) = ([(0, 0); FIELDS], 0, 0);
    while filled < FIELDS {
        number += 1;
        let mut place = 0;
        while place < COUNTERS {
            if NUMBERS[place] == number {
                fields[filled] = (number, place as u8);
                filled += 1;
            }
            place += 1;
        }
    }
    fields
};

impl fmt::Debug for BufferStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("BufferStats");
        for (name, value) in NAMES.iter().zip(self.values()) {
            fields.field(name, &value);
        }
        fields.finish()
    }
}

impl Message for BufferStats {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        // Those refused are just as lost.
        let chunks_discarded = self.chunks_discarded.saturating_add(self.chunks_refused);
        let values = Self { chunks_discarded, ..*self }.values();
        IN_ORDER.iter().try_for_each(|&(number, place)| {
            out.varint(number.into(), values.get(usize::from(place)).copied().unwrap_or(0))
        })
    }
}
