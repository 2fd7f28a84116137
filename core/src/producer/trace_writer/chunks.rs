//! How a writer comes by its chunks, and parts with them.

use super::{ABORTED, Exhaustion, TraceWriter};
use crate::producer::arbiter::OwnedChunk;
use crate::producer::chunk_header::{ChunkHeader, HeaderFlags};
use crate::producer::cursor::{Cursor, redundant_varint};

impl<'a> TraceWriter<'a> {
    /// Gives the packet up for what its author did.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        if self.is_open && !self.dropping {
            self.stats.over_limit += 1;
            self.abandon();
        }
    }

    /// Goes on in the next chunk. False: the packet is given up.
    #[cold]
    #[inline(never)]
    pub(super) fn next_fragment(&mut self) -> bool {
        if self.dropping || !self.is_open {
            return false;
        }
        let size_so_far = self.size_so_far();
        // A chunk holds less than 64 KiB; the format's sizes have 28 bits. And if there is to be a third chunk,
        // the first goes, so that a writer that waits has but one.
        if size_so_far > ABORTED - 65_536 || !self.give_held_away() {
            self.refuse();
            return false;
        }
        // The next chunk first: without one, the fragment is still there to be marked.
        let Some(next) = self.acquire(HeaderFlags::CONTINUES_FROM_PREVIOUS) else {
            self.abandon();
            return false;
        };
        let size = self.fragment_size();
        self.cursor.overwrite4(self.fragment, redundant_varint(size));
        self.cursor = Cursor::new(next.place.payload());
        self.begin_fragment(size_so_far);
        self.held = self.chunk.replace(next);
        if !self.held_has_open_messages() {
            self.release_held(HeaderFlags::CONTINUES_ON_NEXT);
        }
        true
    }

    pub(super) fn held_has_open_messages(&self) -> bool {
        self.held.as_ref().is_some_and(|held| self.levels.iter().any(|l| l.chunk_id == held.header.chunk_id))
    }

    /// Completes the held chunk with a promise of patches. False when the list of promises is full.
    pub(super) fn give_held_away(&mut self) -> bool {
        let Some(held) = &self.held else { return true };
        let chunk_id = held.header.chunk_id;
        let mut flags = HeaderFlags::CONTINUES_ON_NEXT;
        let mut step = 0;
        for index in 0..self.levels.len() {
            let level = self.levels.get(index).filter(|level| level.chunk_id == chunk_id);
            let Some(offset) = level.map(|level| level.offset) else { continue };
            while !self.patches.wait_for(chunk_id, offset) {
                // Those that are ready are sent, unless somebody else is at it.
                self.send();
                if !self.waits(step) {
                    self.release_held(flags);
                    return false;
                }
                step = step.saturating_add(1);
            }
            // Only with a patch to come: a reader waits for it.
            flags |= HeaderFlags::NEEDS_PATCHING;
        }
        self.release_held(flags);
        true
    }

    pub(super) fn release_held(&mut self, flags: HeaderFlags) {
        if let Some(mut held) = self.held.take() {
            held.header.flags |= flags;
            self.complete(held);
        }
    }

    /// Gives the open packet up: what is written until its end goes nowhere.
    #[cold]
    pub(super) fn abandon(&mut self) {
        self.stats.dropped += 1;
        self.dropping = true;
        self.lost = true;
        self.levels.clear();
        self.patches.set_all();
        self.has_ready_patches = true;
        self.release_held(HeaderFlags::CONTINUES_ON_NEXT);
        if self.chunk.is_some() {
            self.cursor.overwrite4(self.fragment, redundant_varint(ABORTED));
        }
        self.complete_current();
    }

    #[inline(never)]
    pub(super) fn complete_current(&mut self) {
        self.cursor = Cursor::new(&[]);
        if let Some(chunk) = self.chunk.take() {
            self.complete(chunk);
        }
    }

    #[inline(never)]
    pub(super) fn complete(&mut self, chunk: OwnedChunk<'a>) {
        self.stats.chunks += 1;
        if self.producer.complete(chunk) {
            self.send();
        }
    }

    #[inline(never)]
    pub(super) fn send(&mut self) {
        self.has_ready_patches = false;
        self.producer.send();
    }

    #[inline]
    pub(super) fn send_ready_patches(&mut self) {
        if self.has_ready_patches {
            self.send();
        }
    }

    /// Takes a fresh chunk, waiting for it as the policy says.
    pub(super) fn acquire(&mut self, flags: HeaderFlags) -> Option<OwnedChunk<'a>> {
        let header = ChunkHeader { chunk_id: self.next_chunk, writer_id: self.id, fragments: 1, flags };
        // With a single chunk, the one that the packet already fills, waiting is in vain.
        let vain = self.producer.chunks() < 2 && !flags.is_empty();
        let mut step = 0;
        loop {
            if let Some(chunk) = self.producer.acquire(header) {
                self.gave_up_waiting = false;
                self.next_chunk = self.next_chunk.wrapping_add(1);
                return Some(chunk);
            }
            // What is complete goes first: only then can the service free it.
            if step == 0 {
                self.send();
            } else if vain || !self.waits(step - 1) {
                return None;
            } else {
                self.send();
            }
            step = step.saturating_add(1);
        }
    }

    /// Waits one step for the service; false to give up.
    pub(super) fn waits(&mut self, step: u32) -> bool {
        let limit = match self.exhaustion {
            _ if self.gave_up_waiting => 0,
            Exhaustion::Drop => 0,
            Exhaustion::Stall => u32::MAX,
            Exhaustion::StallThenDrop => Self::STALL_STEPS,
        };
        if step < limit && self.producer.sink().stall(step, stall_micros(step)) {
            return true;
        }
        self.gave_up_waiting = self.exhaustion == Exhaustion::StallThenDrop;
        false
    }
}

/// How long to wait at a step: not at all, then from 8 µs up to the reference's 100 ms.
fn stall_micros(step: u32) -> u32 {
    match step {
        0 => 0,
        1..=13 => 4 << step,
        _ => 100_000,
    }
}
