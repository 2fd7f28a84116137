//! The bounded table of sequences: finding, making and forgetting them.
//!
//! An index of hash chains lies in the table itself, one head in each place; microcontrollers do without. Sequences
//! without chunks are linked from the longest empty to the latest; a full table forgets at the long end. When all have
//! chunks, a newcomer can be given the place of one that was silent long.

use super::chunk::ChunkHeader;
use super::observer::OverwriteObserver;
use super::region::{Mode, RegionLayout, State};
use super::sequence_state::{NO_SLOT, SequenceState, Status, link_to_slot, slot_of_link};
use super::stats::SequenceInfo;
use super::tb_chunk::NONE;
use crate::SMALL;
use crate::steps::step;

impl SequenceInfo {
    pub(super) fn all<'a>(layout: &RegionLayout, memory: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        let (table, histograms) = layout.table(memory).unwrap_or_default();
        let entries = table.iter().enumerate().filter(|(_, entry)| entry.has(Status::IN_USE));
        entries.map(move |(slot, entry)| Self {
            producer_id: entry.producer_id.get(),
            writer_id: entry.writer_id.get(),
            uid: entry.uid.get(),
            pid: entry.pid.get() as i32,
            packets_evicted: u64::from(entry.evicted.get()),
            packets_broken: u64::from(entry.broken.get()),
            chunks_malformed: u64::from(entry.malformed.get()),
            pending: entry.pending().marked(),
            pending_since_folded: entry.known_losses().marked(),
            histogram: histograms.get(slot).map(|histogram| histogram.get()),
        })
    }
}

/// Where the chain of a sequence starts: Fibonacci hashing.
#[inline]
fn home(producer_id: u16, writer_id: u16, places: usize) -> usize {
    let key = (u32::from(producer_id) << 16) | u32::from(writer_id);
    let hash = key.wrapping_mul(0x9E37_79B1);
    ((u64::from(hash) * places as u64) >> 32) as usize
}

/// The slot of a sequence: by the index, or, where code must be small, by a look at each place of the table.
#[cfg_attr(not(tracebuf_small), inline)]
#[cfg_attr(tracebuf_small, inline(never))]
pub(super) fn lookup(table: &[SequenceState], producer_id: u16, writer_id: u16) -> Option<u16> {
    if SMALL {
        let is_it = |entry: &SequenceState| {
            step();
            entry.producer_id.get() == producer_id
                && entry.writer_id.get() == writer_id
                && entry.has(Status::IN_USE)
        };
        return table.iter().position(is_it).map(|slot| slot as u16);
    }
    lookup_in_index(table, producer_id, writer_id)
}

/// The slot of a sequence that is in the index. Cost: a look at each sequence with the same hash; ids chosen to collide
/// make that [`CROWD`] at most, in tables of about 256 sequences (65,536 writer ids over the places).
#[inline]
pub(super) fn lookup_in_index(table: &[SequenceState], producer_id: u16, writer_id: u16) -> Option<u16> {
    // No chain is longer than the table: a chain that bites its tail in a damaged region must end as well.
    lookup_among(table, producer_id, writer_id, table.len()).ok().flatten()
}

/// Places of a full table that are looked at for each newcomer: whoever makes up writers keeps nobody waiting.
const LOOKS: u32 = 1024;

/// More sequences with the same hash than a producer can make.
pub(super) const CROWD: usize = 256;

/// More sequences have the same hash than may be looked at.
pub(super) struct Crowded;

/// Like [`lookup_in_index`], but looks at no more than `most` sequences with the same hash.
#[inline]
pub(super) fn lookup_among(
    table: &[SequenceState],
    producer_id: u16,
    writer_id: u16,
    most: usize,
) -> Result<Option<u16>, Crowded> {
    let Some(head) = table.get(home(producer_id, writer_id, table.len())) else { return Ok(None) };
    let mut slot = head.hash_head();
    for _ in 0..most {
        step();
        let Some(entry) = table.get(usize::from(slot)) else { return Ok(None) };
        if entry.producer_id.get() == producer_id && entry.writer_id.get() == writer_id {
            return Ok(Some(slot));
        }
        slot = entry.hash_next.get();
    }
    Err(Crowded)
}

impl State<'_> {
    #[inline]
    pub(super) fn sequence(&self, slot: u16) -> Option<&SequenceState> {
        self.table.get(usize::from(slot))
    }

    #[inline]
    pub(super) fn sequence_mut(&mut self, slot: u16) -> Option<&mut SequenceState> {
        self.table.get_mut(usize::from(slot))
    }

    /// Adds a sequence, which is empty for now. `None` when every place of the table has chunks.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn open_sequence(&mut self, header: &ChunkHeader) -> Option<u16> {
        let home = home(header.producer_id, header.writer_id, self.table.len());
        let used = self.header.slots.get();
        let slot = if usize::from(used) < self.table.len() {
            self.header.slots.set(used.wrapping_add(1));
            used
        } else if self.header.longest_empty.get() != NO_SLOT {
            let slot = self.header.longest_empty.get();
            self.forget(slot);
            slot
        } else {
            self.note_unknown(header.producer_id, header.writer_id);
            return None;
        };
        let forgotten = self.table.get(home)?.has(Status::FORGETFUL);
        self.sequence_mut(slot)?.start(header, forgotten);
        if !SMALL {
            add_to_index(self.table, slot);
        }
        if let Some(histogram) = self.histogram(slot) {
            histogram.clear();
        }
        self.push_empty(slot);
        Some(slot)
    }

    /// Makes a sequence that was silent long give up its place, if a chunk's sequence has no place and none is free.
    #[inline]
    pub(super) fn make_place<O: OverwriteObserver>(
        &mut self,
        header: &ChunkHeader,
        observer: &mut O,
    ) -> Option<()> {
        let full = usize::from(self.header.slots.get()) >= self.table.len()
            && self.header.longest_empty.get() == NO_SLOT;
        if full
            && !self.header.mode().contains(Mode::DISCARD)
            && lookup(self.table, header.producer_id, header.writer_id).is_none()
        {
            self.evict_all(self.stalest(header.producer_id)?, observer)?;
        }
        Some(())
    }

    /// Of the sequences that are looked at, that whose latest chunk is the oldest, by where they lie: of this producer's,
    /// so that nobody takes others' places by making up writers, or, if there is none of them, of all.
    fn stalest(&self, producer_id: u16) -> Option<u16> {
        let (write, used) = (self.header.write.get(), self.header.used.get());
        // How far ahead of the place where the next chunk goes, which is less than the used part: no sum of two offsets
        // is made, because that of two in a ring of more than 2 GiB does not fit.
        let ahead = |at: u32| at.wrapping_sub(write).wrapping_add(if at < write { used } else { 0 });
        let slots = u32::from(self.header.slots.get());
        // From a place on that is another one each time. Where code must be small, tables and producers are few.
        let (from, most) =
            if SMALL { (0, slots) } else { ((write / 8).checked_rem(slots)?, slots.min(LOOKS)) };
        let looked_at = (0..most).filter_map(|look| {
            step();
            let slot = from + look;
            let slot = if SMALL || slot < slots { slot } else { slot - slots } as u16;
            Some((self.sequence(slot)?, slot))
        });
        let is_others = |entry: &SequenceState| !SMALL && entry.producer_id.get() != producer_id;
        let latest = looked_at
            .filter(|(entry, _)| !entry.is_empty())
            .map(|(entry, slot)| (is_others(entry), ahead(entry.last()), slot));
        latest.min().map(|(_, _, slot)| slot)
    }

    fn forget(&mut self, slot: u16) -> Option<()> {
        self.unlink_empty(slot);
        let entry = self.table.get(usize::from(slot))?;
        if !entry.has(Status::IN_USE) {
            return Some(());
        }
        let home = self.note_unknown(entry.producer_id.get(), entry.writer_id.get())?;
        self.remove_from_index(slot, home)
    }

    /// Notes that something about a sequence will be unknown when it comes next. Returns where its hash leads.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn note_unknown(&mut self, producer_id: u16, writer_id: u16) -> Option<usize> {
        let home = home(producer_id, writer_id, self.table.len());
        self.table.get_mut(home)?.insert(Status::FORGETFUL);
        Some(home)
    }

    /// Frees the place of an empty sequence to which nothing more will come; it is given out before those of others.
    /// Unlike with [`forget`](Self::forget), a later sequence of the same numbers has nothing to report about it.
    #[inline]
    pub(super) fn release(&mut self, slot: u16) -> Option<()> {
        let entry = self.table.get(usize::from(slot))?;
        let home = home(entry.producer_id.get(), entry.writer_id.get(), self.table.len());
        self.remove_from_index(slot, home)?;
        let entry = self.table.get_mut(usize::from(slot))?;
        entry.set_status(entry.status() & Status::FORGETFUL);
        self.unlink_empty(slot)?;
        let longest = link_to_slot(self.header.longest_empty.get());
        self.join_empty(NONE, link_to_slot(slot));
        self.join_empty(link_to_slot(slot), longest);
        Some(())
    }

    #[inline(always)]
    fn remove_from_index(&mut self, slot: u16, home: usize) -> Option<()> {
        if SMALL {
            return Some(());
        }
        let after = self.table.get(usize::from(slot))?.hash_next.get();
        let index = self.table.get_mut(home)?;
        let mut at = index.hash_head();
        if at == slot {
            index.set_hash_head(after);
            return Some(());
        }
        for _ in 0..self.table.len() {
            let entry = self.table.get_mut(usize::from(at))?;
            at = entry.hash_next.get();
            if at == slot {
                entry.hash_next.set(after);
                break;
            }
        }
        Some(())
    }
}

/// Adds a sequence to the index.
pub(super) fn add_to_index(table: &mut [SequenceState], slot: u16) {
    let Some(entry) = table.get(usize::from(slot)) else { return };
    let home = home(entry.producer_id.get(), entry.writer_id.get(), table.len());
    let Some(index) = table.get_mut(home) else { return };
    let head = index.hash_head();
    index.set_hash_head(slot);
    if let Some(entry) = table.get_mut(usize::from(slot)) {
        entry.hash_next.set(head);
    }
}

impl State<'_> {
    /// Links a sequence that has just lost its last chunk as the latest of the empty ones.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn push_empty(&mut self, slot: u16) {
        let link = link_to_slot(slot);
        self.join_empty(link_to_slot(self.header.latest_empty.get()), link);
        self.join_empty(link, NONE);
    }

    /// Takes a sequence out of the list of empty ones.
    pub(super) fn unlink_empty(&mut self, slot: u16) -> Option<()> {
        let entry = self.sequence(slot)?;
        self.join_empty(entry.first(), entry.last());
        Some(())
    }

    /// Makes two sequences neighbours among the empty ones; [`NONE`] stands before the first and after the last.
    #[cfg_attr(tracebuf_small, inline(never))]
    fn join_empty(&mut self, longer: u32, shorter: u32) {
        match self.sequence_mut(slot_of_link(longer)) {
            Some(entry) => entry.set_last(shorter),
            None => self.header.longest_empty.set(slot_of_link(shorter)),
        }
        match self.sequence_mut(slot_of_link(shorter)) {
            Some(entry) => entry.set_first(longer),
            None => self.header.latest_empty.set(slot_of_link(longer)),
        }
    }
}
