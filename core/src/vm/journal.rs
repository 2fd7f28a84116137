//! Patches that count whole or not at all: the journal, and the log of cells taken and dropped.
//!
//! A patch never writes over a node that was there before it, except after a copy of the node lies in the journal: a
//! list of records that starts in the header and is prolonged by one aligned store. Storing 0 there is the commit. So
//! at any instant the memory holds the state before the patch (with records that lead back to it) or the state after
//! it. What the patch has dropped is freed after the commit.

use super::arena::{Arena, fence};
use super::cell::{Cell, NONE, PAYLOAD};

/// Bytes of a word of the log, and words of one of its cells.
const WORD: usize = 4;
const WORDS: usize = PAYLOAD / WORD;

impl Arena<'_> {
    /// A node to be changed: a copy goes into the journal, unless one is there or the patch has made the node.
    pub(super) fn edit(&mut self, at: u32) -> Option<&mut Cell> {
        let before = *self.cell(at);
        if before.link.get() < self.patch {
            let record = self.take()?;
            let prev = self.header.journal;
            let copy = self.cell_mut(record);
            *copy = Cell { link: prev, ..before };
            copy.key.set(at.into());
            self.set_journal(record);
            let stamp = self.patch;
            self.cell_mut(at).link.set(stamp);
        }
        Some(self.cell_mut(at))
    }

    /// The one store that makes a record, or a commit, count.
    fn set_journal(&mut self, record: u32) {
        fence();
        #[cfg(test)]
        super::tests::crash_here(|| self.image());
        self.header.journal.set(record);
        fence();
    }

    /// Begins a patch; `false` if there are too few stamps left for it: [`forget_stamps`](Self::forget_stamps).
    pub(super) fn begin(&mut self, budget: u32) -> bool {
        self.budget = budget;
        self.next_stamp().is_some_and(|stamp| {
            self.patch = stamp;
            stamp < u32::MAX / 2
        })
    }

    /// Begins with the first stamp again, after all nodes' were set to 0.
    pub(super) fn forget_stamps(&mut self) {
        (self.stamp, self.patch) = (1, 1);
    }

    /// A stamp above all there are: for what a merge touches.
    pub(super) fn next_stamp(&mut self) -> Option<u32> {
        self.stamp = self.stamp.checked_add(1)?;
        Some(self.stamp)
    }

    /// The patch counts: one store, and what it dropped is free.
    pub(super) fn commit(&mut self) {
        let mut record = self.header.journal.get();
        self.set_journal(NONE);
        while record != NONE {
            let prev = self.cell(record).link.get();
            self.give(record);
            record = prev;
        }
        self.close_log(true);
    }

    /// The patch does not count: the state and the free cells are as before it.
    pub(super) fn abort(&mut self) {
        // Only memory that somebody else writes into makes it fail.
        let _ = self.roll_back();
        self.close_log(false);
    }

    /// Puts back what the journal holds. May be repeated, from the start, until the journal is empty.
    pub(super) fn roll_back(&mut self) -> Option<()> {
        let mut record = self.header.journal.get();
        for _ in 0..self.cells.len() {
            if record == NONE {
                self.set_journal(NONE);
                return Some(());
            }
            let copy = *self.cell(record);
            let at = u32::try_from(copy.key.get()).ok().filter(|at| self.has(*at) && self.has(record))?;
            let node = self.cell_mut(at);
            *node = Cell { key: node.key, link: node.link, ..copy };
            record = copy.link.get();
        }
        None
    }

    fn close_log(&mut self, committed: bool) {
        let mut words = core::mem::take(&mut self.logged);
        let mut at = core::mem::take(&mut self.log);
        while at != NONE {
            let cell = *self.cell(at);
            for word in cell.payload().chunks_exact(WORD).take(words) {
                let Some(word) = word.first_chunk().map(|word| u32::from_le_bytes(*word)) else { continue };
                match word & 1 == 1 {
                    true if committed => self.give_tree(word >> 1),
                    false if !committed => self.give(word >> 1),
                    _ => {}
                }
            }
            self.give(at);
            (at, words) = (cell.link.get(), WORDS);
        }
    }

    /// Appends a word to the log.
    pub(super) fn note(&mut self, word: u32) -> Option<()> {
        if self.log == NONE || self.logged == WORDS {
            let cell = self.take_unnoted()?;
            let prev = core::mem::replace(&mut self.log, cell);
            self.cell_mut(cell).link.set(prev);
            self.logged = 0;
        }
        let at = self.logged.checked_mul(WORD)?;
        let log = self.log;
        let place = self.cell_mut(log).payload_mut().get_mut(at..)?;
        *place.first_chunk_mut()? = word.to_le_bytes();
        self.logged = self.logged.checked_add(1)?;
        Some(())
    }

    /// A free cell, for the patch in progress.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.charge()?;
        let at = self.take_unnoted()?;
        if self.note(at << 1).is_none() {
            self.give(at);
            return None;
        }
        Some(at)
    }
}
