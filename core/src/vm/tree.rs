//! Search trees: the children of a node by key.
//!
//! At each level another bit of the search decides, the highest first, so nothing has to be balanced: no tree is deeper
//! than keys have bits, and a new child is linked, an old one unlinked, by storing few words.

use super::arena::Arena;
use super::cell::{CELL, LEFT, LOW, NONE, RIGHT};

/// The bits that decide: whether it is a number of more than 32 bits; then those, or the upper 63. Greater keys have no
/// smaller codes.
const fn code(key: u64) -> u64 {
    if key >> 32 == 0 { key << 31 } else { 1 << 63 | key >> 1 }
}

/// Levels of the deepest tree: one for each bit of a code, and one for each of the two keys that share a code. Only memory
/// that is not checked yet has more.
const DEEPEST: u32 = 66;

impl Arena<'_> {
    /// The word that links to the child with that key, or would; and that child, or [`NONE`].
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn slot(&self, owner: u32, key: u64) -> (u32, u32) {
        let mut slot = owner | LOW;
        let mut at = self.word(owner, LOW);
        let mut bits = code(key);
        for _ in 0..DEEPEST {
            let Some(cell) = self.cells.get((at / CELL) as usize) else { break };
            if at == NONE || cell.is(key) {
                break;
            }
            let side = LEFT | (bits >> 63) as u32;
            slot = at | side;
            at = cell.word(side);
            bits <<= 1;
            // Behind the first bit of the code of a number of 32 bits: half of the work from here on.
            #[cfg(not(tracebuf_size))]
            if bits as u32 == 0 {
                return self.slot_by_word(slot, at, key, (bits >> 32) as u32);
            }
        }
        (slot, at)
    }

    /// The rest of the way, when all bits that are left fit a word.
    #[cfg(not(tracebuf_size))]
    #[inline(always)]
    fn slot_by_word(&self, mut slot: u32, mut at: u32, key: u64, mut bits: u32) -> (u32, u32) {
        for _ in 0..DEEPEST {
            let Some(cell) = self.cells.get((at / CELL) as usize) else { break };
            if at == NONE || cell.is(key) {
                break;
            }
            let side = LEFT | bits >> 31;
            slot = at | side;
            at = cell.word(side);
            bits <<= 1;
        }
        (slot, at)
    }

    #[inline(always)]
    pub(super) fn find(&self, owner: u32, key: u64) -> u32 {
        self.slot(owner, key).1
    }

    /// The child with the lowest key that is not below `key`, or [`NONE`].
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn first_from(&self, owner: u32, key: u64) -> u32 {
        let mut bits = code(key);
        let (mut found, mut lowest) = (NONE, u64::MAX);
        // What is to the right of the way down: there the lowest is wanted.
        let mut right_of = NONE;
        let mut at = self.word(owner, LOW);
        loop {
            while at != NONE {
                let own = self.key(at);
                if own >= key && own <= lowest {
                    (found, lowest) = (at, own);
                }
                let right = self.word(at, RIGHT);
                if bits >> 63 != 0 {
                    at = right;
                } else {
                    at = self.word(at, LEFT);
                    if right != NONE {
                        right_of = right;
                    }
                }
                bits <<= 1;
            }
            if right_of == NONE {
                return found;
            }
            (at, right_of, bits) = (right_of, NONE, 0);
        }
    }

    /// Unlinks a node. A leaf below it takes its place.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn unlink(&mut self, node: u32) {
        let (slot, _) = self.slot(self.owner(node), self.key(node));
        let (mut leaf, mut leaf_slot) = (node, slot);
        loop {
            let mut below = leaf | LEFT;
            if self.get(below) == NONE {
                below = leaf | RIGHT;
            }
            if self.get(below) == NONE {
                break;
            }
            (leaf, leaf_slot) = (self.get(below), below);
        }
        self.put(leaf_slot, NONE);
        if leaf != node {
            self.put(slot, leaf);
            for side in LEFT..=RIGHT {
                self.put(leaf | side, self.get(node | side));
                self.put(node | side, NONE);
            }
        }
    }
}
