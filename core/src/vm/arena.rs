//! The arena: words in the caller's memory, cells given out and taken back, and patches that count whole or not at all.
//!
//! A patch may write into cells that were free when it began. Any other word is replaced only after its place and its
//! value lie in the log, a list of cells whose end is in the header and moves by one store. Storing [`NO_LOG`] there is
//! the commit. So at any instant the memory holds the state before the patch (with a log that leads back to it) or the
//! state after it. What the patch dropped is freed after the commit.
//!
//! Without memory, out of budget, or when the program is wrong, the patch *fails*: nothing is written from then on, and
//! who notices first ends it.

use super::cell::{CELL, Cell, HIGH, KEY, KIND, LEFT, LINK, LOW, META, NONE, OWNER_SHIFT, RIGHT, ROOT, WHAT};
use core::sync::atomic::{Ordering, compiler_fence};

/// The header's word that tells where the log's next entry goes.
pub(super) const LOG: u32 = 5;

/// Words of a cell of the log that are entries; then comes where the log ended before it.
const ENTRIES: u32 = 6;

/// The log's end when it has no cell: as if one were full.
pub(super) const NO_LOG: u32 = ENTRIES;

/// What a machine knows of its memory, besides what is in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Live {
    /// The first free cell.
    pub(super) free: u32,
    pub(super) used: u32,
    pub(super) high_water: u32,
}

/// The memory, for as long as something is done with it.
#[repr(C)]
pub(super) struct Arena<'r> {
    pub(super) cells: &'r mut [Cell],
    /// What indexes beyond the end stand for; so looking needs no way to fail.
    none: &'r Cell,
    pub(super) live: Live,
    /// Cells that may still be taken, and fields looked at.
    pub(super) budget: u32,
    pub(super) failed: bool,
    /// The last holder of what the patch dropped.
    dropped: u32,
    /// The first free cell, and the cells in use, when the patch began.
    before: [u32; 2],
    /// A patch's or a program's bytes.
    pub(super) flat: &'r [u8],
}

impl<'r> Arena<'r> {
    /// Begins a patch.
    pub(super) fn new(cells: &'r mut [Cell], live: Live, flat: &'r [u8], budget: u32) -> Self {
        let before = [live.free, live.used];
        Self { cells, none: &Cell::EMPTY, live, budget, failed: false, dropped: NONE, before, flat }
    }
}

impl Arena<'_> {
    #[cfg_attr(not(tracebuf_size), inline)]
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn cell(&self, at: u32) -> &Cell {
        self.cells.get((at / CELL) as usize).unwrap_or(self.none)
    }

    /// A word of the cell that is at `at`.
    #[inline(always)]
    pub(super) fn word(&self, at: u32, word: u32) -> u32 {
        self.cell(at).word(word)
    }

    /// A word by its own index.
    #[cfg_attr(not(tracebuf_size), inline)]
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn get(&self, at: u32) -> u32 {
        self.cell(at).word(at)
    }

    /// Stores into a cell that is no node of the state before the patch; not in one that fails.
    #[cfg_attr(not(tracebuf_size), inline)]
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn set(&mut self, at: u32, value: u32) {
        #[cfg(test)]
        super::tests::crash_here(|| self.image());
        if let Some(cell) = self.cells.get_mut((at / CELL) as usize)
            && !self.failed
        {
            cell.set(at, value);
        }
    }

    /// Replaces a word of the state.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn put(&mut self, at: u32, value: u32) {
        let before = self.get(at);
        if before == value || self.failed {
            return;
        }
        let mut entry = self.get(LOG);
        if entry % CELL == ENTRIES {
            let cell = self.take();
            if cell == NONE {
                return;
            }
            self.set(cell | ENTRIES, entry);
            entry = cell;
        }
        self.set(entry, at);
        self.set(entry | 1, before);
        self.end_log(entry + 2);
        self.set(at, value);
    }

    /// The one store that makes an entry, or a commit, count.
    pub(super) fn end_log(&mut self, at: u32) {
        fence();
        self.set(LOG, at);
        fence();
    }

    /// Ends the patch in an abort.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Counts a look at a field, or a cell; whether there is budget for it.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn charge(&mut self) -> bool {
        match self.budget.checked_sub(1) {
            Some(left) => self.budget = left,
            None => self.fail(),
        }
        !self.failed
    }

    /// A free cell, or [`NONE`] in a patch that fails.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn take(&mut self) -> u32 {
        let cell = self.live.free;
        if cell == NONE {
            self.fail();
        }
        if !self.charge() {
            return NONE;
        }
        self.live.free = self.word(cell, LINK);
        self.live.used = self.live.used.wrapping_add(1);
        self.live.high_water = self.live.high_water.max(self.live.used);
        cell
    }

    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn give(&mut self, cell: u32) {
        self.set(cell | LINK, self.live.free);
        self.live.free = cell;
        self.live.used = self.live.used.wrapping_sub(1);
    }

    /// A new node or holder with nothing in it.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn fresh(&mut self, meta: u32) -> u32 {
        let cell = self.take();
        for word in KEY..META {
            self.set(cell | word, 0);
        }
        self.set(cell | META, meta);
        cell
    }

    /// Lets something go when the patch is done: what a node holds, or a node and all below it, as the one child of a
    /// message. Returns the cell that holds it until then.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn drop_later(&mut self, what: u32, low: u32, high: u32) -> u32 {
        let holder = self.fresh(what);
        self.set(holder | LOW, low);
        self.set(holder | HIGH, high);
        // A tree of holders, whose left ones are the earlier.
        self.set(holder | LEFT, self.dropped);
        self.dropped = holder;
        holder
    }

    /// Ends a patch: it counts, unless it has failed.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn end(&mut self) -> bool {
        if self.failed {
            self.failed = false;
            [self.live.free, self.live.used] = self.before;
            // Only memory that somebody else writes into makes it fail.
            self.roll_back();
            return false;
        }
        let mut log = self.get(LOG);
        self.end_log(NO_LOG);
        while log != NO_LOG {
            let cell = log / CELL * CELL;
            log = self.word(cell, ENTRIES);
            self.give(cell);
        }
        self.sweep(self.dropped, 0);
        true
    }

    /// Puts back what the log holds; whether it can. May be repeated, from the start, until the log is empty.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn roll_back(&mut self) -> bool {
        let mut entry = self.get(LOG);
        for _ in 0..(self.cells.len() as u32).wrapping_mul(CELL) {
            if entry == NO_LOG {
                self.end_log(NO_LOG);
                return true;
            }
            entry = entry.wrapping_sub(2);
            let at = self.get(entry);
            if at < ROOT {
                break;
            }
            self.set(at, self.get(entry | 1));
            if entry.is_multiple_of(CELL) {
                entry = self.get(entry | ENTRIES);
            }
        }
        false
    }

    #[inline(always)]
    pub(super) fn kind(&self, at: u32) -> u32 {
        self.word(at, META) & KIND
    }

    #[inline(always)]
    pub(super) fn owner(&self, at: u32) -> u32 {
        self.word(at, META) >> OWNER_SHIFT & !(CELL - 1)
    }

    #[inline(always)]
    pub(super) fn key(&self, at: u32) -> u64 {
        self.cell(at).key()
    }

    /// Two words by the index of the first, which is even.
    #[inline(always)]
    pub(super) fn pair(&self, at: u32) -> u64 {
        let cell = self.cell(at);
        u64::from(cell.word(at)) | u64::from(cell.word(at | 1)) << 32
    }

    /// Replaces what a node holds by words, and what these are.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn hold(&mut self, at: u32, what: u32, low: u32, high: u32) {
        self.put(at | LOW, low);
        self.put(at | HIGH, high);
        self.put(at | META, self.word(at, META) & !WHAT | what);
    }

    /// The memory as it is.
    #[cfg(test)]
    pub(super) fn image(&self) -> std::vec::Vec<u8> {
        zerocopy::IntoBytes::as_bytes(&*self.cells).to_vec()
    }
}

/// Stores before it are made before those after it.
pub(super) fn fence() {
    compiler_fence(Ordering::SeqCst);
}

const _: () =
    assert!(RIGHT == LEFT | 1 && HIGH == LOW + 1 && LOW == KEY + 2 && LEFT == HIGH + 1 && META == RIGHT + 1);
