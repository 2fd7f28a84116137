//! Pages of a shared memory buffer, and the states of their chunks.

use super::atomics::{AtomicU32, Ordering};
use super::chunk_header::SmbChunkHeader;
use super::layout::{Division, Layout, PAGE_HEADER};

/// Who has a chunk; the number is the one in the page's bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkState {
    /// Nobody's; its header is zero.
    Free = 0,
    /// The producer writes it.
    BeingWritten = 1,
    /// The service reads it.
    BeingRead = 2,
    /// Written, and the service's to take.
    Complete = 3,
}

/// One loaded value of a page's bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmap(
    /// The word as it is in memory, in native byte order.
    pub u32,
);

impl Bitmap {
    const STATES: u32 = 0x0FFF_FFFF;

    /// The layout's number, 0 to 7.
    #[inline]
    pub const fn layout_bits(self) -> u32 {
        (self.0 >> 28) & 7
    }

    /// The layout, if the page is partitioned and the number is not a reserved one.
    #[inline]
    pub const fn layout(self) -> Option<Layout> {
        Layout::from_bits(self.layout_bits())
    }

    /// The state of a chunk; `Free` beyond 13.
    #[inline]
    pub const fn state(self, chunk: u32) -> ChunkState {
        if chunk >= 14 {
            return ChunkState::Free;
        }
        match self.0 >> (chunk * 2) & 3 {
            0 => ChunkState::Free,
            1 => ChunkState::BeingWritten,
            2 => ChunkState::BeingRead,
            _ => ChunkState::Complete,
        }
    }

    /// Whether the reserved highest bit is set.
    pub const fn reserved_bit(self) -> bool {
        self.0 >> 31 != 0
    }

    /// Whether states are set for chunks that the layout does not have.
    pub const fn has_stray_states(self) -> bool {
        let chunks = if let Some(layout) = self.layout() { layout.chunks() } else { 0 };
        (self.0 & Self::STATES) >> (chunks * 2) != 0
    }
}

/// A page of a shared memory buffer: two header words, then chunks.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    words: &'a [AtomicU32],
}

/// A chunk's place in shared memory, for the side that has it now: the page's bitmap, and the words of header and
/// payload.
#[derive(Clone, Copy)]
pub(crate) struct ChunkPlace<'a> {
    bitmap: &'a AtomicU32,
    words: &'a [AtomicU32],
    pub(crate) chunk: u32,
}

impl<'a> Page<'a> {
    /// Bytes of a page's header.
    pub const HEADER_SIZE: usize = PAGE_HEADER;

    pub(crate) fn new(words: &'a [AtomicU32]) -> Self {
        Page { words }
    }

    /// The bitmap now. What is read afterwards of a chunk that it calls complete was written before.
    #[inline]
    pub fn bitmap(&self) -> Bitmap {
        Bitmap(self.words.first().map_or(0, |w| u32::from_le(w.load(Ordering::Acquire))))
    }

    /// The header's second word: always zero, says the ABI.
    pub fn reserved(&self) -> u32 {
        self.words.get(1).map_or(0, |w| u32::from_le(w.load(Ordering::Relaxed)))
    }

    /// Bytes of the page, its header included.
    pub fn size(&self) -> u32 {
        (self.words.len() * 4) as u32
    }

    pub(crate) fn place(&self, layout: Layout, chunk: u32) -> Option<ChunkPlace<'a>> {
        let division = Division::new(layout, self.size());
        if chunk >= division.chunks {
            return None;
        }
        let start = 2 + division.chunk_words * chunk as usize;
        let words = self.words.get(start..)?.get(..division.chunk_words).filter(|words| words.len() > 2)?;
        Some(ChunkPlace { bitmap: self.words.first()?, words, chunk })
    }
}

/// Moves a chunk of the page from one state to another; false, and no change, when it is not in the first.
pub(crate) fn change_state(word: &AtomicU32, chunk: u32, from: ChunkState, to: ChunkState) -> bool {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let (bitmap, shift) = (u32::from_le(seen), (chunk & 15) * 2);
        if bitmap >> shift & 3 != from as u32 {
            return false;
        }
        let mut next = bitmap & !(3 << shift) | (to as u32) << shift;
        if to == ChunkState::Free && next & Bitmap::STATES == 0 {
            // The last chunk of the page is free: the next writer may divide it differently.
            next = 0;
        }
        match word.compare_exchange_weak(seen, next.to_le(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}

impl<'a> ChunkPlace<'a> {
    #[inline]
    pub(crate) fn payload(&self) -> &'a [AtomicU32] {
        self.words.get(2..).unwrap_or_default()
    }

    /// See [`change_state`].
    pub(crate) fn change_state(&self, from: ChunkState, to: ChunkState) -> bool {
        change_state(self.bitmap, self.chunk, from, to)
    }

    /// The header now; the payload of the fragments it counts was written before, except that of the last.
    pub(crate) fn header(&self) -> SmbChunkHeader {
        let [id, packets, ..] = self.words else { return SmbChunkHeader::default() };
        // The second word first, with acquire: an id older than the count would be another chunk's.
        let packets = u32::from_le(packets.load(Ordering::Acquire));
        SmbChunkHeader::from_words([u32::from_le(id.load(Ordering::Relaxed)), packets])
    }

    /// Zeroes the header, the writer's id first: if that is cut short, what is left of the header belongs to nobody.
    pub(crate) fn clear_header(&self) {
        let [id, packets, ..] = self.words else { return };
        packets.store(0, Ordering::Relaxed);
        id.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::atomics::atomic_words;

    const LAYOUTS: [Layout; 5] = [Layout::One, Layout::Two, Layout::Four, Layout::Seven, Layout::Fourteen];

    #[test]
    fn every_layout_hands_out_each_chunk_once_and_returns_to_an_unpartitioned_page() {
        for layout in LAYOUTS {
            let mut memory = [0u32; 1024];
            let page = Page::new(atomic_words(&mut memory));
            for chunk in 0..layout.chunks() {
                assert_eq!(Division::new(layout, page.size()).acquire(&page.words[0]), Some(chunk));
                let place = page.place(layout, chunk).unwrap();
                assert_eq!(place.payload().len() as u32 * 4 + 8, layout.chunk_size(4096));
                assert!(place.change_state(ChunkState::BeingWritten, ChunkState::Complete));
            }
            assert!(Division::new(layout, page.size()).acquire(&page.words[0]).is_none());
            for chunk in 0..layout.chunks() {
                assert_ne!(page.bitmap().0, 0);
                let place = page.place(layout, chunk).unwrap();
                assert!(!place.change_state(ChunkState::BeingRead, ChunkState::Free));
                assert!(place.change_state(ChunkState::Complete, ChunkState::BeingRead));
                assert!(place.change_state(ChunkState::BeingRead, ChunkState::Free));
            }
            assert_eq!(page.bitmap().0, 0);
        }
    }

    #[test]
    fn a_bitmap_tells_states_and_what_should_not_be_there() {
        let bitmap = Bitmap(0x3000_00E4);
        assert_eq!((bitmap.layout_bits(), bitmap.layout()), (3, Some(Layout::Four)));
        assert_eq!(
            [0, 1, 2, 3, 4, 14].map(|chunk| bitmap.state(chunk)),
            [
                ChunkState::Free,
                ChunkState::BeingWritten,
                ChunkState::BeingRead,
                ChunkState::Complete,
                ChunkState::Free,
                ChunkState::Free,
            ]
        );
        assert!(!bitmap.reserved_bit() && Bitmap(0x8000_0000).reserved_bit());
        assert!(!bitmap.has_stray_states() && Bitmap(0x3000_0100).has_stray_states());
        // Without a layout there are no chunks, and the two fields above the states do not count as states.
        assert!(Bitmap(1).has_stray_states() && !Bitmap(0xF000_0000).has_stray_states());
        assert!(!Bitmap(0x5FFF_FFFF).has_stray_states());
    }

    #[test]
    fn a_page_of_another_or_a_reserved_layout_is_left_alone() {
        for bitmap in [0x6000_0000_u32, 0x7000_0001, 0x2000_0001, 0x8000_0000, 1] {
            let mut memory = [0u32; 64];
            memory[0] = bitmap.to_le();
            let page = Page::new(atomic_words(&mut memory));
            assert!(Division::new(Layout::One, 256).acquire(&page.words[0]).is_none(), "{bitmap:#x}");
            assert_eq!(page.bitmap().0, bitmap);
        }
    }

    #[test]
    fn a_chunk_beyond_the_layout_or_a_page_too_small_has_no_place() {
        let mut memory = [0u32; 64];
        let page = Page::new(atomic_words(&mut memory));
        assert!(page.place(Layout::Two, 2).is_none());
        page.words[1].store(9_u32.to_le(), Ordering::Relaxed);
        assert_eq!((page.reserved(), page.size()), (9, 256));
        let mut memory = [0u32; 16];
        let page = Page::new(atomic_words(&mut memory));
        assert!(page.place(Layout::Fourteen, 0).is_none());
        // Two words are a header without a payload.
        assert!(page.place(Layout::Seven, 0).is_none());
    }
}
