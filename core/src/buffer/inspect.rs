//! A view of the ring as it lies in memory, for tools that draw or list it.

use super::chunk::ChunkFlags;
use super::error::AttachError;
use super::observer::OverwriteObserver;
use super::read_only::ReadOnlyTraceBuffer;
use super::region::{MAGIC_BYTES, Mode, RegionLayout, RingEnd};
use super::sequence_state::SequenceState;
use super::tb_chunk::{Flags, Item, PAYLOAD, TBChunk};
use super::trace_buffer::TraceBuffer;
use super::words::Le32;
use crate::debug::debug_of;
use core::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// A view of a buffer's ring, item by item in the order of their addresses. Nothing is consumed or changed.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, RingContent, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let header = ChunkHeader { producer_id: 7, fragments: 1, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
///
/// let ring = buffer.inspect();
/// assert_eq!((ring.write_cursor(), ring.used()), (32, 32));
/// let item = ring.items().next().unwrap();
/// assert_eq!((item.offset, item.size, item.age), (0, 32, 32));
/// assert!(matches!(item.content, RingContent::Chunk(chunk) if chunk.producer_id == 7 && chunk.valid == 6));
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct RingView<'b> {
    /// The used part of the ring.
    ring: &'b [u8],
    table: &'b [SequenceState],
    size: u32,
    write: u32,
    sealed: bool,
}

/// One item of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RingItem {
    /// Where it starts, in bytes from the ring's start.
    pub offset: u32,
    /// Bytes it takes, header and alignment included.
    pub size: u32,
    /// Bytes that the write cursor has moved since it was at the item's start; the larger, the older.
    pub age: u64,
    /// What it is.
    pub content: RingContent,
}

/// What an item of the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RingContent {
    /// A chunk that has not been read completely.
    Chunk(RingChunk),
    /// Left over between chunks, or at the ring's end.
    Padding,
    /// What is left of chunks that were read or erased.
    Free,
    /// Bytes that make no sense, up to the end of the used part. Always the last item.
    Unreadable,
}

/// A chunk as it is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RingChunk {
    /// The producer of its sequence.
    pub producer_id: u16,
    /// The writer of its sequence.
    pub writer_id: u16,
    /// Its number on its sequence; wraps.
    pub chunk_id: u32,
    /// How it relates to its neighbours.
    pub flags: ChunkFlags,
    /// Whether its writer was done with it; if not, it was scraped.
    pub complete: bool,
    /// Whether it ends before its last declared fragment.
    pub truncated: bool,
    /// Whether it ends with a packet that its writer gave up.
    pub aborted: bool,
    /// Bytes of its well-formed fragments, size fields included.
    pub valid: u16,
    /// How many of these bytes were read.
    pub read: u16,
    /// Bytes reserved for its payload.
    pub room: u16,
    /// Whole, nonempty packets in it, including those that were read.
    pub packets: u16,
}

debug_of! {
    RingChunk { producer_id, writer_id, chunk_id, flags, complete, truncated, aborted, valid, read, room, packets }
}

impl RingContent {
    /// What a gap is and how many bytes it takes, from the word at its start. `None` if the word is that of a chunk, or
    /// of a gap of no length, which only a damaged ring has.
    ///
    /// For rings as they were found, before attaching makes a single gap of what it drops.
    pub fn of_gap(word: [u8; 4]) -> Option<(Self, u32)> {
        let (content, size) = match Item::from_word(u32::from_le_bytes(word)) {
            Item::Chunk(_) => return None,
            Item::Padding(size) => (Self::Padding, size),
            Item::Free(size) => (Self::Free, size),
        };
        (size > 0).then_some((content, size))
    }
}

impl RingChunk {
    /// Bytes a chunk takes before its payload.
    pub const HEADER: u32 = PAYLOAD;
}

impl<'b> RingView<'b> {
    /// The first bytes of every region, for a search through memory.
    pub const MAGIC: [u8; 4] = MAGIC_BYTES;

    /// Where the ring lies in a region that begins with these bytes; the region ends where the ring ends. The bytes
    /// need not be aligned, and everything after the region's header of 256 bytes may be missing.
    ///
    /// # Errors
    /// [`AttachError`] if no region begins like this, or one that this version cannot read.
    pub fn place(memory: &[u8]) -> Result<Range<usize>, AttachError> {
        RegionLayout::ring_range(memory)
    }

    /// A view of a region in memory as it was found: what [`attach`](TraceBuffer::attach) would take back or drop is
    /// still there. The memory may end before the ring does.
    ///
    /// # Errors
    /// [`AttachError`] if there is no region, or one that this version cannot read.
    pub fn find(memory: &'b [u8]) -> Result<Self, AttachError> {
        Ok(Self::of(&RegionLayout::find(memory, RingEnd::MayBeMissing)?, memory))
    }

    fn of(layout: &RegionLayout, memory: &'b [u8]) -> Self {
        let (table, _) = layout.table(memory).unwrap_or_default();
        let ring = layout.ring(memory).unwrap_or_default().as_bytes();
        let Some(header) = layout.header(memory) else {
            return Self { ring: &[], table, size: 0, write: 0, sealed: false };
        };
        let ring = ring.get(..header.used.get() as usize).unwrap_or(ring);
        let (write, sealed) = (header.write.get(), header.mode().contains(Mode::SEALED));
        Self { ring, table, size: header.ring_size(), write, sealed }
    }

    /// The ring's size in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many bytes of the ring were ever written to; the items end there.
    pub fn used(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Where the next chunk goes, if it fits before the end. Reading begins here too, and wraps around.
    pub fn write_cursor(&self) -> u32 {
        self.write
    }

    /// Whether a buffer that keeps the beginning is full and takes no more.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// All items. Cost: a look at each item's header.
    pub fn items(&self) -> RingItems<'b> {
        RingItems { view: *self, at: 0 }
    }

    /// The item at `offset`, if there can be one.
    fn item(&self, offset: u32) -> Option<(u32, RingContent)> {
        let bytes = self.ring.get(offset as usize..)?;
        let item = Item::from_word(Le32::ref_from_prefix(bytes).ok()?.0.get());
        let end = offset.checked_add(item.size())?;
        if end == offset || end > self.used() {
            return None;
        }
        let content = match item {
            Item::Padding(_) => RingContent::Padding,
            Item::Free(_) => RingContent::Free,
            Item::Chunk(_) => {
                let (chunk, _) = TBChunk::ref_from_prefix(bytes).ok()?;
                let sequence = self.table.get(usize::from(chunk.slot.get()))?;
                RingContent::Chunk(RingChunk {
                    producer_id: sequence.producer_id.get(),
                    writer_id: sequence.writer_id.get(),
                    chunk_id: chunk.chunk_id.get(),
                    flags: ChunkFlags::from_bits_truncate(chunk.flags().bits() as u8),
                    complete: !chunk.has(Flags::INCOMPLETE),
                    truncated: chunk.has(Flags::TRUNCATED),
                    aborted: chunk.has(Flags::ABORTED),
                    valid: chunk.valid.get(),
                    read: chunk.read.get(),
                    room: chunk.room(),
                    packets: chunk.packets.get(),
                })
            }
        };
        Some((item.size(), content))
    }
}

/// The items of a ring. Made by [`RingView::items`].
#[derive(Clone)]
pub struct RingItems<'b> {
    view: RingView<'b>,
    at: u32,
}

impl Iterator for RingItems<'_> {
    type Item = RingItem;

    fn next(&mut self) -> Option<RingItem> {
        let (offset, view) = (self.at, &self.view);
        let left = view.used().checked_sub(offset).filter(|left| *left > 0)?;
        let (size, content) = view.item(offset).unwrap_or((left, RingContent::Unreadable));
        self.at = offset.saturating_add(size);
        let lap = if offset < view.write { 0 } else { u64::from(view.size) };
        let age = (u64::from(view.write).saturating_add(lap)).saturating_sub(u64::from(offset));
        Some(RingItem { offset, size, age, content })
    }
}

impl core::iter::FusedIterator for RingItems<'_> {}

impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver> TraceBuffer<M, O> {
    /// A view of the ring as it lies in memory.
    pub fn inspect(&self) -> RingView<'_> {
        RingView::of(&self.layout, self.memory())
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    /// A view of the ring as it lies in memory.
    pub fn inspect(&self) -> RingView<'_> {
        RingView::of(&self.layout, self.memory.as_ref())
    }
}

#[cfg(test)]
mod tests;
