//! `SequenceState`: all that is kept about one `{ProducerID, WriterID}`.

use super::chunk::ChunkHeader;
use super::data_loss::DataLoss;
use super::ring::fence;
use super::tb_chunk::{Flags, NONE};
use super::words::{Le16, Le32};
use static_assertions::{const_assert, const_assert_eq};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitflags::bitflags! {
    /// Losses and states of a sequence in 16 bits. Bits 1 to 7 are the pending causes of [`DataLoss`].
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Status: u16 {
        /// This place of the table is taken.
        const IN_USE = 1;
        /// Causes that the next packet will carry.
        const PENDING = 0xFE;
        /// Those that a first chunk must report itself when it comes back: the gap of a forgotten sequence may come
        /// with any chunk.
        const PENDING_THERE = Self::PENDING.bits() & !DataLoss::READ_GAP.bits();
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

/// The chunk erased last began a packet that was counted as broken; the other bits count packets.
const ERASED_BROKEN: u16 = 0x8000;

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
    /// How many of its packets were counted as evicted; see `ERASED_BROKEN`.
    erased_packets: Le16,
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
    pub(super) malformed: Le32,
}
const_assert_eq!(size_of::<SequenceState>(), 48);
const_assert_eq!(align_of::<SequenceState>(), 4);

/// No place of the table.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// A link between empty sequences: odd, where offsets of chunks are multiples of 4.
#[cfg_attr(target_os = "none", inline(never))]
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
    #[cfg_attr(target_os = "none", inline(always))]
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
            erased_read: Le16::new(0),
            erased_packets: Le16::new(0),
            status: Le16::new(0),
            hash_next: Le16::new(NO_SLOT),
            hash_head: self.hash_head,
            stalled: Le16::new(0),
            evicted: Le32::new(0),
            broken: Le32::new(0),
            malformed: Le32::new(0),
        };
        let forgotten = if forgotten { Status::FORGOTTEN } else { Status::empty() };
        self.set_status(kept | Status::IN_USE | forgotten);
    }

    /// Notes that something was lost before its first chunk, unless a chunk has been erased: then it was not the first.
    #[cfg_attr(not(target_has_atomic = "32"), allow(dead_code))]
    pub(super) fn begin_late(&mut self) {
        if !self.has(Status::HAS_ERASED) {
            self.insert(Status::FORGOTTEN);
        }
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
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn first(&self) -> u32 {
        self.first.get()
    }
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
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

    // Losses.

    #[inline]
    pub(super) fn pending(&self) -> DataLoss {
        DataLoss::from_bits_retain((self.status() & Status::PENDING).bits())
    }
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn lose(&mut self, cause: DataLoss) {
        self.insert(Status::from_bits_retain(cause.bits()) & Status::PENDING);
    }
    /// A chunk is about to be consumed for the first time: what its predecessors left open is now certain.
    #[inline]
    pub(super) fn arrive(&mut self, chunk_id: u32) {
        if self.is_gap_before(chunk_id) {
            self.lose(DataLoss::READ_GAP);
            self.remove(Status::BROKEN_OPEN);
        }
        if self.age(chunk_id) != 0 {
            self.erased_packets.set(0);
            if self.has(Status::TENTATIVE) {
                self.lose(self.tentative());
                self.remove(Status::TENTATIVE);
            }
        }
        // The losses are certain before the chunk says that some of it was read.
        fence();
    }
    fn tentative(&self) -> DataLoss {
        let status = self.status();
        let mut loss = DataLoss::empty();
        loss.set(DataLoss::OVERWRITE, status.intersects(Status::TENTATIVE_OVERWRITE));
        loss.set(DataLoss::WRITER_ABORT, status.intersects(Status::TENTATIVE_ABORT));
        loss.set(DataLoss::CHUNK_CORRUPTED, status.intersects(Status::TENTATIVE_CORRUPTION));
        loss
    }
    /// Notes what the chunk erased last leaves to be settled by a later commit, or reported with a later chunk.
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn leave_open(&mut self, open: Status) {
        self.insert(open);
        self.malformed.saturating_add(u32::from(open.contains(Status::TENTATIVE_CORRUPTION)));
    }
    /// Hands out the pending causes.
    #[inline]
    pub(super) fn take_pending(&mut self) -> DataLoss {
        let loss = self.pending();
        self.remove(Status::PENDING);
        loss.marked()
    }

    // What was erased last.

    pub(super) fn erase(&mut self, chunk_id: u32, read: u16) {
        self.erased_id.set(chunk_id);
        self.erased_read.set(read);
        self.set_status(self.after_erasing());
    }
    /// The status once one more chunk has been erased, complete and with nothing open.
    #[inline]
    fn after_erasing(&self) -> Status {
        let status = self.status() - (Status::ERASED_INCOMPLETE | Status::ERASED_FIRST);
        let first = if status.contains(Status::HAS_ERASED) { Status::empty() } else { Status::ERASED_FIRST };
        status | Status::HAS_ERASED | first
    }
    /// Erases a chunk all of whose whole packets were unread: [`arrive`](Self::arrive), [`erase`](Self::erase) and
    /// [`count_evicted`](Self::count_evicted) together.
    #[inline]
    pub(super) fn evict_whole(&mut self, chunk_id: u32, packets: u16) {
        if self.has(Status::TENTATIVE | Status::BROKEN_OPEN) || self.is_gap_before(chunk_id) {
            self.arrive(chunk_id);
            self.remove(Status::BROKEN_OPEN);
            // If this chunk is found again in spite of what follows, what was lost before it is still lost.
            fence();
        }
        self.evicted.saturating_add(u32::from(packets));
        self.erased_packets.set(packets);
        self.erased_id.set(chunk_id);
        self.erased_read.set(0);
        self.set_status(self.after_erasing() | Status::TENTATIVE_OVERWRITE);
    }
    /// Counts packets that went with the chunk being erased.
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn count_evicted(&mut self, packets: u16) {
        self.evicted.saturating_add(u32::from(packets));
        let erased = self.erased_packets.get();
        let count = (erased & !ERASED_BROKEN).saturating_add(packets).min(!ERASED_BROKEN);
        self.erased_packets.set((erased & ERASED_BROKEN) | count);
    }
    /// Notes that what was evicted of the chunk being erased is lost for good: a packet after it reported that.
    pub(super) fn settle_evicted(&mut self) {
        self.erased_packets.set(0);
    }
    /// Counts a packet that will not be put together, and whose end has not been seen.
    pub(super) fn open_broken(&mut self) {
        self.broken.saturating_add(1);
        self.insert(Status::BROKEN_OPEN);
    }
    /// The same for a packet that began in the chunk being erased.
    pub(super) fn open_broken_here(&mut self) {
        self.open_broken();
        self.erased_packets.set(self.erased_packets.get() | ERASED_BROKEN);
    }
    /// Notes that a chunk older than all others is on offer. It is lost if there is no room for it, or if making room
    /// evicts some of those others. They report the gap before them; but where nothing was erased yet there is no gap,
    /// and they must report that chunk.
    pub(super) fn risk_oldest(&mut self) {
        if !self.has(Status::HAS_ERASED) {
            self.insert(Status::TENTATIVE_OVERWRITE);
        }
    }
    /// Notes that this older chunk is now stored.
    pub(super) fn end_risk(&mut self) {
        if !self.has(Status::HAS_ERASED) {
            self.remove(Status::TENTATIVE_OVERWRITE);
        }
    }
    /// Whether this was the chunk erased last, and unread data went with it, which a commit would bring again. A commit
    /// that is as unfinished as before would bring its packets again, but not what may come after them.
    pub(super) fn may_come_back(&self, header: &ChunkHeader) -> bool {
        self.has(Status::TENTATIVE_OVERWRITE)
            && self.has(Status::HAS_ERASED)
            && self.erased_id() == header.chunk_id
            && (header.complete || self.erased_packets.get() != 0)
    }
    /// Takes back what counted as lost with the chunk erased last: it was committed again.
    pub(super) fn take_back(&mut self) {
        let erased = self.erased_packets.get();
        self.evicted.set(self.evicted.get().saturating_sub(u32::from(erased & !ERASED_BROKEN)));
        if erased & ERASED_BROKEN != 0 {
            self.uncount_broken();
            self.remove(Status::BROKEN_OPEN);
        }
        if self.has(Status::TENTATIVE_CORRUPTION) {
            self.malformed.set(self.malformed.get().saturating_sub(1));
        }
        self.erased_packets.set(0);
        self.remove(Status::TENTATIVE | Status::ERASED_INCOMPLETE);
    }
    /// Notes that the chunk erased last is in the ring again: the one before it, wholly read, takes its place; if there
    /// is none, it is again as if nothing had been erased. Not if it has a loss to report: an older one would report
    /// that instead. Returns how it ended, among bits that are not end marks.
    #[cfg_attr(target_os = "none", inline(always))]
    pub(super) fn readmit(&mut self) -> Flags {
        let ended = self.status().end();
        self.take_back();
        let mut before = 1;
        if self.status() & (Status::ERASED_FIRST | Status::PENDING_THERE) == Status::ERASED_FIRST {
            before = Self::BEFORE_RETURNED;
            self.remove(Status::HAS_ERASED | Status::ERASED_FIRST);
        }
        self.erased_id.set(self.erased_id.get().wrapping_sub(before));
        self.erased_read.set(u16::MAX);
        ended
    }
    /// Notes that a chunk was turned away because it came too late. If it was known to be missing, the chunk after it
    /// has reported that. But if that chunk was the first of all, it has reported nothing, and may still come back and
    /// report this one, unless some of it was read before, too early to report anything.
    pub(super) fn miss_older(&mut self) {
        let missing = (Status::ERASED_FIRST | Status::TENTATIVE_OVERWRITE) - self.status();
        if missing.bits() | self.erased_read.get() == 0 {
            self.insert(Status::from_bits_retain(DataLoss::OVERWRITE.bits()));
        }
    }
    /// Removes `ERASED_FIRST`: after a crash, it may be about a chunk erased before this one.
    pub(super) fn forget_erased_first(&mut self) {
        if self.has(Status::HAS_ERASED) {
            self.remove(Status::ERASED_FIRST);
        }
    }
    /// Notes that nothing is known of what was before this chunk.
    pub(super) fn start_before(&mut self, chunk_id: u32) {
        self.erased_id.set(chunk_id.wrapping_sub(Self::BEFORE_FIRST));
        self.erased_read.set(0);
        self.erased_packets.set(0);
        self.remove(Status::HAS_ERASED | Status::TENTATIVE | Status::BROKEN_OPEN);
    }
    /// Takes back the count of a broken packet: its writer gave it up, which is counted there.
    pub(super) fn uncount_broken(&mut self) {
        self.broken.set(self.broken.get().saturating_sub(1));
    }
}
