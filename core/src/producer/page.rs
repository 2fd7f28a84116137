//! Pages, how they are divided into chunks, and the chunks' states.

use super::chunk_header::{HeaderFlags, SmbChunkHeader};
use super::sync::{AtomicU32, Ordering};

/// How a page is divided into chunks; the number is the one in the page's bitmap.
///
/// ```
/// use tracebuf::producer::Layout;
///
/// let layouts = [Layout::Fourteen, Layout::Seven, Layout::Four, Layout::Two, Layout::One];
/// assert_eq!(layouts.map(|layout| layout.chunk_size(4096)), [292, 584, 1020, 2044, 4088]);
/// // The most chunks that hold a packet of 500 bytes each: headers take 12 more.
/// assert_eq!(layouts.into_iter().find(|layout| layout.chunk_size(4096) >= 512), Some(Layout::Seven));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layout {
    /// One chunk a page.
    One = 1,
    /// Two chunks a page.
    Two = 2,
    /// Four chunks a page.
    Four = 3,
    /// Seven chunks a page.
    Seven = 4,
    /// Fourteen chunks a page.
    Fourteen = 5,
}

impl Layout {
    /// The layout of a bitmap's bits 28–30; `None` for a page not partitioned (0) and the reserved 6 and 7.
    #[inline]
    pub const fn from_bits(bits: u32) -> Option<Layout> {
        Some(match bits {
            1 => Layout::One,
            2 => Layout::Two,
            3 => Layout::Four,
            4 => Layout::Seven,
            5 => Layout::Fourteen,
            _ => return None,
        })
    }

    /// Chunks in a page of this layout.
    #[inline]
    pub const fn chunks(self) -> u32 {
        match self {
            Layout::One => 1,
            Layout::Two => 2,
            Layout::Four => 4,
            Layout::Seven => 7,
            Layout::Fourteen => 14,
        }
    }

    /// Bytes of a chunk, header included, in a page of `page_size` bytes: rounded down to a multiple of 4.
    #[inline]
    pub const fn chunk_size(self, page_size: u32) -> u32 {
        let body = page_size.saturating_sub(Page::HEADER_SIZE as u32);
        // Constant divisors: no check for zero, no division instruction.
        let size = match self {
            Layout::One => body,
            Layout::Two => body / 2,
            Layout::Four => body / 4,
            Layout::Seven => body / 7,
            Layout::Fourteen => body / 14,
        };
        size & !3
    }
}

/// A layout in pages of one size, computed once.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    /// The layout as it is in a bitmap.
    layout_bits: u32,
    pub(crate) chunks: u32,
    pub(crate) chunk_words: usize,
}

impl Division {
    #[inline]
    pub(crate) const fn new(layout: Layout, page_size: u32) -> Self {
        Division {
            layout_bits: (layout as u32) << 28,
            chunks: layout.chunks(),
            chunk_words: layout.chunk_size(page_size) as usize / 4,
        }
    }
}

/// Who has a chunk; the number is the one in the page's bitmap.
///
/// ```
/// use tracebuf::producer::{ChunkState, SharedMemory};
///
/// /// Chunks that are taken, by writers or for the service: once these are all there are, a writer finds none.
/// fn taken(memory: SharedMemory<'_>) -> usize {
///     let chunks = memory.all_pages().flat_map(|page| page.chunks());
///     chunks.filter(|chunk| chunk.state() != ChunkState::Free).count()
/// }
/// ```
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

impl ChunkState {
    const fn from_bits(bits: u32) -> ChunkState {
        match bits & 3 {
            0 => ChunkState::Free,
            1 => ChunkState::BeingWritten,
            2 => ChunkState::BeingRead,
            _ => ChunkState::Complete,
        }
    }
}

/// One loaded value of a page's bitmap.
///
/// ```
/// use tracebuf::producer::{Bitmap, ChunkState};
///
/// let of_a_page_that_nobody_used = Bitmap(0);
/// assert_eq!(of_a_page_that_nobody_used.state(0), ChunkState::Free);
/// ```
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
        if chunk >= 14 { ChunkState::Free } else { ChunkState::from_bits(self.0 >> (chunk * 2)) }
    }

    /// Whether the reserved highest bit is set.
    pub const fn reserved_bit(self) -> bool {
        self.0 >> 31 != 0
    }

    /// Whether states are set for chunks that the layout does not have.
    pub const fn has_stray_states(self) -> bool {
        let chunks = match self.layout() {
            Some(layout) => layout.chunks(),
            None => 0,
        };
        (self.0 & Self::STATES) >> (chunks * 2) != 0
    }

    const fn with_state(self, chunk: u32, state: ChunkState) -> Bitmap {
        let shift = (chunk & 15) * 2;
        Bitmap(self.0 & !(3 << shift) | (state as u32) << shift)
    }
}

/// A page of a shared memory buffer: two header words, then chunks.
///
/// ```
/// use tracebuf::producer::{SharedMemory, atomic_words};
///
/// let mut memory = vec![0u32; 1024];
/// let memory = SharedMemory::new(atomic_words(&mut memory), 4096)?;
/// let page = memory.page(0).expect("there is one");
/// assert_eq!((page.size(), page.bitmap().layout()), (4096, None));
/// # Ok::<(), tracebuf::producer::MemoryError>(())
/// ```
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
    pub const HEADER_SIZE: usize = 8;

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

impl Division {
    /// Takes a free chunk of a page for writing, partitioning the page if it is not yet.
    pub(crate) fn acquire(&self, word: &AtomicU32) -> Option<u32> {
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let bitmap = u32::from_le(seen);
            let partitioned = if bitmap == 0 { self.layout_bits } else { bitmap };
            // The two bits of a free chunk are 0; `free` has the lower one set for each.
            let free = !(partitioned | partitioned >> 1) & 0x5555_5555;
            let chunk = free.trailing_zeros() / 2;
            if partitioned >> 28 != self.layout_bits >> 28 || chunk >= self.chunks {
                return None;
            }
            let next = (partitioned | free & free.wrapping_neg()).to_le();
            // Acquire: the service zeroed the header before it freed the chunk.
            match word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(chunk),
                Err(now) => seen = now,
            }
        }
    }
}

/// Moves a chunk of the page from one state to another; false, and no change, when it is not in the first.
pub(crate) fn change_state(word: &AtomicU32, chunk: u32, from: ChunkState, to: ChunkState) -> bool {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let bitmap = Bitmap(u32::from_le(seen));
        if bitmap.0 >> (chunk * 2) & 3 != from as u32 {
            return false;
        }
        let mut next = bitmap.with_state(chunk, to);
        if to as u32 == ChunkState::Free as u32 && next.0 & Bitmap::STATES == 0 {
            // The last chunk of the page is free: the next writer may divide it differently.
            next = Bitmap(0);
        }
        match word.compare_exchange_weak(seen, next.0.to_le(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}

/// Sets flags in a chunk's header, with the chunk's owner as the only writer.
pub(crate) fn add_flags(words: &[AtomicU32], flags: HeaderFlags) {
    let [_, packets, ..] = words else { return };
    let flags = u32::from(flags.bits()) << 26;
    packets.store(packets.load(Ordering::Relaxed) | flags.to_le(), Ordering::Release);
}

/// Stores a chunk's header, the second word last: when a fragment starts, those before it are all there.
pub(crate) fn set_header(words: &[AtomicU32], header: SmbChunkHeader) {
    let [id, packets, ..] = words else { return };
    let [first, second] = header.to_words();
    id.store(first.to_le(), Ordering::Relaxed);
    packets.store(second.to_le(), Ordering::Release);
}

impl ChunkPlace<'_> {
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

impl<'a> ChunkPlace<'a> {
    #[inline]
    pub(crate) fn payload(&self) -> &'a [AtomicU32] {
        self.words.get(2..).unwrap_or_default()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::words::atomic_words;

    const LAYOUTS: [Layout; 5] = [Layout::One, Layout::Two, Layout::Four, Layout::Seven, Layout::Fourteen];

    #[test]
    fn chunk_sizes_are_those_of_the_abi() {
        let sizes = LAYOUTS.map(|l| l.chunk_size(4096));
        assert_eq!(sizes, [4088, 2044, 1020, 584, 292]);
        assert_eq!(Layout::One.chunk_size(32768), 32760);
    }

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
