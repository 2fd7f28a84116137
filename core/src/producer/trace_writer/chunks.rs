//! A writer's chunks: taken, held back, completed and given away.

#[cfg(not(tracebuf_small))]
use super::FIRST;
use super::short_sizes::ShortSizes;
use super::{FULL, LOST, TraceWriter};
use crate::SMALL;
use crate::producer::PATCHES;
use crate::producer::arbiter::NONE;
use crate::producer::chunk_header::{HeaderFlags, SmbChunkHeader, add_flags, set_header};
use crate::producer::cursor::Cursor;
use crate::proto::varint::ABORTED_SIZE;

impl TraceWriter<'_> {
    /// Comes to the chunk, before anything is looked at or written there: it may have been taken back meanwhile.
    #[inline(always)]
    pub(crate) fn enter(&mut self) {
        #[cfg(not(tracebuf_small))]
        if self.slot.presence.enter() {
            self.lose_taken();
        }
    }

    /// Leaves the chunk, with no packet open: from now on it may be taken back.
    #[inline(always)]
    pub(crate) fn leave(&mut self) {
        #[cfg(not(tracebuf_small))]
        self.slot.presence.leave();
    }

    /// Goes on without the chunk, if it was taken back.
    #[cfg(not(tracebuf_small))]
    #[cold]
    #[inline(never)]
    fn lose_taken(&mut self) {
        if self.slot.presence.is_taken() {
            self.cursor = Cursor::NONE;
            self.chunk = NONE;
            self.was_taken_from = true;
            self.counts.chunks = self.counts.chunks.wrapping_add(1);
        }
    }

    /// Notes which chunk is the current one, for those who take chunks back.
    #[inline(always)]
    fn note_chunk(&self, _chunk: Option<u32>) {
        #[cfg(not(tracebuf_small))]
        self.slot.presence.set_chunk(_chunk);
    }

    /// Gives the packet up because of what its author did.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse(&mut self) {
        if self.is_open && !self.dropping {
            self.counts.over_limit = self.counts.over_limit.wrapping_add(1);
            self.abandon();
        }
    }

    /// Goes on in the next chunk, or in this one where room was kept for longer sizes. False: the packet is given up.
    #[cold]
    #[inline(never)]
    pub(super) fn next_fragment(&mut self) -> bool {
        if self.lengthen_sizes() {
            return true;
        }
        if self.dropping || !self.is_open {
            return false;
        }
        // Not only at the packet's end, which may be more chunks away than a patch can reach back.
        self.send_ready_patches();
        let (size_so_far, full) = (self.size_so_far(), self.chunk);
        self.cursor.fill_size(self.fragment, self.fragment_size());
        // A chunk holds less than 64 KiB; the format's sizes have 28 bits.
        let fits = size_so_far <= ABORTED_SIZE - 65_536 && !(PATCHES && self.is_patched_too_late());
        if !fits || !self.take_chunk(HeaderFlags::CONTINUES_FROM_PREVIOUS) {
            // A chunk still held back has found no room for its patches.
            let over = usize::from(!fits || self.held != NONE);
            self.counts.over_limit = self.counts.over_limit.wrapping_add(over);
            // A full list of patches is reported as full shared memory: in both cases nobody sends.
            if fits && (PATCHES || over == 0) {
                self.news |= FULL;
            }
            // The fragment is still there to be marked.
            self.abandon();
            return false;
        }
        self.held = full;
        self.begin_fragment(size_so_far);
        // The innermost message begins last.
        if !self.is_in_held(self.levels.len()) {
            self.release_held();
        }
        true
    }

    /// How many chunks the writer has begun since this one.
    pub(super) fn age(&self, chunk_id: u32) -> u32 {
        self.chunk_id().wrapping_sub(chunk_id)
    }

    /// Whether the outermost open message began so far back that a patch might not reach it.
    fn is_patched_too_late(&self) -> bool {
        self.levels.first().is_some_and(|level| self.age(level.chunk_id) > TraceWriter::MAX_PATCHED)
    }

    /// Whether a patch that nobody has sent yet would not reach back over one more chunk.
    fn is_ahead_of_its_patches(&self) -> bool {
        self.slot.patches.has_ready_of_before(self.next_chunk, TraceWriter::MAX_PATCHED)
    }

    /// Whether the last of the first `levels` open messages has its size field in the chunk held back.
    fn is_in_held(&self, levels: usize) -> bool {
        self.levels.get(levels.wrapping_sub(1)).is_some_and(|level| self.age(level.chunk_id) == 1)
    }

    /// Completes the held chunk with promises of patches. False, to be tried again, when their list is full.
    fn give_held_away(&mut self) -> bool {
        while self.is_in_held(self.promised + 1)
            && let Some(level) = self.levels.get(self.promised)
        {
            if !self.slot.patches.wait_for(level.chunk_id, level.in_payload()) {
                return false;
            }
            self.promised += 1;
        }
        self.release_held();
        true
    }

    /// Parts with the chunk held back, if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn release_held(&mut self) {
        if self.held != NONE {
            let mut flags = HeaderFlags::CONTINUES_ON_NEXT;
            if PATCHES && self.is_in_held(self.promised) {
                // Only with a patch to come: a reader waits for it.
                flags |= HeaderFlags::NEEDS_PATCHING;
            }
            let held = core::mem::replace(&mut self.held, NONE);
            add_flags(self.producer.words(held), flags);
            self.complete(held);
        }
    }

    /// Gives the open packet up: what is written until its end goes nowhere.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) {
        self.counts.dropped = self.counts.dropped.wrapping_add(1);
        self.dropping = true;
        self.short = ShortSizes::NONE;
        self.news |= LOST;
        self.release_held();
        self.levels.clear();
        if PATCHES && core::mem::take(&mut self.promised) > 0 {
            self.slot.patches.set_all();
            self.has_ready_patches = true;
        }
        if self.chunk == NONE {
            return self.producer.sink.packet_dropped(self.id, self.slot.target());
        }
        self.cursor.fill_size(self.fragment, ABORTED_SIZE);
        self.complete_current();
    }

    /// Parts with the current chunk, if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn complete_current(&mut self) {
        self.cursor = Cursor::NONE;
        let chunk = core::mem::replace(&mut self.chunk, NONE);
        if chunk != NONE {
            self.note_chunk(None);
            self.complete(chunk);
        }
    }

    #[inline(never)]
    fn complete(&mut self, chunk: u32) {
        self.counts.chunks = self.counts.chunks.wrapping_add(1);
        if self.producer.complete(chunk) {
            self.send_for_room();
        }
    }

    #[inline(never)]
    pub(super) fn send(&mut self) {
        self.has_ready_patches = false;
        self.producer.commit();
    }

    /// Sends for the sake of free chunks, unless another writer does it already; ready patches are sent in any case.
    fn send_for_room(&mut self) {
        if SMALL || PATCHES && self.has_ready_patches {
            self.send();
        } else {
            self.producer.send_for_room();
        }
    }

    #[inline]
    pub(super) fn send_ready_patches(&mut self) {
        if PATCHES && self.has_ready_patches {
            self.send();
        }
    }

    /// Begins a fresh chunk, waiting for it as the policy says.
    #[inline(never)]
    pub(super) fn take_chunk(&mut self, flags: HeaderFlags) -> bool {
        let mut step = 0;
        let chunk = loop {
            // Before a third chunk, the first one goes, so that a waiting writer has only one.
            if self.give_held_away()
                && !(PATCHES && self.is_ahead_of_its_patches())
                && let Some(chunk) = self.producer.acquire()
            {
                break chunk;
            }
            // Waiting is in vain for a second chunk where there is only the one that the packet fills, and for a place
            // in a list that has none.
            let vain = self.producer.chunks < 2 && !flags.is_empty() || !PATCHES && self.held != NONE;
            if step > 0 && (vain || !self.waits(step - 1)) {
                return false;
            }
            if PATCHES && self.has_ready_patches || self.producer.has_completed() || self.may_take_back(step)
            {
                // What is complete goes first: only then can the service free it, and patches leave their list.
                self.send_for_room();
            } else if self.patience() == 0 {
                // A second look would find what the first one found. Asking a sender to send once more, for nothing,
                // could keep it at that for as long as events are given up.
                return false;
            }
            step = step.wrapping_add(1);
        };
        let words = self.producer.words(chunk);
        let header = SmbChunkHeader { chunk_id: self.next_chunk, writer_id: self.id, fragments: 1, flags };
        set_header(words, header);
        self.gave_up_waiting = false;
        #[cfg(not(tracebuf_small))]
        {
            self.was_taken_from = false;
        }
        self.next_chunk = self.next_chunk.wrapping_add(1);
        self.begun = self.producer.completed();
        self.cursor = Cursor::new(words);
        self.chunk = chunk;
        self.note_chunk(Some(chunk));
        #[cfg(not(tracebuf_small))]
        if self.producer.is_crowded_by_one_more() {
            self.send_for_room();
        }
        true
    }

    /// Whether chunks of others may be there to be taken back, after so many steps of waiting.
    fn may_take_back(&self, _step: u32) -> bool {
        #[cfg(not(tracebuf_small))]
        return self.producer.may_take_back(_step > Self::EAGER_STEPS);
        #[cfg(tracebuf_small)]
        false
    }

    /// Steps to wait for a chunk. Who drops waits a little for the first one, and for one in place of its own: others
    /// have those, as long as nobody has taken them back.
    fn patience(&self) -> u32 {
        #[cfg(not(tracebuf_small))]
        if self.patience == 0
            && !self.gave_up_waiting
            && (self.was_taken_from || self.news & FIRST != 0)
            && self.producer.sink.thread_fence().is_some()
        {
            return Self::GRACE_STEPS;
        }
        self.patience
    }

    /// Waits one step for the service; false to give up.
    fn waits(&mut self, step: u32) -> bool {
        // Not at all, then from 1 µs up to the reference's 100 ms.
        let micros = 100_000 >> 17_u32.saturating_sub(step);
        if step < self.patience() && !self.gave_up_waiting && self.producer.sink.stall(step, micros) {
            return true;
        }
        // A writer that waits for ever tries again.
        self.gave_up_waiting = self.patience != u32::MAX;
        false
    }
}
