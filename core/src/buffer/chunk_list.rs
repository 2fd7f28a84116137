//! The ordered list of a sequence's chunks, linked within the chunks, and `ChunkSeqIterator`, which follows it.

use super::region::{Intact, State};
use super::ring::{Ring, fence};
use super::sequence_state::Status;
use super::tb_chunk::{Item, Links, NONE, Stored, TBChunk};
use super::words::Le32;
use crate::wrapping::is_after;

/// How many chunks a commit or a patch walks back from the newest before it gives up. Packets of several MB
/// in chunks of 1 KiB patch their first chunk after more than 2,000 others; scrapes disorder far fewer.
pub const WALK_LIMIT: u32 = 4096;

/// Where a chunk belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// After all others.
    Last,
    /// Before all others.
    First,
    /// After the chunk at this offset.
    After(u32),
    /// It is there already.
    Existing(u32),
    /// It was the last one to be erased.
    ErasedLast,
    /// Too late: a later chunk was consumed or erased already.
    Consumed,
    /// Too far from the newest to be looked for.
    TooFar,
}

impl State<'_> {
    /// Finds the place of a chunk id in a sequence: O(1) for the newest, for ids outside the list and for
    /// those already consumed; else a walk from the newest of at most [`WALK_LIMIT`] chunks.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn place(&self, slot: u16, chunk_id: u32) -> Option<Place> {
        let entry = self.sequence(slot)?;
        if !entry.is_newer(chunk_id) {
            return Some(match (entry.has(Status::HAS_ERASED), entry.erased_id() == chunk_id) {
                (true, true) => Place::ErasedLast,
                (true, false) => Place::Consumed,
                (false, _) => Place::TooFar,
            });
        }
        if entry.is_empty() {
            return Some(Place::Last);
        }
        let age = entry.age(chunk_id);
        let newest = entry.age(self.ring.chunk_id(entry.last())?);
        if age > newest {
            return Some(Place::Last);
        }
        if age == newest {
            return Some(Place::Existing(entry.last()));
        }
        self.place_among(slot, age)
    }

    /// Like [`place`](Self::place), for an age below the newest chunk's.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn place_among(&self, slot: u16, age: u32) -> Option<Place> {
        let entry = self.sequence(slot)?;
        let oldest = self.ring.front(entry.first())?.header;
        if age < entry.age(oldest.chunk_id.get()) {
            // Packets of a writer come out in order, so nothing may come before what was read already.
            return Some(if oldest.read.get() > 0 { Place::Consumed } else { Place::First });
        }
        let mut at = entry.last();
        for _ in 0..WALK_LIMIT {
            let front = self.ring.front(at)?;
            let here = entry.age(front.header.chunk_id.get());
            if here == age {
                return Some(Place::Existing(at));
            }
            if here < age {
                return Some(Place::After(at));
            }
            at = front.links.prev.get();
        }
        Some(Place::TooFar)
    }

    /// Where a sequence's first chunk is, unless it is beyond the one with this id.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn first_up_to(&self, slot: u16, chunk_id: u32) -> Intact<Option<u32>> {
        let entry = self.sequence(slot)?;
        let first = entry.first();
        if entry.is_empty() {
            return Some(None);
        }
        let beyond = is_after(self.ring.chunk_id(first)?, chunk_id);
        Some((!beyond).then_some(first))
    }

    /// Links a chunk of the ring into its sequence and returns the links it must carry.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(super) fn link(&mut self, slot: u16, offset: u32, place: Place) -> Option<Links> {
        let entry = self.sequence(slot)?;
        let (first, last) = (entry.first(), entry.last());
        let (mut prev, mut next) = (NONE, NONE);
        if entry.is_empty() {
            self.unlink_empty(slot);
        } else {
            match place {
                Place::First | Place::ErasedLast => next = first,
                // Never the newest one: what belongs after that has the place `Last`.
                Place::After(before) => (prev, next) = (before, self.ring.front(before)?.links.next.get()),
                _ => prev = last,
            }
        }
        let entry = self.table.get_mut(usize::from(slot))?;
        if place == Place::First {
            entry.end_risk();
        }
        match self.ring.front_mut(prev) {
            Some(front) => front.links.next.set(offset),
            None => entry.set_first(offset),
        }
        match self.ring.front_mut(next) {
            Some(front) => {
                front.links.prev.set(offset);
                self.header.counters.chunks_committed_out_of_order.add(1);
            }
            None => entry.set_last(offset),
        }
        Some(Links { prev: Le32::new(prev), next: Le32::new(next) })
    }

    /// Takes the first chunk of a sequence out of its list and out of the ring. `open` is what a later commit may still
    /// settle. All is noted down before the chunk goes: if it is still found, attaching takes the note back.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn erase_first(&mut self, chunk: &Stored, open: Status) -> Option<()> {
        let entry = self.sequence_mut(chunk.slot.get())?;
        fence();
        entry.erase(chunk.chunk_id.get(), chunk.read.get());
        entry.leave_open(open);
        self.unlink_first(chunk)?;
        let size = chunk.outer_size();
        self.ring.set_gap(chunk.offset, Item::Free(size));
        let counters = &mut self.header.counters;
        if chunk.read.get() < chunk.valid.get() {
            counters.chunks_overwritten.add(1);
            counters.bytes_overwritten.add(size);
        } else {
            counters.bytes_read.add(size);
        }
        Some(())
    }

    /// Takes the first chunk of a sequence out of its list.
    #[inline]
    pub(super) fn unlink_first(&mut self, chunk: &Stored) -> Option<()> {
        let slot = chunk.slot.get();
        let entry = self.table.get_mut(usize::from(slot))?;
        if entry.last() == chunk.offset {
            self.push_empty(slot);
        } else {
            entry.set_first(chunk.links.next.get());
        }
        Some(())
    }
}

/// Follows the links of a sequence's list from a chunk to its newest.
pub(super) struct ChunkSeqIterator {
    at: u32,
    next: u32,
    last: u32,
    chunk_id: u32,
}

impl ChunkSeqIterator {
    /// Starts at a chunk, which is not visited itself; `last` is the newest of the list.
    pub(super) fn new(chunk: &Stored, last: u32) -> Self {
        Self { at: chunk.offset, next: chunk.links.next.get(), last, chunk_id: chunk.chunk_id.get() }
    }

    /// Where the next chunk is, its header, and whether ids are missing between the one before and this one.
    pub(super) fn next_chunk<'r>(&mut self, ring: &'r Ring<'_>) -> Option<(u32, &'r TBChunk, bool)> {
        if self.at == self.last {
            return None;
        }
        self.at = self.next;
        let front = ring.front(self.at)?;
        let before = self.chunk_id;
        (self.next, self.chunk_id) = (front.links.next.get(), front.header.chunk_id.get());
        Some((self.at, &front.header, self.chunk_id != before.wrapping_add(1)))
    }
}
