//! A sequence's losses, certain and tentative.

use super::{SequenceState, Status};
use crate::buffer::data_loss::DataLoss;
use crate::buffer::ring::fence;
use crate::buffer::tb_chunk::Flags;

/// The chunk erased last began a packet that was counted as broken; the other bits count packets.
const ERASED_BROKEN: u16 = 0x8000;

/// In `pending`: packets were overwritten that an observer has folded. No cause has this bit.
const FOLDED: u16 = 0x8000;
const _: () = assert!(DataLoss::all().bits() & FOLDED == 0);

impl SequenceState {
    /// Causes that the next packet will carry.
    #[inline]
    pub(in crate::buffer) fn pending(&self) -> DataLoss {
        let folded = self.pending.get() & FOLDED != 0;
        self.lost() | if folded { DataLoss::OVERWRITE } else { DataLoss::empty() }
    }
    /// The same without packets that an observer has folded.
    #[inline]
    pub(in crate::buffer) fn lost(&self) -> DataLoss {
        DataLoss::from_bits_retain(self.pending.get()) & DataLoss::KEPT
    }
    /// With what a later chunk could take back.
    pub(in crate::buffer) fn known_losses(&self) -> DataLoss {
        self.lost() | self.tentative()
    }
    /// Notes that an observer was told of all that was lost, and has folded what was before.
    pub(in crate::buffer) fn fold_pending(&mut self) {
        self.pending.set(FOLDED);
    }
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(in crate::buffer) fn lose(&mut self, cause: DataLoss) {
        let kept = (cause & DataLoss::KEPT).bits();
        self.pending.set(self.pending.get() | kept);
    }
    /// A chunk is about to be consumed for the first time: what its predecessors left open is now certain.
    #[inline]
    pub(in crate::buffer) fn arrive(&mut self, chunk_id: u32) {
        if self.is_gap_before(chunk_id) {
            self.lose(DataLoss::READ_GAP);
            self.remove(Status::BROKEN_OPEN);
        }
        if self.age(chunk_id) != 0 {
            self.erased_packets.set(0);
            if self.has(Status::TENTATIVE) {
                self.lose(self.tentative());
                // Certain before it is no longer tentative.
                fence();
                self.remove(Status::TENTATIVE);
            }
        }
        // The losses are certain before the chunk says that some of it was read.
        fence();
    }
    fn tentative(&self) -> DataLoss {
        let mut loss = DataLoss::empty();
        loss.set(DataLoss::OVERWRITE, self.has(Status::TENTATIVE_OVERWRITE));
        loss.set(DataLoss::WRITER_ABORT, self.has(Status::TENTATIVE_ABORT));
        loss.set(DataLoss::CHUNK_CORRUPTED, self.has(Status::TENTATIVE_CORRUPTION));
        loss
    }
    /// Notes what the chunk erased last leaves to be settled by a later commit, or reported with a later chunk.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(in crate::buffer) fn leave_open(&mut self, open: Status) {
        self.insert(open);
        self.malformed.saturating_add(u16::from(open.contains(Status::TENTATIVE_CORRUPTION)));
    }
    /// Hands out the pending causes.
    #[inline]
    pub(in crate::buffer) fn take_pending(&mut self) -> DataLoss {
        let loss = self.pending();
        self.pending.set(0);
        loss.marked()
    }
    /// Makes an entry of a region of version 1, with the pending causes in the status and a `malformed` of 32 bits, one
    /// of this version. The old causes stay, so that doing it again after a crash changes nothing.
    pub(in crate::buffer) fn upgrade(&mut self) {
        let (causes, high) = ((self.status() & Status::PENDING_IN_VERSION_1).bits(), self.pending.get());
        if high != causes {
            if high != 0 {
                self.malformed.set(u16::MAX);
            }
            self.pending.set(causes);
        }
    }

    // What was erased last.

    pub(in crate::buffer) fn erase(&mut self, chunk_id: u32, read: u16) {
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
    pub(in crate::buffer) fn evict_whole(&mut self, chunk_id: u32, packets: u16) {
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
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(in crate::buffer) fn count_evicted(&mut self, packets: u16) {
        self.evicted.saturating_add(u32::from(packets));
        let erased = self.erased_packets.get();
        let count = (erased & !ERASED_BROKEN).saturating_add(packets).min(!ERASED_BROKEN);
        self.erased_packets.set((erased & ERASED_BROKEN) | count);
    }
    /// Notes that what was evicted of the chunk being erased is lost for good: a packet after it reported that.
    pub(in crate::buffer) fn settle_evicted(&mut self) {
        self.erased_packets.set(0);
    }
    /// Counts a packet that will not be put together, and whose end has not been seen.
    pub(in crate::buffer) fn open_broken(&mut self) {
        self.broken.saturating_add(1);
        self.insert(Status::BROKEN_OPEN);
    }
    /// The same for a packet that began in the chunk being erased.
    pub(in crate::buffer) fn open_broken_here(&mut self) {
        self.open_broken();
        self.erased_packets.set(self.erased_packets.get() | ERASED_BROKEN);
    }
    /// Notes that a chunk older than all others is on offer. If it finds no room, those others report the gap before
    /// them; but where nothing was erased yet there is no gap, and they must report that chunk.
    pub(in crate::buffer) fn risk_oldest(&mut self) {
        if !self.has(Status::HAS_ERASED) {
            self.insert(Status::TENTATIVE_OVERWRITE);
        }
    }
    /// Notes that this older chunk is now stored.
    pub(in crate::buffer) fn end_risk(&mut self) {
        if !self.has(Status::HAS_ERASED) {
            self.remove(Status::TENTATIVE_OVERWRITE);
        }
    }
    /// Takes back what counted as lost with the chunk erased last: it was committed again.
    pub(in crate::buffer) fn take_back(&mut self) {
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
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(in crate::buffer) fn readmit(&mut self) -> Flags {
        let ended = self.status().end();
        self.take_back();
        let mut before = 1;
        // The gap of a forgotten sequence may come with any chunk.
        let must_report = !(self.pending() - DataLoss::READ_GAP).is_empty();
        if self.has(Status::ERASED_FIRST) && !must_report {
            before = Self::BEFORE_RETURNED;
            self.remove(Status::HAS_ERASED | Status::ERASED_FIRST);
        }
        self.erased_id.set(self.erased_id.get().wrapping_sub(before));
        self.erased_read.set(u16::MAX);
        ended
    }
    /// Notes that a chunk was turned away because it came too late. The chunk after it has reported it as missing,
    /// unless that was the first of all: then it may still come back and report this one, if nothing of it was read
    /// before.
    pub(in crate::buffer) fn miss_older(&mut self) {
        let missing = (Status::ERASED_FIRST | Status::TENTATIVE_OVERWRITE) - self.status();
        if missing.bits() | self.erased_read.get() == 0 {
            self.lose(DataLoss::OVERWRITE);
        }
    }
    /// Removes `ERASED_FIRST`: after a crash, it may be about a chunk erased before this one.
    pub(in crate::buffer) fn forget_erased_first(&mut self) {
        if self.has(Status::HAS_ERASED) {
            self.remove(Status::ERASED_FIRST);
        }
    }
    /// Notes that nothing is known of what was before this chunk.
    pub(in crate::buffer) fn start_before(&mut self, chunk_id: u32) {
        self.erased_id.set(chunk_id.wrapping_sub(Self::BEFORE_FIRST));
        self.erased_read.set(0);
        self.erased_packets.set(0);
        self.remove(Status::HAS_ERASED | Status::TENTATIVE | Status::BROKEN_OPEN);
    }
    /// Takes back the count of a broken packet: its writer gave it up, which is counted there.
    pub(in crate::buffer) fn uncount_broken(&mut self) {
        self.broken.set(self.broken.get().saturating_sub(1));
    }
}
