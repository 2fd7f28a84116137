//! Reconstruction of table, lists and counters from the chunks that were kept.

use super::marks::Marks;
use super::salvage::{Cause, Salvage};
use crate::buffer::chunk_list::Place;
use crate::buffer::region::State;
use crate::buffer::ring::{Items, fence};
use crate::buffer::sequence_state::{NO_SLOT, Status, slot_of_link};
use crate::buffer::sequence_table::{CROWD, Crowded, add_to_index, lookup_among};
use crate::buffer::tb_chunk::{Item, Stored};

/// The largest gap in the numbers of a sequence's chunks that is believed.
const PLAUSIBLE_GAP: u32 = 1 << 24;
/// No counter of a real buffer comes near this.
const IMPLAUSIBLE_COUNT: u64 = 1 << 56;

impl State<'_> {
    /// Rebuilds the index and the list of empty sequences; every sequence is empty for now.
    pub(super) fn rebuild_table(&mut self, salvage: &mut Salvage) {
        for entry in self.table.iter_mut() {
            entry.settle_balance();
        }
        self.find_doubles();
        let mut slots = 0;
        // In this order: the other one would count on after the last of 65,535.
        for (entry, slot) in self.table.iter_mut().zip(0u16..) {
            if !entry.is_someone() || entry.marks().contains(Marks::DOUBLE) {
                entry.set_status(entry.status() & Status::FORGETFUL);
                // It is in no list, unless it is put into one below.
                entry.set_first(0);
            } else {
                slots = slot.saturating_add(1);
                salvage.sequences_kept = salvage.sequences_kept.saturating_add(1);
            }
        }
        self.header.slots.set(slots);
        self.rebuild_index();
        self.rebuild_empty(slots);
    }

    fn clear_index(&mut self) {
        for entry in self.table.iter_mut() {
            entry.set_hash_head(NO_SLOT);
        }
    }

    fn rebuild_index(&mut self) {
        self.clear_index();
        for slot in 0..self.header.slots.get() {
            if self.sequence(slot).is_some_and(|entry| entry.has(Status::IN_USE)) {
                add_to_index(self.table, slot);
            }
        }
    }

    /// Finds sequences of the same identity: if only one of two has chunks, it is the right one. Of very many with the
    /// same hash, some are left out.
    fn find_doubles(&mut self) {
        self.clear_index();
        for with_chunks in [true, false] {
            for slot in 0..self.table.len() as u16 {
                let Some(entry) = self.sequence(slot) else { return };
                if !entry.is_someone() || entry.marks().contains(Marks::SEEN) != with_chunks {
                    continue;
                }
                let (producer_id, writer_id) = (entry.producer_id.get(), entry.writer_id.get());
                match lookup_among(self.table, producer_id, writer_id, CROWD) {
                    Err(Crowded) => self.mark(slot, Marks::DOUBLE),
                    Ok(None) => add_to_index(self.table, slot),
                    Ok(Some(other)) => {
                        self.mark(slot, Marks::DOUBLE);
                        if with_chunks {
                            self.mark(other, Marks::DOUBLE);
                        }
                    }
                }
            }
        }
    }

    fn mark(&mut self, slot: u16, mark: Marks) {
        if let Some(entry) = self.sequence_mut(slot) {
            entry.mark(mark);
        }
    }

    /// Lists the places that nobody has, then sequences in the order in which they became empty, then the others.
    fn rebuild_empty(&mut self, slots: u16) {
        let mut hint = self.header.longest_empty.get();
        self.header.longest_empty.set(NO_SLOT);
        self.header.latest_empty.set(NO_SLOT);
        for slot in 0..slots {
            if self.sequence(slot).is_some_and(|entry| !entry.has(Status::IN_USE)) {
                self.list_empty(slot);
            }
        }
        for _ in 0..slots {
            let Some(entry) = self.sequence(hint) else { break };
            if hint >= slots || !entry.is_empty() || entry.marks().contains(Marks::LISTED) {
                break;
            }
            let next = slot_of_link(entry.last());
            self.list_empty(hint);
            hint = next;
        }
        for slot in 0..slots {
            if self.sequence(slot).is_some_and(|entry| !entry.marks().contains(Marks::LISTED)) {
                self.list_empty(slot);
            }
        }
    }

    fn list_empty(&mut self, slot: u16) {
        self.mark(slot, Marks::LISTED);
        self.push_empty(slot);
    }

    /// Puts every chunk into its sequence's list, from the oldest to the newest.
    pub(super) fn rebuild_lists(&mut self, salvage: &mut Salvage) {
        let (write, used) = (self.header.write.get(), self.header.used.get());
        let disorder = self.header.counters.chunks_committed_out_of_order;
        for range in [write..used, 0..write] {
            let mut items = Items::of(range);
            while let Some(chunk) = items.next_chunk(&self.ring) {
                match self.enlist(&chunk) {
                    Ok(()) => salvage.chunks_kept = salvage.chunks_kept.saturating_add(1),
                    Err(cause) => self.drop_found(&chunk, cause, salvage),
                }
            }
        }
        self.header.counters.chunks_committed_out_of_order = disorder;
        for entry in self.table.iter_mut() {
            entry.clear_marks();
            // If the bit was set for what was dropped here, it would now mean `ERASED_FIRST`.
            entry.forget_erased_first();
        }
    }

    fn enlist(&mut self, chunk: &Stored) -> Result<(), Cause> {
        let (at, slot, chunk_id) = (chunk.offset, chunk.slot.get(), chunk.chunk_id.get());
        let entry = self.sequence(slot).filter(|entry| entry.has(Status::IN_USE)).ok_or(Cause::NoSequence)?;
        let first = entry.is_empty();
        if first {
            self.settle_erased(slot, chunk_id);
        }
        let mut place = self.place(slot, chunk_id).ok_or(Cause::OutOfOrder)?;
        if place == Place::Consumed && self.sequence(slot).is_some_and(|entry| entry.is_newer(chunk_id)) {
            // Bytes were read after a chunk that was not: reading never leaves that.
            let oldest = self.sequence(slot).map_or(at, |entry| entry.first());
            self.ring.set_read(oldest, 0);
            place = Place::First;
        }
        match place {
            Place::Last if !first => self.ring.set_read(at, 0),
            Place::After(_) => self.ring.set_read(at, 0),
            Place::Last => {}
            // In the same place, but not on offer: a chunk that was on offer is still to be reported.
            Place::First => place = Place::ErasedLast,
            _ => return Err(Cause::OutOfOrder),
        }
        let links = self.link(slot, at, place).ok_or(Cause::OutOfOrder)?;
        if let Some(stored) = self.ring.front_mut(at) {
            stored.links = links;
        }
        Ok(())
    }

    /// At the first chunk of a sequence, decides what to believe about the chunk that is said to be erased last.
    fn settle_erased(&mut self, slot: u16, chunk_id: u32) {
        let Some(entry) = self.sequence_mut(slot) else { return };
        let marks = entry.marks();
        let (there, wrong) = (marks.contains(Marks::ERASED_IS_THERE), marks.contains(Marks::ERASED_IS_WRONG));
        let erased = entry.has(Status::HAS_ERASED);
        if erased && there && !wrong {
            // It was about to be erased, or had just come back. Nothing was lost with it, and that stays so if a reset
            // comes before it is no longer the one erased last.
            entry.take_back();
            fence();
            // The bit that says here that something was dropped would say there that nothing came before.
            let dropped = entry.status() & Status::FORGOTTEN;
            entry.remove(dropped);
            entry.readmit();
            entry.insert(dropped);
        }
        if wrong || (there && !erased) || (erased && entry.age(chunk_id) > PLAUSIBLE_GAP) {
            // It cannot be true: then nothing is known of what was before.
            entry.start_before(chunk_id);
        }
    }

    /// Makes the counters agree: what came is what is there and what went. What was dropped counts as overwritten.
    pub(super) fn balance_counters(&mut self) {
        let (mut held, mut items) = (0u64, Items::of(0..self.header.used.get()));
        while let Some((_, item)) = items.next(&self.ring) {
            if !matches!(item, Item::Free(_)) {
                held = held.wrapping_add(u64::from(item.size()));
            }
        }
        let counters = &mut self.header.counters;
        counters.reset_if(|count| count >= IMPLAUSIBLE_COUNT);
        let came = counters.bytes_written.get().wrapping_add(counters.padding_bytes_written.get());
        let went = [counters.bytes_read, counters.bytes_overwritten, counters.padding_bytes_cleared];
        let accounted = went.iter().fold(held, |sum, bytes| sum.wrapping_add(bytes.get()));
        let (counter, more) = match came.checked_sub(accounted) {
            Some(missing) => (&mut counters.bytes_overwritten, missing),
            None => (&mut counters.bytes_written, accounted.wrapping_sub(came)),
        };
        counter.set(counter.get().wrapping_add(more));
    }
}
