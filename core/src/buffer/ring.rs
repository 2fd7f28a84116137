//! Typed access to the bytes of the ring.
//!
//! Every access is checked and answers `None` where it would leave the ring. That never happens while the
//! region is as this crate left it; if somebody else wrote into it, operations stop short and nothing panics.

use super::crc::CRC_SIZE;
use super::tb_chunk::{Flags, Item, Links, PAYLOAD, TBChunk};
use super::words::Le32;
use core::sync::atomic::{Ordering, compiler_fence};
use zerocopy::FromBytes;

/// Keeps the stores before it before those after it, as far as the compiler is concerned: who finds the region
/// after a crash of the program sees them in this order.
#[inline(always)]
pub(super) fn fence() {
    compiler_fence(Ordering::SeqCst);
    #[cfg(test)]
    super::attach::crash_here();
}

/// The chunks' memory: offsets count from its start.
pub(super) struct Ring<'a> {
    pub(super) bytes: &'a mut [u8],
}

impl Ring<'_> {
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    fn at<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable>(&self, offset: u32) -> Option<&T> {
        T::ref_from_prefix(self.bytes.get(offset as usize..)?).ok().map(|(value, _)| value)
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    fn at_mut<T: FromBytes + zerocopy::IntoBytes + zerocopy::KnownLayout>(
        &mut self,
        offset: u32,
    ) -> Option<&mut T> {
        T::mut_from_prefix(self.bytes.get_mut(offset as usize..)?).ok().map(|(value, _)| value)
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn item(&self, offset: u32) -> Option<Item> {
        self.at::<Le32>(offset).map(|word| Item::from_word(word.get()))
    }

    /// Makes `gap` start at `offset`: one aligned store, ordered after all before and before all after.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn set_gap(&mut self, offset: u32, gap: Item) {
        fence();
        if let Some(word) = self.at_mut::<Le32>(offset) {
            word.set(gap.gap_word());
        }
        fence();
    }

    /// None for a gap: links of a damaged region may lead back to what was erased, and that without end.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn chunk(&self, offset: u32) -> Option<TBChunk> {
        self.at::<TBChunk>(offset).filter(|chunk| !chunk.is_gap()).copied()
    }

    /// The id of a chunk, without the rest of its header: of one just written, only a load of the same width
    /// as the store does not have to wait until that store, and the copy before it, have left the processor.
    #[inline]
    pub(super) fn chunk_id(&self, offset: u32) -> Option<u32> {
        self.at::<TBChunk>(offset).map(|chunk| chunk.chunk_id.get())
    }

    #[inline]
    pub(super) fn chunk_mut(&mut self, offset: u32) -> Option<&mut TBChunk> {
        self.at_mut(offset)
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    pub(super) fn links(&self, offset: u32) -> Option<Links> {
        self.at::<Links>(offset.checked_add(size_of::<TBChunk>() as u32)?).copied()
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn links_mut(&mut self, offset: u32) -> Option<&mut Links> {
        self.at_mut(offset.checked_add(size_of::<TBChunk>() as u32)?)
    }

    /// Sets the flags (and keeps the room) of a chunk: one aligned store between two fences.
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn set_flags(&mut self, offset: u32, chunk: &TBChunk, flags: Flags) {
        let word = TBChunk::word_of(chunk.room(), flags);
        fence();
        if let Some(first) = self.at_mut::<Le32>(offset) {
            first.set(word);
        }
        fence();
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn set_read(&mut self, offset: u32, read: u16) {
        if let Some(chunk) = self.chunk_mut(offset) {
            chunk.read.set(read);
        }
    }

    /// The first `size` bytes of the payload of the chunk at `offset`.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn payload(&self, offset: u32, size: u16) -> Option<&[u8]> {
        payload(self.bytes, offset, size)
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn payload_mut(&mut self, offset: u32, size: u16) -> Option<&mut [u8]> {
        let start = (offset as usize).checked_add(PAYLOAD as usize)?;
        self.bytes.get_mut(start..start.checked_add(usize::from(size))?)
    }

    /// Where the checksum of a chunk lies, if it has one: at the end of its room, aligned. So everything else
    /// lies where it lies without.
    fn checksum_offset(offset: u32, chunk: &TBChunk) -> Option<u32> {
        offset.checked_add(chunk.outer_size())?.checked_sub(u32::from(CRC_SIZE))
    }

    pub(super) fn checksum(&self, offset: u32, chunk: &TBChunk) -> Option<u32> {
        self.at::<Le32>(Self::checksum_offset(offset, chunk)?).map(|word| word.get())
    }

    pub(super) fn set_checksum(&mut self, offset: u32, chunk: &TBChunk, value: u32) -> Option<()> {
        self.at_mut::<Le32>(Self::checksum_offset(offset, chunk)?)?.set(value);
        Some(())
    }

    /// Writes a chunk's header and links so that the chunk appears with the last store.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    pub(super) fn publish(&mut self, offset: u32, chunk: &TBChunk, links: Links) {
        if let Some(stored) = self.links_mut(offset) {
            *stored = links;
        }
        if let Some(stored) = self.chunk_mut(offset) {
            stored.chunk_id = chunk.chunk_id;
            stored.valid = chunk.valid;
            stored.read = chunk.read;
            stored.slot = chunk.slot;
            stored.packets = chunk.packets;
        }
        self.set_flags(offset, chunk, chunk.flags());
    }
}

/// The first `size` bytes of the payload of the chunk at `offset` of `ring`.
#[inline]
pub(super) fn payload(ring: &[u8], offset: u32, size: u16) -> Option<&[u8]> {
    let start = (offset as usize).checked_add(PAYLOAD as usize)?;
    ring.get(start..start.checked_add(usize::from(size))?)
}
