//! Typed access to the bytes of the ring.
//!
//! Every access is checked and answers `None` where it would leave the ring, as happens only in a region that somebody
//! else wrote into: then operations stop short.

use super::crc::CRC_SIZE;
use super::tb_chunk::{FRONT_WORDS, Flags, Front, Item, PAYLOAD, Stored, TBChunk};
use super::words::Le32;
use crate::steps::step;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};
use zerocopy::{IntoBytes, transmute_mut, transmute_ref};

/// Keeps the stores before it before those after it, as far as the compiler is concerned: after a crash of the program,
/// they are found in this order.
#[inline(always)]
pub(super) fn fence() {
    compiler_fence(Ordering::SeqCst);
    #[cfg(test)]
    super::attach::crash_here();
}

/// A walk from item to item over a part of the ring. It borrows nothing, so what it passes can be changed.
pub(super) struct Items(Range<u32>);

impl Items {
    /// From the start of one item to the end of another.
    pub(super) fn of(range: Range<u32>) -> Self {
        Self(range)
    }

    /// The next item and where it starts. `None` at the end, or where the region is damaged.
    pub(super) fn next(&mut self, ring: &Ring<'_>) -> Option<(u32, Item)> {
        let at = Some(self.0.start).filter(|at| *at < self.0.end)?;
        let item = ring.item(at)?;
        self.0.start = item.end_from(at)?;
        Some((at, item))
    }

    /// The next chunk.
    pub(super) fn next_chunk(&mut self, ring: &Ring<'_>) -> Option<Stored> {
        loop {
            if let (at, Item::Chunk(_)) = self.next(ring)? {
                return ring.chunk(at);
            }
        }
    }
}

/// The chunks' memory: offsets count bytes from its start.
pub(super) struct Ring<'a> {
    pub(super) words: &'a mut [Le32],
}

/// Which word lies at `offset`. An offset that is no multiple of 4 becomes a number far beyond all words.
#[inline]
fn index(offset: u32) -> usize {
    offset.rotate_right(2) as usize
}

/// What lies before the payload of the chunk at `offset` of a ring, even of one that has just been erased.
#[inline]
pub(super) fn front(ring: &[Le32], offset: u32) -> Option<&Front> {
    step();
    Some(transmute_ref!(ring.get(index(offset)..)?.first_chunk::<FRONT_WORDS>()?))
}

fn payload_range(offset: u32, size: u16) -> Option<Range<usize>> {
    let start = (offset as usize).checked_add(PAYLOAD as usize)?;
    Some(start..start.checked_add(usize::from(size))?)
}

/// The first `size` bytes of the payload of the chunk at `offset` of a ring.
#[cfg_attr(not(tracebuf_small), inline)]
#[cfg_attr(tracebuf_small, inline(never))]
pub(super) fn payload(ring: &[Le32], offset: u32, size: u16) -> Option<&[u8]> {
    ring.as_bytes().get(payload_range(offset, size)?)
}

impl Ring<'_> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.words.as_bytes()
    }

    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn item(&self, offset: u32) -> Option<Item> {
        step();
        self.words.get(index(offset)).map(|word| Item::from_word(word.get()))
    }

    /// Sets the first word of an item: one aligned store, ordered after all before and before all after.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    fn set_word(&mut self, offset: u32, value: u32) {
        fence();
        if let Some(word) = self.words.get_mut(index(offset)) {
            word.set(value);
        }
        fence();
    }

    /// Makes `gap` start at `offset`.
    #[inline]
    pub(super) fn set_gap(&mut self, offset: u32, gap: Item) {
        self.set_word(offset, gap.gap_word());
    }

    /// `None` for a gap: links of a damaged region may lead back to what was erased, endlessly.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn front(&self, offset: u32) -> Option<&Front> {
        front(self.words, offset).filter(|front| !front.header.is_gap())
    }

    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn front_mut(&mut self, offset: u32) -> Option<&mut Front> {
        Some(transmute_mut!(self.words.get_mut(index(offset)..)?.first_chunk_mut::<FRONT_WORDS>()?))
    }

    #[inline(always)]
    pub(super) fn chunk(&self, offset: u32) -> Option<Stored> {
        self.front(offset).map(|front| front.stored_at(offset))
    }

    /// The id of a chunk, without the rest of its header: for one just written, only a load of the same width as the
    /// store does not have to wait until that store, and the copy before it, have left the processor.
    #[inline]
    pub(super) fn chunk_id(&self, offset: u32) -> Option<u32> {
        self.front(offset).map(|front| front.header.chunk_id.get())
    }

    /// Sets the flags (and keeps the room) of a chunk.
    #[inline]
    pub(super) fn set_flags(&mut self, chunk: &Stored, flags: Flags) {
        self.set_word(chunk.offset, TBChunk::word_of(chunk.room(), flags));
    }

    #[inline(always)]
    pub(super) fn set_read(&mut self, offset: u32, read: u16) {
        if let Some(front) = self.front_mut(offset) {
            front.header.read.set(read);
        }
    }

    /// The first `size` bytes of the payload of the chunk at `offset`.
    #[inline]
    pub(super) fn payload(&self, offset: u32, size: u16) -> Option<&[u8]> {
        payload(self.words, offset, size)
    }

    #[inline(always)]
    pub(super) fn payload_mut(&mut self, offset: u32, size: u16) -> Option<&mut [u8]> {
        self.words.as_mut_bytes().get_mut(payload_range(offset, size)?)
    }

    /// Where the checksum of a chunk lies, if it has one: at the end of its room, aligned.
    fn checksum_offset(chunk: &Stored) -> Option<u32> {
        chunk.offset.checked_add(chunk.outer_size())?.checked_sub(u32::from(CRC_SIZE))
    }

    pub(super) fn checksum(&self, chunk: &Stored) -> Option<u32> {
        self.words.get(index(Self::checksum_offset(chunk)?)).map(|word| word.get())
    }

    pub(super) fn set_checksum(&mut self, chunk: &Stored, value: u32) -> Option<()> {
        self.words.get_mut(index(Self::checksum_offset(chunk)?))?.set(value);
        Some(())
    }

    /// Writes a chunk's header and links so that the chunk appears with the last store.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(super) fn publish(&mut self, chunk: &Stored) {
        if let Some(front) = self.front_mut(chunk.offset) {
            // The word that says what the item is stays as it was until all else is there.
            let header = TBChunk { word: front.header.word, ..chunk.header };
            *front = Front { header, links: chunk.links };
        }
        self.set_flags(chunk, chunk.flags());
    }
}
