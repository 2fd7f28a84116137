//! `Salvage`: the report on a region that was found.

use core::fmt;

/// What [`TraceBuffer::attach`](crate::buffer::TraceBuffer::attach) kept and what it had to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Salvage {
    /// Chunks that are in the buffer now.
    pub chunks_kept: u32,
    /// Kept chunks whose end was given up, because a patch was being made, or because a patch or the rest of a scraped
    /// chunk will not come.
    pub chunks_cut: u32,
    /// Kept chunks that were growing when the program ended: they are as they were before.
    pub chunks_reverted: u32,
    /// Sequences that are in the table now.
    pub sequences_kept: u32,
    /// Chunks whose header or fragments contradict each other.
    pub chunks_malformed: u32,
    /// Chunks that do not match their checksum.
    pub chunks_checksum_wrong: u32,
    /// Chunks of a sequence that the table does not have.
    pub chunks_of_no_sequence: u32,
    /// Chunks whose number does not fit into their sequence.
    pub chunks_out_of_order: u32,
    /// Chunks that were being changed in such a way that nothing in them can be relied on.
    pub chunks_unfinished: u32,
    /// Bytes of the ring in which no chunk can be found, because they make no sense or because the memory ends before
    /// them.
    pub bytes_unreadable: u64,
}

/// Why a chunk is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Malformed,
    Checksum,
    NoSequence,
    OutOfOrder,
    Unfinished,
}

impl Salvage {
    /// Chunks dropped, whatever the cause.
    pub fn chunks_dropped(&self) -> u32 {
        [
            self.chunks_malformed,
            self.chunks_checksum_wrong,
            self.chunks_of_no_sequence,
            self.chunks_out_of_order,
            self.chunks_unfinished,
        ]
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether everything was kept as it was.
    pub fn is_clean(&self) -> bool {
        self.chunks_dropped() == 0
            && self.chunks_cut == 0
            && self.chunks_reverted == 0
            && self.bytes_unreadable == 0
    }

    pub(super) fn count(&mut self, cause: Cause) {
        let count = match cause {
            Cause::Malformed => &mut self.chunks_malformed,
            Cause::Checksum => &mut self.chunks_checksum_wrong,
            Cause::NoSequence => &mut self.chunks_of_no_sequence,
            Cause::OutOfOrder => &mut self.chunks_out_of_order,
            Cause::Unfinished => &mut self.chunks_unfinished,
        };
        *count = count.saturating_add(1);
    }
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count| if count == 1 { "" } else { "s" };
        let Self { chunks_kept: chunks, sequences_kept: sequences, .. } = *self;
        write!(f, "{chunks} chunk{} of {sequences} sequence{} kept", s(chunks), s(sequences))?;
        let rest = [
            (
                u64::from(self.chunks_cut),
                "of them without its end, which was not finished",
                "of them without their end, which was not finished",
            ),
            (
                u64::from(self.chunks_reverted),
                "of them as it was before it grew",
                "of them as they were before they grew",
            ),
            (u64::from(self.chunks_malformed), "chunk dropped as malformed", "chunks dropped as malformed"),
            (
                u64::from(self.chunks_checksum_wrong),
                "chunk dropped for its checksum",
                "chunks dropped for their checksum",
            ),
            (
                u64::from(self.chunks_of_no_sequence),
                "chunk dropped that belongs to no sequence",
                "chunks dropped that belong to no sequence",
            ),
            (
                u64::from(self.chunks_out_of_order),
                "chunk dropped that does not fit into its sequence",
                "chunks dropped that do not fit into their sequence",
            ),
            (
                u64::from(self.chunks_unfinished),
                "chunk dropped that was being changed",
                "chunks dropped that were being changed",
            ),
            (self.bytes_unreadable, "byte unreadable", "bytes unreadable"),
        ];
        for (count, one, many) in rest {
            if count > 0 {
                write!(f, ", {count} {}", if count == 1 { one } else { many })?;
            }
        }
        Ok(())
    }
}
