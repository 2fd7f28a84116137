use super::chunk_header::ChunkHeader;
use super::cursor::load;
use super::page::{ChunkState, Layout, Page};
use super::smb::SharedMemory;
use super::sync::AtomicU32;

/// A chunk wherever it is in its life, for looking at: nothing is taken and nothing changes.
///
/// ```
/// # use tracebuf::producer::*;
/// # let mut memory = vec![0u32; 1024];
/// # let memory = SharedMemory::new(atomic_words(&mut memory), 4096)?;
/// for index in 0..memory.pages() {
///     let Some(page) = memory.page(index) else { continue };
///     for chunk in page.chunks() {
///         println!("{:?}: {} fragments", chunk.header(), chunk.fragments().count());
///     }
/// }
/// # Ok::<(), MemoryError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ChunkView<'a> {
    words: &'a [AtomicU32],
    header: ChunkHeader,
    state: ChunkState,
    index: u32,
    offset: u32,
}

/// What a chunk's bytes say of one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where its size field begins, in bytes from the payload's start.
    pub offset: usize,
    /// Bytes of the size field.
    pub header: usize,
    /// Bytes of content.
    pub size: usize,
    /// Whether it is a whole one.
    pub kind: FragmentKind,
}

/// How far a fragment can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// It lies in the payload.
    Valid,
    /// The writer gave the packet up here; nothing follows.
    Aborted,
    /// The size field is no varint, or the content leaves the payload; nothing follows.
    Malformed,
}

/// A chunk's fragments, as far as they are well-formed.
#[derive(Clone)]
pub struct Fragments<'a> {
    words: &'a [AtomicU32],
    pos: usize,
    left: u16,
}

impl<'a> Page<'a> {
    /// The chunks of the page, whatever their state; none when it is not partitioned or of a reserved layout.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkView<'a>> + use<'a> {
        let (page, bitmap) = (*self, self.bitmap());
        let layout = bitmap.layout();
        (0..layout.map_or(0, Layout::chunks)).filter_map(move |index| {
            let layout = layout?;
            let place = page.place(layout, index)?;
            let offset = Page::HEADER_SIZE as u32 + index * layout.chunk_size(page.size());
            let (words, header) = (place.payload(), place.header());
            Some(ChunkView { words, header, state: bitmap.state(index), index, offset })
        })
    }
}

impl<'a> SharedMemory<'a> {
    /// All pages, in address order.
    pub fn all_pages(&self) -> impl Iterator<Item = Page<'a>> + use<'a> {
        let memory = *self;
        (0..memory.pages()).filter_map(move |index| memory.page(index))
    }
}

impl<'a> ChunkView<'a> {
    /// Its number in the page.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The state when the page was looked at.
    pub fn state(&self) -> ChunkState {
        self.state
    }

    /// The header when the page was looked at.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }

    /// Bytes from the page's start to the chunk's header.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Bytes of payload.
    pub fn payload_len(&self) -> usize {
        self.words.len() * 4
    }

    /// Copies payload from `offset` on; what lies beyond it is zero.
    pub fn fill(&self, offset: usize, to: &mut [u8]) {
        super::drain::copy_out(self.words, offset, to);
    }

    /// The fragments that the header counts, one after the other.
    ///
    /// Of a chunk being written the last may be anything. Cost: a few loads each.
    pub fn fragments(&self) -> Fragments<'a> {
        Fragments { words: self.words, pos: 0, left: self.header.fragments }
    }
}

impl Iterator for Fragments<'_> {
    type Item = Fragment;

    fn next(&mut self) -> Option<Fragment> {
        self.left = self.left.checked_sub(1)?;
        let (offset, end) = (self.pos, self.words.len() * 4);
        let mut size = 0u64;
        let mut at = offset;
        let malformed =
            |at: usize| Fragment { offset, header: at - offset, size: 0, kind: FragmentKind::Malformed };
        loop {
            if at >= end || at - offset >= 10 {
                self.left = 0;
                return Some(malformed(at));
            }
            let byte = load(self.words, at / 4) >> (at % 4 * 8) & 0xFF;
            // The tenth byte's upper bits are beyond 64.
            size |= u64::from(byte & 0x7F).checked_shl(7 * (at - offset) as u32).unwrap_or(0);
            at += 1;
            if byte < 0x80 {
                break;
            }
        }
        let header = at - offset;
        if size == 0x0FFF_FFFF {
            self.left = 0;
            return Some(Fragment { offset, header, size: 0, kind: FragmentKind::Aborted });
        }
        if size > (end - at) as u64 {
            self.left = 0;
            return Some(malformed(at));
        }
        self.pos = at + size as usize;
        Some(Fragment { offset, header, size: size as usize, kind: FragmentKind::Valid })
    }
}
