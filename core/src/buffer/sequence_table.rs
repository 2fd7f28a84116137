//! The bounded table of sequences: finding, making and forgetting them.
//!
//! An index of hash chains lies in the table itself, one head in each place. Sequences without chunks are
//! linked from the longest empty to the latest; a full table forgets at the long end.

use super::chunk::ChunkHeader;
use super::region::{Header, NO_SLOT, State};
use super::sequence_state::{SequenceState, Status, link_to_slot, slot_of_link};

/// Where the chain of a sequence starts: Fibonacci hashing of 4 bytes, scaled without a division.
#[inline]
fn home(producer_id: u16, writer_id: u16, places: usize) -> usize {
    let key = (u32::from(producer_id) << 16) | u32::from(writer_id);
    let hash = key.wrapping_mul(0x9E37_79B1);
    ((u64::from(hash) * places as u64) >> 32) as usize
}

/// The slot of a sequence.
///
/// Cost: one access and one more for each sequence with the same hash; ids chosen to collide make that 256 at
/// the most, in tables of some 256 sequences (65,536 writer ids over the places).
#[cfg_attr(not(target_os = "none"), inline)]
#[cfg_attr(target_os = "none", inline(never))]
pub(super) fn lookup(table: &[SequenceState], producer_id: u16, writer_id: u16) -> Option<u16> {
    let mut slot = table.get(home(producer_id, writer_id, table.len()))?.hash_head();
    // No chain is longer than the table: a chain that bites its tail in a damaged region must end as well.
    for _ in 0..table.len() {
        let entry = table.get(usize::from(slot))?;
        if entry.producer_id.get() == producer_id && entry.writer_id.get() == writer_id {
            return Some(slot);
        }
        slot = entry.hash_next.get();
    }
    None
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

    /// Makes a sequence, which is empty for now. `None` when every place of the table has chunks.
    #[cfg_attr(target_os = "none", inline(never))]
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
            self.table.get_mut(home)?.insert(Status::FORGETFUL);
            return None;
        };
        let forgotten = self.table.get(home)?.has(Status::FORGETFUL);
        self.sequence_mut(slot)?.start(header, forgotten);
        add_to_index(self.table, slot);
        if let Some(histogram) = self.histogram(slot) {
            histogram.clear();
        }
        push_empty(self.header, self.table, slot);
        Some(slot)
    }

    fn forget(&mut self, slot: u16) -> Option<()> {
        unlink_empty(self.header, self.table, slot);
        let entry = self.table.get(usize::from(slot))?;
        if !entry.has(Status::IN_USE) {
            return Some(());
        }
        let (after, home) =
            (entry.hash_next.get(), home(entry.producer_id.get(), entry.writer_id.get(), self.table.len()));
        let index = self.table.get_mut(home)?;
        index.insert(Status::FORGETFUL);
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

/// Makes a sequence known to the index.
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

/// Links a sequence that has just lost its last chunk as the latest of the empty ones.
pub(super) fn push_empty(header: &mut Header, table: &mut [SequenceState], slot: u16) {
    let before = header.latest_empty.get();
    header.latest_empty.set(slot);
    match table.get_mut(usize::from(before)) {
        Some(entry) => entry.set_last(link_to_slot(slot)),
        None => header.longest_empty.set(slot),
    }
    if let Some(entry) = table.get_mut(usize::from(slot)) {
        entry.set_first(link_to_slot(before));
        entry.set_last(link_to_slot(NO_SLOT));
    }
}

/// Takes a sequence out of the list of empty ones.
pub(super) fn unlink_empty(header: &mut Header, table: &mut [SequenceState], slot: u16) {
    let Some(entry) = table.get(usize::from(slot)) else { return };
    let (longer, shorter) = (slot_of_link(entry.first()), slot_of_link(entry.last()));
    match table.get_mut(usize::from(longer)) {
        Some(entry) => entry.set_last(link_to_slot(shorter)),
        None => header.longest_empty.set(shorter),
    }
    match table.get_mut(usize::from(shorter)) {
        Some(entry) => entry.set_first(link_to_slot(longer)),
        None => header.latest_empty.set(longer),
    }
}
