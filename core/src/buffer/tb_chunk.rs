//! `TBChunk`: a stored chunk, and the other items of the ring.
//!
//! The ring is a chain of items, each a multiple of 4 bytes, from offset 0 to the end of its used part. The
//! first word of an item says what it is:
//!
//! | bit 31 | bit 30 | bits 29–16 | bits 15–0 |
//! |---|---|---|---|
//! | 0: a chunk | 0 | flags | room for the payload in bytes |
//! | 1: a gap | 0: free, 1: padding | length in words … | … of 4 bytes |
//!
//! One aligned store of 4 bytes turns a chunk into a gap or a gap into a chunk: after a crash, the ring holds one or
//! the other.

use super::chunk::ChunkHeader;
use super::words::{Le16, Le32};
use core::ops::Deref;
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An offset that points nowhere. No item starts there: offsets are multiples of 4.
pub(super) const NONE: u32 = u32::MAX;
/// Bytes from a chunk's start to its payload: the header and the links.
pub(super) const PAYLOAD: u32 = 24;
/// The largest payload, in bytes: sizes in shared memory have 16 bits. With checksums it is 65,531. In the ring, a
/// chunk takes 24 bytes more than its payload, or 28 with checksums, rounded up to a multiple of 4.
pub const MAX_PAYLOAD: usize = 65_535;

// Bits of a gap's only word.
const GAP: u32 = 1 << 31;
const COUNTED: u32 = 1 << 30;

bitflags::bitflags! {
    /// What is known of a chunk since it was committed, so that it can be evicted without a look at its payload.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Flags: u16 {
        /// The first fragment continues a packet of the previous chunk.
        const CONTINUES_FROM_PREVIOUS = 1;
        /// The last fragment continues on the next chunk.
        const CONTINUES_ON_NEXT = 2;
        /// Patches for the last fragment are still to come.
        const NEEDS_PATCHING = 4;
        /// It ends before the fragments it declared: malformed, or too few.
        const TRUNCATED = 8;
        /// It ends with a packet that its writer gave up.
        const ABORTED = 0x10;
        /// It has exactly one fragment.
        const SINGLE = 0x20;
        /// It was patched since it was tokenised.
        const PATCHED = 0x40;
        /// It was scraped: the writer still had it.
        const INCOMPLETE = 0x80;
        /// Its payload is being changed.
        const BUSY = 0x100;
        /// The lap it was written in, odd or even; says where the write cursor was after a crash.
        const LAP = 0x200;
        /// The last fragment has no bytes.
        const EMPTY_LAST = 0x400;
    }
}

impl Flags {
    pub(super) fn of(header: &ChunkHeader) -> Self {
        Self::from_bits_retain(u16::from(header.flags.bits()))
    }
    /// What a commit says of a chunk, as opposed to what was found out about it.
    pub(super) const COMMITTED: Self =
        Self::CONTINUES_FROM_PREVIOUS.union(Self::CONTINUES_ON_NEXT).union(Self::NEEDS_PATCHING);
    /// What makes a chunk more than a list of whole packets.
    pub(super) const NOT_PLAIN: Self =
        Self::COMMITTED.union(Self::END_MARKS).union(Self::PATCHED).union(Self::INCOMPLETE).union(Self::BUSY);
    /// How the chunk ends, other than with its last declared fragment.
    pub(super) const END_MARKS: Self = Self::TRUNCATED.union(Self::ABORTED);
}

/// The header of a stored chunk. Its links follow, then its payload.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct TBChunk {
    /// Room and flags: see [`word_of`](Self::word_of).
    pub(super) word: Le32,
    /// Its number on its sequence; wraps.
    pub(super) chunk_id: Le32,
    /// Bytes of its well-formed fragments, size fields included.
    pub(super) valid: Le16,
    /// How many of these bytes were consumed.
    pub(super) read: Le16,
    /// Its sequence's place in the table.
    pub(super) slot: Le16,
    /// Non-empty whole packets in it, consumed ones included.
    pub(super) packets: Le16,
}
const_assert_eq!(size_of::<TBChunk>(), 16);
const_assert_eq!(align_of::<TBChunk>(), 4);

/// A chunk of the ring: where it starts, and its header and links as they were when they were copied.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) offset: u32,
    pub(super) header: TBChunk,
    pub(super) links: Links,
}

impl Deref for Stored {
    type Target = TBChunk;
    #[inline(always)]
    fn deref(&self) -> &TBChunk {
        &self.header
    }
}

/// The neighbours of a chunk in its sequence, as offsets in the ring. The first chunk's `prev` and the last one's
/// `next` are not kept up to date: the sequence knows where its list ends.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Links {
    pub(super) prev: Le32,
    pub(super) next: Le32,
}

/// A chunk as it lies in the ring, before its payload.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Front {
    pub(super) header: TBChunk,
    pub(super) links: Links,
}

impl Front {
    /// A copy, with the place it is from.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn stored_at(&self, offset: u32) -> Stored {
        Stored { offset, header: self.header, links: self.links }
    }
}

pub(super) const FRONT_WORDS: usize = size_of::<Front>() / size_of::<Le32>();
const_assert_eq!(size_of::<Front>(), PAYLOAD as usize);

impl TBChunk {
    pub(super) const fn word_of(room: u16, flags: Flags) -> u32 {
        ((flags.bits() as u32) << 16) | room as u32
    }
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        Flags::from_bits_retain((self.word.get() >> 16) as u16)
    }
    #[inline]
    pub(super) fn has(&self, flags: Flags) -> bool {
        self.flags().intersects(flags)
    }
    /// Whether this is a gap, not a chunk; the rest of the header is then stale.
    #[inline]
    pub(super) fn is_gap(&self) -> bool {
        self.word.get() & GAP != 0
    }
    /// Bytes reserved for the payload.
    #[inline]
    pub(super) fn room(&self) -> u16 {
        self.word.get() as u16
    }
    /// Bytes it takes in the ring.
    #[inline]
    pub(super) fn outer_size(&self) -> u32 {
        outer_size(u32::from(self.room()))
    }
    /// Whether its only fragment continues a packet and is continued itself.
    #[inline]
    pub(super) fn is_middle(&self) -> bool {
        self.flags()
            .contains(Flags::SINGLE.union(Flags::CONTINUES_FROM_PREVIOUS).union(Flags::CONTINUES_ON_NEXT))
    }
    /// Whether it was committed whole and declared no fragment at all.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.valid.get() == 0 && !self.has(Flags::END_MARKS.union(Flags::INCOMPLETE))
    }
}

/// Bytes a chunk with room for `payload` bytes takes in the ring.
#[inline]
pub(super) const fn outer_size(payload: u32) -> u32 {
    (PAYLOAD + payload + 3) & !3
}

/// One link of the ring's chain, as its first word gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A chunk of this many bytes.
    Chunk(u32),
    /// Space that counts as padding.
    Padding(u32),
    /// Space that was freed by consuming or erasing chunks.
    Free(u32),
}

impl Item {
    #[inline]
    pub(super) fn from_word(word: u32) -> Self {
        if word & GAP == 0 {
            Self::Chunk(outer_size(word & 0xFFFF))
        } else if word & COUNTED != 0 {
            Self::Padding((word & (COUNTED - 1)) << 2)
        } else {
            Self::Free((word & (COUNTED - 1)) << 2)
        }
    }

    /// The first word of this item, which must be a gap.
    pub(super) fn gap_word(self) -> u32 {
        match self {
            Self::Padding(size) => GAP | COUNTED | (size >> 2),
            Self::Free(size) | Self::Chunk(size) => GAP | (size >> 2),
        }
    }

    #[inline]
    pub(super) fn size(self) -> u32 {
        match self {
            Self::Chunk(size) | Self::Padding(size) | Self::Free(size) => size,
        }
    }

    /// Where this item, which starts at `at`, ends and the next one starts. A gap of no length, which only a damaged
    /// region has, counts as one of a word, so that a walk from item to item comes to an end.
    #[inline]
    pub(super) fn end_from(self, at: u32) -> Option<u32> {
        at.checked_add(self.size().max(4))
    }
}
