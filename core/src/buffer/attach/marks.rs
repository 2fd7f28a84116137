//! Notes on each sequence, kept while attaching to a region.
//!
//! Two fields of its entry have another meaning in that time, as there is no memory for more:
//!
//! | field | otherwise | while attaching |
//! |---|---|---|
//! | `stalled` | the read session in which it stalled, 0 for none | [`Marks`]; none once its list is made |
//! | `hash_next` | the next one in its chain of the index | the balance, until the index is made anew |
//!
//! One bit of the status is `FORGOTTEN` while nothing of the sequence has been erased, and `ERASED_FIRST` after that.
//! As a crash may come between the stores, the latter may have been set for a chunk erased before the last one, so
//! attaching begins and ends with clearing it.

use crate::buffer::sequence_state::SequenceState;
use crate::buffer::words::Le16;

bitflags::bitflags! {
    /// What was found out about a sequence.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Marks: u16 {
        /// A chunk of it was found.
        const SEEN = 1;
        /// The chunk that is said to be erased last was found.
        const ERASED_IS_THERE = 2;
        /// It is in the list of empty sequences.
        const LISTED = 4;
        /// Another one has the same identity, or too many the same hash.
        const DOUBLE = 8;
        /// More chunks are older than the one that is said to be erased last than are newer.
        const ERASED_IS_WRONG = 16;
    }
}

/// The balance of as many newer chunks as older ones: each newer one adds one, each older one subtracts one.
const EVEN: u16 = 0x8000;

impl SequenceState {
    pub(super) fn marks(&self) -> Marks {
        Marks::from_bits_retain(self.stalled.get())
    }

    pub(super) fn mark(&mut self, marks: Marks) {
        self.stalled.set((self.marks() | marks).bits());
    }

    pub(super) fn clear_marks(&mut self) {
        self.stalled.set(0);
    }

    pub(super) fn clear_balance(&mut self) {
        self.hash_next = Le16::new(EVEN);
    }

    /// Notes whether a chunk of it is newer or older than the one that is said to be erased last, or is that one.
    pub(super) fn weigh(&mut self, chunk_id: u32) {
        let balance = self.hash_next.get();
        match self.age(chunk_id) as i32 {
            0 => self.mark(Marks::ERASED_IS_THERE),
            1.. => self.hash_next.set(balance.saturating_add(1)),
            _ => self.hash_next.set(balance.saturating_sub(1)),
        }
    }

    /// Ends the weighing: the index needs that field from here on.
    pub(super) fn settle_balance(&mut self) {
        if self.hash_next.get() < EVEN {
            self.mark(Marks::ERASED_IS_WRONG);
        }
    }
}
