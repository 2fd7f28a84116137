//! `SequenceState`: all that is kept about one `{ProducerID, WriterID}`.

use super::chunk::ChunkHeader;
use super::tb_chunk::{Flags, NONE};
use super::words::{Le16, Le32};
use static_assertions::{const_assert, const_assert_eq};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

mod losses;

bitflags::bitflags! {
    /// States of a sequence, and losses that a later commit may still take back.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Status: u16 {
        /// This place of the table is taken.
        const IN_USE = 1;
        /// The pending causes in a region of version 1; without meaning since.
        const PENDING_IN_VERSION_1 = 0xFE;
        /// Some chunk was erased: `erased_id` and what belongs to it are real.
        const HAS_ERASED = 0x100;
        /// The chunk erased last held unread data, which a commit may still bring again.
        const TENTATIVE_OVERWRITE = 0x200;
        /// The same for its malformed end.
        const TENTATIVE_CORRUPTION = 0x400;
        /// The same for a packet given up at its end.
        const TENTATIVE_ABORT = 0x800;
        /// The chunk erased last was a scraped copy.
        const ERASED_INCOMPLETE = 0x1000;
        /// A packet was counted as broken and its end has not been seen.
        const BROKEN_OPEN = 0x2000;
        /// While nothing has been erased: something of this sequence was forgotten before this entry was made.
        const FORGOTTEN = 0x4000;
        /// After that: nothing is known of what was before the chunk erased last.
        const ERASED_FIRST = 0x4000;
        /// About the *index*, not the entry: a sequence whose hash leads here was forgotten or refused.
        const FORGETFUL = 0x8000;

        /// All that waits for a later chunk.
        const TENTATIVE = Self::TENTATIVE_OVERWRITE.bits() | Self::TENTATIVE_ABORT.bits() | Self::TENTATIVE_CORRUPTION.bits();
    }
}

impl Status {
    /// What the end of an erased chunk has to tell.
    pub(super) const fn of_end(flags: Flags) -> Self {
        Self::from_bits_retain((flags.bits() & Flags::END_MARKS.bits()) << Self::END)
    }
    /// The end marks that led to it, among bits that are not end marks.
    const fn end(self) -> Flags {
        Flags::from_bits_retain(self.bits() >> Self::END)
    }
    const END: u32 = 7;
}
const_assert!(Status::of_end(Flags::TRUNCATED).bits() == Status::TENTATIVE_CORRUPTION.bits());
const_assert!(Status::of_end(Flags::ABORTED).bits() == Status::TENTATIVE_ABORT.bits());

/// One place of the sequence table, and beside it one head of the table's hash index.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct SequenceState {
    pub(super) producer_id: Le16,
    pub(super) writer_id: Le16,
    pub(super) uid: Le32,
    pub(super) pid: Le32,
    /// The oldest and the newest chunk. In a sequence without chunks: the sequences that have been empty for
    /// longer and for shorter, each as [`link_to_slot`].
    first: Le32,
    last: Le32,
    /// The chunk erased last. Before there is one: 2³⁰ before the first chunk ever committed, so that ids
    /// count from here either way.
    erased_id: Le32,
    /// How many bytes of it had been read.
    pub(super) erased_read: Le16,
    /// How many of its packets were counted as evicted; see `losses::ERASED_BROKEN`.
    pub(super) erased_packets: Le16,
    status: Le16,
    /// The next sequence with the same hash.
    pub(super) hash_next: Le16,
    /// Where the chain of sequences with this place's number as their hash starts. Belongs to the index, not to the
    /// entry.
    hash_head: Le16,
    /// The read session in which it stalled.
    pub(super) stalled: Le16,
    pub(super) evicted: Le32,
    pub(super) broken: Le32,
    pub(super) malformed: Le16,
    /// Causes that the next packet will carry, as in [`DataLoss`].
    pending: Le16,
}
const_assert_eq!(size_of::<SequenceState>(), 48);
const_assert_eq!(align_of::<SequenceState>(), 4);

/// No place of the table.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// A link between empty sequences: odd, where offsets of chunks are multiples of 4.
#[cfg_attr(tracebuf_small, inline(never))]
pub(super) fn link_to_slot(slot: u16) -> u32 {
    if slot == NO_SLOT { NONE } else { (u32::from(slot) << 2) | 1 }
}

/// The slot a link leads to, [`NO_SLOT`] if it leads nowhere.
pub(super) fn slot_of_link(link: u32) -> u16 {
    (link >> 2) as u16
}
const_assert_eq!((NONE >> 2) as u16, NO_SLOT);

impl SequenceState {
    /// Half of the half of the id space that is newer than any given id.
    const BEFORE_FIRST: u32 = 1 << 30;
    /// How much older than the first chunk others may be once it has come back.
    const BEFORE_RETURNED: u32 = 1 << 16;

    /// Starts a new sequence here; what belongs to the index stays.
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(super) fn start(&mut self, header: &ChunkHeader, forgotten: bool) {
        let kept = self.status() & Status::FORGETFUL;
        *self = Self {
            producer_id: Le16::new(header.producer_id),
            writer_id: Le16::new(header.writer_id),
            uid: Le32::new(header.uid),
            pid: Le32::new(header.pid as u32),
            first: Le32::new(NONE),
            last: Le32::new(NONE),
            erased_id: Le32::new(header.chunk_id.wrapping_sub(Self::BEFORE_FIRST)),
            hash_next: Le16::new(NO_SLOT),
            hash_head: self.hash_head,
            ..Self::new_zeroed()
        };
        let forgotten = if forgotten { Status::FORGOTTEN } else { Status::empty() };
        self.set_status(kept | Status::IN_USE | forgotten);
    }

    /// Zeroed memory is an empty index: heads are stored plus one.
    #[inline]
    pub(super) fn hash_head(&self) -> u16 {
        self.hash_head.get().wrapping_sub(1)
    }
    pub(super) fn set_hash_head(&mut self, slot: u16) {
        self.hash_head.set(slot.wrapping_add(1));
    }

    #[inline]
    pub(super) fn status(&self) -> Status {
        Status::from_bits_retain(self.status.get())
    }
    #[inline]
    pub(super) fn set_status(&mut self, status: Status) {
        self.status.set(status.bits());
    }
    #[inline]
    pub(super) fn has(&self, status: Status) -> bool {
        self.status().intersects(status)
    }
    pub(super) fn insert(&mut self, status: Status) {
        self.set_status(self.status() | status);
    }
    pub(super) fn remove(&mut self, status: Status) {
        self.set_status(self.status() - status);
    }

    // The list of chunks.

    /// Whether this can be a sequence: {0, 0} is not one.
    pub(super) fn is_someone(&self) -> bool {
        self.has(Status::IN_USE) && (self.producer_id.get() != 0 || self.writer_id.get() != 0)
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.get() & 1 != 0
    }
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn first(&self) -> u32 {
        self.first.get()
    }
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn last(&self) -> u32 {
        self.last.get()
    }
    #[inline]
    pub(super) fn set_first(&mut self, offset: u32) {
        self.first.set(offset);
    }
    #[inline]
    pub(super) fn set_last(&mut self, offset: u32) {
        self.last.set(offset);
    }

    // The order of ids. All ids of a list lie in the 2³¹ − 1 after `erased_id`: there the modular order is total.

    #[inline]
    pub(super) fn erased_id(&self) -> u32 {
        self.erased_id.get()
    }
    /// How far an id is beyond the one erased last.
    #[inline]
    pub(super) fn age(&self, chunk_id: u32) -> u32 {
        chunk_id.wrapping_sub(self.erased_id.get())
    }
    /// Whether a chunk may be stored after the one erased last. All ids except the 2³¹ − 1 after that one are older. Of
    /// these, the last 65,536 are left out: when the chunk erased last comes back, the others count from before it.
    #[inline]
    pub(super) fn is_newer(&self, chunk_id: u32) -> bool {
        self.age(chunk_id).wrapping_sub(1) < i32::MAX as u32 - Self::BEFORE_RETURNED
    }
    /// Whether chunks are missing between the last one consumed and this one.
    pub(super) fn is_gap_before(&self, chunk_id: u32) -> bool {
        if self.has(Status::HAS_ERASED) {
            self.age(chunk_id) > 1
        } else {
            self.has(Status::FORGOTTEN) && chunk_id != 0
        }
    }
}
