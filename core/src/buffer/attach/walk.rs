//! The walk over the ring that was found: it keeps chunks, and turns the rest into gaps.

use super::judge::Verdict;
use super::marks::Marks;
use super::salvage::{Cause, Salvage};
use crate::buffer::data_loss::DataLoss;
use crate::buffer::region::State;
use crate::buffer::repair::Mended;
use crate::buffer::ring::Items;
use crate::buffer::sequence_state::Status;
use crate::buffer::tb_chunk::{Flags, Item, Stored};

/// How often the chain of items may be found broken. Each time costs a walk over everything before.
const BREAKS: u32 = 256;
/// Bytes that may be judged, per byte of the ring, to find where it goes on after all breaks.
const JUDGED: u64 = 32;

impl State<'_> {
    pub(super) fn forget_marks(&mut self) {
        self.header.generation.set(0);
        for entry in self.table.iter_mut() {
            entry.clear_marks();
            entry.clear_balance();
            entry.forget_erased_first();
            entry.remove(Status::PENDING_IN_VERSION_1);
        }
    }

    /// Where the items of the ring end: what the header says, if they end there.
    pub(super) fn find_used(&self, ring_size: u32) -> u32 {
        let sane = |end: u32| end <= ring_size && end.is_multiple_of(4);
        let (used, write) = (self.header.used.get(), self.header.write.get());
        let first_lap = self.header.position.get() == u64::from(write);
        let whole = self.header.ring_size().min(ring_size);
        let mut likely = [used, if first_lap { write } else { whole }, whole].into_iter();
        if let Some(end) = likely.find(|end| sane(*end) && self.items_reach(*end)) {
            return end;
        }
        // A ring that is cut off ends somewhere in an item; anything else is damage, to be walked around.
        if sane(used) { used } else { whole }
    }

    fn items_reach(&self, end: u32) -> bool {
        let mut at = 0;
        while at < end {
            match self.ring.item(at).map(Item::size).and_then(|size| at.checked_add(size)) {
                Some(next) if next > at => at = next,
                _ => return false,
            }
        }
        at == end
    }

    /// Looks at every item. Afterwards they reach to `used`, and every chunk among them is sound by itself.
    pub(super) fn salvage_ring(&mut self, used: u32, salvage: &mut Salvage) {
        // `certain` is the end of the last sound chunk: what is behind may be found only because a size is wrong.
        let (mut at, mut certain, mut breaks) = (0, 0, 0);
        let mut left = JUDGED.saturating_mul(used.into());
        while at < used {
            match self.salvage_item(at, used, salvage) {
                Some((next, true)) => (at, certain) = (next, next),
                Some((next, false)) => at = next,
                None => {
                    let goes_on = breaks < BREAKS;
                    let resume = if goes_on { self.next_anchor(certain, used, &mut left) } else { used };
                    breaks += 1;
                    let unreadable = &mut salvage.bytes_unreadable;
                    *unreadable = unreadable.saturating_add(resume.saturating_sub(at).into());
                    self.ring.set_gap(certain, Item::Free(resume.saturating_sub(certain)));
                    (at, certain) = (resume, resume);
                }
            }
        }
    }

    /// The end of the item, and whether it is a sound chunk. `None` if it is no item.
    fn salvage_item(&mut self, at: u32, used: u32, salvage: &mut Salvage) -> Option<(u32, bool)> {
        let item = self.ring.item(at)?;
        let next = at.checked_add(item.size()).filter(|next| *next > at && *next <= used)?;
        if !matches!(item, Item::Chunk(_)) {
            return Some((next, false));
        }
        let chunk = self.ring.chunk(at).filter(is_shapely)?;
        let verdict = self.judge(&chunk)?;
        if let Verdict::Drop(cause) = verdict {
            self.drop_found(&chunk, cause, salvage);
            return Some((next, false));
        }
        if let Verdict::Mend(mended) = verdict {
            self.apply(&chunk, &mended)?;
            let count = if mended.cut { &mut salvage.chunks_cut } else { &mut salvage.chunks_reverted };
            *count = count.saturating_add(1);
        }
        let entry = self.sequence_mut(chunk.slot.get())?;
        entry.mark(Marks::SEEN);
        entry.weigh(chunk.chunk_id.get());
        Some((next, true))
    }

    /// Closes the chunks that get nothing more, because the program has ended.
    pub(super) fn close_chunks(&mut self, salvage: &mut Salvage) {
        let mut items = Items::of(0..self.header.used.get());
        while let Some(chunk) = items.next_chunk(&self.ring) {
            if let Some(closed) = self.closed(&chunk)
                && self.make_closed(&chunk, &closed).is_some()
            {
                salvage.chunks_cut = salvage.chunks_cut.saturating_add(u32::from(closed.cut));
            }
        }
    }

    /// Makes a chunk what it was found to be, its mark last, so that even this may be cut short.
    fn apply(&mut self, chunk: &Stored, mended: &Mended) -> Option<()> {
        mended.put_into(&mut self.ring.front_mut(chunk.offset)?.header);
        if self.header.checksum_size() > 0 {
            let sound = self.ring.chunk(chunk.offset)?;
            self.write_checksum(&sound, mended.flags)?;
        }
        self.ring.set_flags(chunk, mended.flags);
        Some(())
    }

    /// Turns a chunk into a gap. The numbers of its sequence then have a gap too, which the first packet behind it
    /// reports; in front of all others, that is so only if something is known to have been there.
    pub(super) fn drop_found(&mut self, chunk: &Stored, cause: Cause, salvage: &mut Salvage) {
        salvage.count(cause);
        // Noted down first: after a reset in between, the chunk is found and dropped again; the other way round, nobody
        // would know of it.
        if let Some(entry) = self.sequence_mut(chunk.slot.get()).filter(|entry| entry.has(Status::IN_USE)) {
            entry.insert(Status::FORGOTTEN);
            if cause == Cause::OutOfOrder {
                // Where it belongs is not known, so the next packet reports it.
                entry.lose(DataLoss::CHUNK_CORRUPTED);
            }
        }
        if cause == Cause::NoSequence && salvage.chunks_of_no_sequence == 1 {
            // Nobody knows whose it was: it may have been of any that comes.
            self.table.iter_mut().for_each(|entry| entry.insert(Status::FORGETFUL));
        }
        self.ring.set_gap(chunk.offset, Item::Free(chunk.outer_size()));
    }

    /// The first place behind `from` where a sound chunk starts and which the table, the links of a sound chunk or the
    /// write cursor point to: a payload may hold what looks like one. `used` if there is none. No more than `left`
    /// bytes are judged in all.
    fn next_anchor(&self, from: u32, used: u32, left: &mut u64) -> u32 {
        let mut nearest = used;
        let mut consider = |place: u32| {
            if place > from && place < nearest && self.is_sound(place, used, left) {
                nearest = place;
            }
        };
        consider(self.header.write.get());
        for entry in self.table.iter().filter(|entry| entry.has(Status::IN_USE)) {
            consider(entry.first());
            consider(entry.last());
        }
        let mut at = 0;
        while at < from {
            let Some(item) = self.ring.item(at) else { break };
            if let (Item::Chunk(_), Some(front)) = (item, self.ring.front(at)) {
                consider(front.links.prev.get());
                consider(front.links.next.get());
            }
            let Some(next) = item.end_from(at) else { break };
            at = next;
        }
        nearest
    }

    fn is_sound(&self, at: u32, used: u32, left: &mut u64) -> bool {
        let Some(Item::Chunk(size)) = self.ring.item(at).filter(|_| at.is_multiple_of(4)) else {
            return false;
        };
        let Some(chunk) = self.ring.chunk(at).filter(is_shapely) else { return false };
        if at.checked_add(size).is_none_or(|end| end > used) {
            return false;
        }
        let rest = left.checked_sub(size.into());
        *left = rest.unwrap_or(0);
        rest.is_some() && matches!(self.judge(&chunk), Some(Verdict::Keep | Verdict::Mend(_)))
    }
}

/// A chunk whose first word has no bits that mean nothing.
fn is_shapely(chunk: &Stored) -> bool {
    Flags::all().contains(chunk.flags())
}
