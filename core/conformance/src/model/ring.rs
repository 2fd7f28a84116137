//! The model's ring: where things lie, as far as it says what a new chunk overwrites.

use std::collections::BTreeMap;

use super::{Handle, Held};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Chunk(Handle),
    /// What is left of something that was overwritten in part.
    Padding,
    /// Where a consumed or erased chunk was.
    Free,
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) size: u64,
    pub(super) write: u64,
    /// Offset to length and content; bytes never written are in no item.
    items: BTreeMap<u64, (u64, Space)>,
}

impl Ring {
    pub(super) fn new(size: u64) -> Self {
        Ring { size, write: 0, items: BTreeMap::new() }
    }

    /// The chunks, the oldest place first: from the write cursor around to it.
    pub(super) fn chunks_oldest_first(&self) -> Vec<Handle> {
        let ahead = self.items.range(self.write..);
        let behind = self.items.range(..self.write);
        let space = ahead.chain(behind).map(|(_, (_, space))| space);
        space.filter_map(|s| if let Space::Chunk(h) = s { Some(*h) } else { None }).collect()
    }

    /// The first item that begins in the range.
    pub(super) fn item_in(&self, from: u64, to: u64) -> Option<(u64, u64, Space)> {
        self.items.range(from..to).next().map(|(at, (len, space))| (*at, *len, *space))
    }

    pub(super) fn set(&mut self, at: u64, len: u64, space: Space) {
        self.items.insert(at, (len, space));
    }

    /// Forgets what begins in the range.
    pub(super) fn clear(&mut self, from: u64, to: u64) {
        self.items.retain(|at, _| !(from..to).contains(at));
    }

    pub(super) fn free_range(&mut self, from: u64, to: u64) {
        if from < to {
            self.set(from, to - from, Space::Free);
        }
    }

    pub(super) fn free(&mut self, at: u64) {
        if let Some((_, space)) = self.items.get_mut(&at) {
            *space = Space::Free;
        }
    }

    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        for (len, space) in self.items.values() {
            match space {
                Space::Chunk(_) => held.chunks += len,
                Space::Padding => held.padding += len,
                Space::Free => {}
            }
        }
        held
    }
}
