//! A place in the table of sequences for a newcomer, when all of them have chunks.

use super::chunk::ChunkHeader;
use super::region::{Mode, State};
use super::sequence_state::NO_SLOT;
use super::sequence_table::lookup;

impl State<'_> {
    /// Makes the sequence that was silent longest give up its place, if a chunk's sequence has no place and none is
    /// free.
    #[inline]
    pub(super) fn make_place(&mut self, header: &ChunkHeader) -> Option<()> {
        let full = usize::from(self.header.slots.get()) >= self.table.len()
            && self.header.longest_empty.get() == NO_SLOT;
        if full
            && !self.header.mode().contains(Mode::DISCARD)
            && lookup(self.table, header.producer_id, header.writer_id).is_none()
        {
            self.evict_all(self.stalest()?)?;
        }
        Some(())
    }

    /// The sequence whose latest chunk is older than those of all others, by where they lie.
    fn stalest(&self) -> Option<u16> {
        let (write, used) = (self.header.write.get(), self.header.used.get());
        // How far ahead of the place where the next chunk goes, which is less than the used part: no sum of two offsets
        // is made, because that of two in a ring of more than 2 GiB does not fit.
        let ahead = |at: u32| at.wrapping_sub(write).wrapping_add(if at < write { used } else { 0 });
        let latest = |slot: u16| {
            self.sequence(slot).filter(|entry| !entry.is_empty()).map(|entry| ahead(entry.last()))
        };
        (0..self.header.slots.get())
            .filter_map(|slot| Some((latest(slot)?, slot)))
            .min()
            .map(|(_, slot)| slot)
    }
}
