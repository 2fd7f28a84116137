//! A buffer that was found, copied into memory in which its ring has more room.

use super::config::{Config, FillPolicy};
use super::error::RegionError;
use super::overwrite::Unobserved;
use super::read_only::ReadOnlyTraceBuffer;
use super::region::{RegionLayout, State};
use super::ring::Items;
use super::sequence_state::{SequenceState, Status};
use super::tb_chunk::Item;
use super::trace_buffer::TraceBuffer;
use super::words::Le32;

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    /// Bytes of memory for a [copy](Self::grow) with `more` additional bytes for chunks and their headers.
    pub fn grown_size(&self, more: usize) -> usize {
        self.layout.grown_size(more)
    }

    /// Copies the buffer into memory in which its ring has more room, and which takes chunks again: for chunks that a
    /// program which has ended left elsewhere, so that nothing here is overwritten for them. What was read stays read,
    /// and the counters are the same.
    ///
    /// The ring grows as far as the memory has room; all the new room lies before what it overwrites next. A buffer
    /// that was full and [discards](FillPolicy::Discard) takes nothing more. Cost: a copy of the region, and a look at
    /// each chunk.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] or [`RegionError::Damaged`].
    pub fn grow<N: AsRef<[u8]> + AsMut<[u8]>>(&self, mut memory: N) -> Result<TraceBuffer<N>, RegionError> {
        let layout = self.layout.grow(self.memory.as_ref(), memory.as_mut())?;
        Ok(TraceBuffer { memory, layout, observer: Unobserved })
    }
}

/// A move of what lies after the write cursor, the oldest, to the end of the larger ring: the new room is before it.
#[derive(Clone, Copy)]
struct Move {
    from: u32,
    until: u32,
    by: u32,
}

impl Move {
    /// Where what lies at an offset goes. The result means nothing for what is no offset, or not kept up to date.
    fn of(self, offset: u32) -> u32 {
        if (self.from..self.until).contains(&offset) { offset.wrapping_add(self.by) } else { offset }
    }
}

impl RegionLayout {
    /// Bytes of a region like this with `more` additional bytes for the ring, 8-byte alignment included.
    pub(in crate::buffer) fn grown_size(&self, more: usize) -> usize {
        self.ring_offset.saturating_add(self.ring_size as usize).saturating_add(more).saturating_add(7)
    }

    /// Copies the region into `memory`, which gives the ring its size.
    pub(in crate::buffer) fn grow(&self, region: &[u8], memory: &mut [u8]) -> Result<Self, RegionError> {
        let damaged = RegionError::Damaged;
        let header = self.header(region).ok_or(damaged)?;
        let (table, histograms) = self.table(region).ok_or(damaged)?;
        let ring = self.ring(region).ok_or(damaged)?;
        let used = header.used.get().min(self.ring_size);
        let from = header.write.get().min(used);
        // The policy is in the header's mode.
        let config = Config {
            policy: FillPolicy::RingBuffer,
            sequences: self.sequences,
            histograms: self.histograms,
            crc: self.has_checksums(region),
        };
        let grown = Self::format(memory, &config)?;
        let by = grown
            .ring_size
            .checked_sub(used)
            .ok_or(RegionError::TooSmall { needed: self.ring_offset.saturating_add(used as usize) })?;
        let mut state = grown.state(memory).ok_or(damaged)?;
        *state.header = *header;
        state.header.set_ring_size(grown.ring_size);
        state.table.iter_mut().zip(table).for_each(|(to, from)| *to = *from);
        #[cfg(feature = "histograms")]
        state.histograms.iter_mut().zip(histograms).for_each(|(to, from)| *to = *from);
        #[cfg(not(feature = "histograms"))]
        let _ = histograms;
        state.copy_items(ring, Move { from, until: used, by }).ok_or(damaged)?;
        Ok(grown)
    }
}

impl State<'_> {
    fn copy_items(&mut self, ring: &[Le32], moved: Move) -> Option<()> {
        let index = |offset: u32| offset as usize / size_of::<Le32>();
        let (newest, oldest) = ring.get(..index(moved.until))?.split_at_checked(index(moved.from))?;
        let copy =
            |to: &mut [Le32], from: &[Le32]| to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        copy(self.ring.words, newest);
        if !oldest.is_empty() {
            let end = moved.of(moved.from)..moved.until.checked_add(moved.by)?;
            copy(self.ring.words.get_mut(index(end.start)..index(end.end))?, oldest);
            if moved.by > 0 {
                self.ring.set_gap(moved.from, Item::Free(moved.by));
            }
            self.header.used.set(end.end);
        }
        let with_chunks = |entry: &&mut SequenceState| entry.has(Status::IN_USE) && !entry.is_empty();
        for entry in self.table.iter_mut().filter(with_chunks) {
            entry.set_first(moved.of(entry.first()));
            entry.set_last(moved.of(entry.last()));
        }
        let mut items = Items::of(0..self.header.used.get());
        while let Some(chunk) = items.next_chunk(&self.ring) {
            let links = &mut self.ring.front_mut(chunk.offset)?.links;
            for link in [&mut links.prev, &mut links.next] {
                link.set(moved.of(link.get()));
            }
        }
        Some(())
    }
}
