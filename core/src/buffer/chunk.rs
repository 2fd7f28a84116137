//! Chunks as producers commit them, and the outcomes of a commit.

use crate::debug::debug_of;
use core::fmt;

bitflags::bitflags! {
    /// How a chunk's first and last fragments relate to its neighbours; the bits are those of the shared
    /// memory protocol.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ChunkFlags: u8 {
        /// The first fragment continues a packet of the previous chunk.
        const CONTINUES_FROM_PREVIOUS = 1;
        /// The last fragment's packet continues on the next chunk.
        const CONTINUES_ON_NEXT = 2;
        /// Patches for the last fragment will follow; its packet has to wait for them, unless it lies in this chunk
        /// alone.
        const NEEDS_PATCHING = 4;
    }
}

/// All that a commit says of a chunk, except its bytes. Its sequence is the pair of producer and writer; {0, 0} is
/// invalid.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkHeader {
    /// The producer, numbered by the service.
    pub producer_id: u16,
    /// The writer, numbered by the producer.
    pub writer_id: u16,
    /// The chunk's number on its sequence: one more than the chunk before, modulo 2³².
    pub chunk_id: u32,
    /// Fragments in it, including one that continues an earlier packet. In a scraped chunk the last one is ignored: it
    /// may still be being written.
    pub fragments: u16,
    /// How it relates to its neighbours.
    pub flags: ChunkFlags,
    /// Whether its writer is done with it. If not, it was scraped.
    pub complete: bool,
    /// The user, `u32::MAX` if unknown; noted at the first commit of a sequence.
    pub uid: u32,
    /// The process, −1 if unknown; noted likewise.
    pub pid: i32,
}

debug_of! { ChunkHeader { producer_id, writer_id, chunk_id, fragments, flags, complete, uid, pid } }

impl Default for ChunkHeader {
    /// Chunk 0 of no sequence, complete, without fragments, user and process unknown.
    fn default() -> Self {
        Self {
            producer_id: 0,
            writer_id: 0,
            chunk_id: 0,
            fragments: 0,
            flags: ChunkFlags::empty(),
            complete: true,
            uid: u32::MAX,
            pid: -1,
        }
    }
}

/// A chunk as it comes from a producer: fragments, each preceded by its size as a varint.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// What the producer says about it.
    pub header: ChunkHeader,
    /// Its bytes, at most [`MAX_PAYLOAD`](super::MAX_PAYLOAD); what follows the last declared fragment is ignored.
    pub payload: &'a [u8],
}

/// What became of a chunk that was offered. Each outcome is counted in the counter of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Commit {
    /// Stored.
    Written,
    /// It was there already, and has grown.
    Rewritten,
    /// It was there already, and has grown and moved to the write cursor.
    Relocated,
    /// It was there already with the same bytes.
    Unchanged,
    /// Not stored: it was consumed already, or the buffer is sealed.
    Discarded,
    /// Not stored: it breaks the rules, or there is no room in the table.
    Refused(Refusal),
}

/// Why a chunk was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// Producer and writer are both 0.
    NullSequence,
    /// The payload is larger than 65,535 bytes (65,531 with checksums) or than the buffer: in the ring, a chunk takes
    /// 24 or, with checksums, 28 bytes more.
    TooLarge,
    /// A commit of a chunk that is there already holds less than is stored.
    Shrinks,
    /// A commit of a chunk that is there already holds more than was reserved for it.
    ExceedsReservedRoom,
    /// A commit of a chunk that is there already clears flags.
    ClearsFlags,
    /// A chunk that comes back does not hold the fragments that were read from it.
    ChangesFragments,
    /// The chunk id is too far from those of its sequence's chunks: its place is more than
    /// [`WALK_LIMIT`](super::WALK_LIMIT) chunks before the newest, or it is 2³⁰ or more from the first chunk of a
    /// sequence that nothing has left yet.
    TooFarOutOfOrder,
    /// All sequences in the table have chunks in the buffer.
    TableFull,
    /// Something else changed the region's bytes.
    RegionDamaged,
}

impl Refusal {
    /// Whether the producer broke the shared memory protocol.
    pub(super) fn is_violation(self) -> bool {
        !matches!(self, Self::NullSequence | Self::TooFarOutOfOrder | Self::TableFull | Self::RegionDamaged)
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Rewritten => "rewritten",
            Self::Relocated => "relocated",
            Self::Unchanged => "unchanged",
            Self::Discarded => "discarded",
            Self::Refused(why) => return write!(f, "refused: {why}"),
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NullSequence => "producer and writer are both 0",
            Self::TooLarge => "the payload is too large",
            Self::Shrinks => "it holds less than is stored",
            Self::ExceedsReservedRoom => "it holds more than was reserved",
            Self::ClearsFlags => "it takes flags back",
            Self::ChangesFragments => "its fragments are not those that were read",
            Self::TooFarOutOfOrder => "its id is too far from its neighbours'",
            Self::TableFull => "the sequence table is full",
            Self::RegionDamaged => "the region is damaged",
        })
    }
}

impl core::error::Error for Refusal {}

#[cfg(feature = "defmt")]
impl defmt::Format for ChunkFlags {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "ChunkFlags({=u8:#x})", self.bits());
    }
}
