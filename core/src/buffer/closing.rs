//! Chunks that will get nothing more, because their program or their producer has ended.

use super::change::ChangeKind;
use super::overwrite::Unobserved;
use super::packet::Located;
use super::reassembly::ChainEnd;
use super::region::{Mode, State};
use super::repair::{Found, Mended};
use super::ring::Items;
use super::sequence_state::Status;
use super::tb_chunk::{Flags, PAYLOAD, Stored};

impl State<'_> {
    /// Counts a chunk that does not end with its last declared fragment.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn count_end(&mut self, flags: Flags) {
        let counters = &mut self.header.counters;
        counters.abi_violations.add(u32::from(flags.contains(Flags::TRUNCATED)));
        counters.trace_writer_packet_loss.add(u32::from(flags.contains(Flags::ABORTED)));
    }

    /// The chunk as it ends here: packets wait neither for its patches nor for the rest of it. `None` if none waited.
    pub(super) fn closed(&self, chunk: &Stored) -> Option<Mended> {
        if chunk.has(Flags::INCOMPLETE) && self.sequence(chunk.slot.get())?.last() != chunk.offset {
            // Its writer went on to the next chunk, so there was more in this one.
            let mut closed = self.cut(chunk, chunk.valid.get(), Flags::TRUNCATED)?;
            closed.flags -= Flags::INCOMPLETE;
            return Some(closed);
        }
        if !chunk.has(Flags::NEEDS_PATCHING) {
            return None;
        }
        if chunk.valid.get() == 0 || !chunk.has(Flags::CONTINUES_ON_NEXT) {
            // Only a packet that continues in the next chunk waits.
            return Some(Mended { flags: chunk.flags() - Flags::NEEDS_PATCHING, ..Mended::as_is(chunk) });
        }
        self.without_last(chunk)
    }

    /// The last chunk of a sequence, if it was scraped: its rest will not come.
    fn closed_scraped(chunk: &Stored) -> Mended {
        let mut closed = Mended::as_is(chunk);
        closed.flags -= Flags::INCOMPLETE | Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        if chunk.valid.get() == 0 && chunk.has(Flags::CONTINUES_FROM_PREVIOUS) {
            // It holds nothing of the packet that continues in it.
            closed.flags |= Flags::ABORTED;
        }
        closed
    }

    /// All but the last fragment.
    fn without_last(&self, chunk: &Stored) -> Option<Mended> {
        self.cut(chunk, chunk.valid.get().saturating_sub(1), Flags::ABORTED)
    }

    fn cut(&self, chunk: &Stored, until: u16, mark: Flags) -> Option<Mended> {
        let payload = self.ring.payload(chunk.offset, chunk.valid.get())?;
        Some(Mended::cut(chunk, &Found::of(payload, until, 0), mark))
    }

    /// Calls `what` for each sequence of a producer.
    #[inline]
    fn for_each_of(&mut self, producer_id: u16, mut what: impl FnMut(&mut Self, u16) -> Option<()>) {
        for slot in 0..self.header.slots.get() {
            if let Some(entry) = self.sequence(slot)
                && entry.has(Status::IN_USE)
                && entry.producer_id.get() == producer_id
            {
                // The others are still done if this one is damaged.
                let _ = what(self, slot);
            }
        }
    }

    /// Closes the chunks of a producer that has ended.
    pub(super) fn end_producer(&mut self, producer_id: u16) {
        self.for_each_of(producer_id, Self::end_sequence);
    }

    /// Drops the chunks of such a producer and frees its places in the table.
    // Inline; otherwise programs that do not call it would have larger code for other callers of what it calls.
    #[inline]
    pub(super) fn forget_producer(&mut self, producer_id: u16) {
        self.for_each_of(producer_id, |state, slot| {
            state.evict_all(slot, &mut Unobserved)?;
            state.release(slot)
        });
    }

    fn end_sequence(&mut self, slot: u16) -> Option<()> {
        let entry = self.sequence(slot).filter(|entry| !entry.is_empty())?;
        let (mut at, last, mut tail) = (entry.first(), entry.last(), None);
        // No writer gave up what a full buffer did not take: that counts as discarded chunks.
        let sealed = self.header.mode().contains(Mode::SEALED);
        // Whether the packet at the end of the last nonempty chunk was given up.
        let mut given_up = false;
        // A list has an end, unless the region is damaged.
        for _ in 0..self.header.used.get() / PAYLOAD {
            let chunk = self.ring.chunk(at)?;
            let is_scraped = at == last && chunk.has(Flags::INCOMPLETE);
            let closed = if is_scraped { Some(Self::closed_scraped(&chunk)) } else { self.closed(&chunk) };
            let counted = given_up && (chunk.is_middle() || chunk.valid.get() == 0)
                || closed.as_ref().is_some_and(|closed| self.is_given_up_later(&chunk, closed));
            self.close(&chunk, closed, counted || sealed && at == last);
            let chunk = self.ring.chunk(at)?;
            // Packets continue after chunks without fragments.
            if !chunk.is_empty() {
                given_up = counted || chunk.has(Flags::ABORTED);
                tail = Some((chunk, counted));
            }
            if at == last {
                break;
            }
            at = chunk.links.next.get();
        }
        let (chunk, counted) = tail?;
        let goes_on = chunk.valid.get() > 0 && chunk.has(Flags::CONTINUES_ON_NEXT);
        let closed = if goes_on { self.without_last(&chunk) } else { None };
        self.close(&chunk, closed, counted || sealed)
    }

    /// Gives up packets that wait for a patch of the chunk they begin in. They are not counted as lost.
    pub(super) fn stop_waiting(&mut self) {
        let mut items = Items::of(0..self.header.used.get());
        while let Some(chunk) = items.next_chunk(&self.ring) {
            if chunk.has(Flags::NEEDS_PATCHING) && self.begins_packet(&chunk) {
                // The others are still done if this one is damaged.
                let _ = self.close(&chunk, self.without_last(&chunk), true);
            }
        }
    }

    /// Whether a packet begins at the end of a chunk; a patch may have broken a size, so that nothing waits.
    fn begins_packet(&self, chunk: &Stored) -> bool {
        let valid = chunk.valid.get();
        let is_whole = |payload: &[u8]| Found::of(payload, valid, 0).whole;
        let continues = valid > 0 && chunk.has(Flags::CONTINUES_ON_NEXT) && !chunk.is_middle();
        continues && self.ring.payload(chunk.offset, valid).is_some_and(is_whole)
    }

    /// Whether the packet that is given up with a chunk, if there is one, ends in a later chunk in which its writer
    /// gave it up.
    fn is_given_up_later(&self, chunk: &Stored, closed: &Mended) -> bool {
        let ahead = || self.gather(chunk, closed.valid, true, &mut Located::default());
        (closed.flags - chunk.flags()).contains(Flags::ABORTED) && ahead() == Some(ChainEnd::Aborted)
    }

    /// Changes a chunk into a closed one. `counted`: the packet that is given up with it, if there is one, is counted
    /// with a chunk before or after it.
    fn close(&mut self, chunk: &Stored, closed: Option<Mended>, counted: bool) -> Option<()> {
        let closed = closed?;
        self.make_closed(chunk, &closed)?;
        if closed.cut
            && let Some(histogram) = self.histogram(chunk.slot.get())
        {
            histogram.remove(chunk.valid.get());
            histogram.add(closed.valid);
        }
        if !counted {
            self.count_end((closed.flags & Flags::ABORTED) - chunk.flags());
        }
        Some(())
    }

    /// Changes a chunk into a closed one without counting anything. A crash in between leaves it as it was, or cut.
    pub(super) fn make_closed(&mut self, chunk: &Stored, closed: &Mended) -> Option<()> {
        let kind = if closed.cut { ChangeKind::Patch } else { ChangeKind::Growth };
        self.begin_change(chunk, closed.valid, kind)?;
        closed.put_into(&mut self.ring.front_mut(chunk.offset)?.header);
        self.end_change(chunk, closed.flags);
        Some(())
    }
}
