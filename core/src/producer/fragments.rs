//! Chunks and their fragments, for inspection.

use super::atomics::AtomicU32;
use super::chunk_header::SmbChunkHeader;
#[cfg(not(tracebuf_small))]
use super::cursor::load;
use super::drain::copy_out;
use super::layout::Layout;
use super::page::{ChunkState, Page};
use crate::proto::varint::{self, ABORTED_SIZE};

/// A chunk in any state, for inspection: nothing is taken and nothing changes.
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
    header: SmbChunkHeader,
    state: ChunkState,
    index: u32,
    offset: u32,
}

/// What a chunk's bytes say about one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where its size field begins, in bytes from the payload's start.
    pub offset: usize,
    /// Bytes of the size field.
    pub header: usize,
    /// Bytes of content.
    pub size: usize,
    /// Whether it is whole.
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
    pub fn header(&self) -> SmbChunkHeader {
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
        copy_out(self.words, offset, to);
    }

    /// The fragments that the header counts; in a chunk being written, the last may be anything.
    pub fn fragments(&self) -> Fragments<'a> {
        Fragments { words: self.words, pos: 0, left: self.header.fragments }
    }
}

#[cfg(not(tracebuf_small))]
impl Fragments<'_> {
    /// Bytes of a chunk that is being written, its header included, up to the end of its last whole fragment.
    pub(super) fn finished_in(words: &[AtomicU32]) -> usize {
        let header = SmbChunkHeader::from_words([0, load(words, 1)]);
        let (words, left) = (words.get(2..).unwrap_or_default(), header.fragments.saturating_sub(1));
        let last = Fragments { words, pos: 0, left }.last();
        SmbChunkHeader::SIZE + last.map_or(0, |last| last.offset + last.header + last.size)
    }
}

impl Iterator for Fragments<'_> {
    type Item = Fragment;

    fn next(&mut self) -> Option<Fragment> {
        self.left = self.left.checked_sub(1)?;
        let offset = self.pos;
        let rest = (self.words.len() * 4).saturating_sub(offset);
        let mut field = [0; varint::MAX_LEN];
        let field = field.get_mut(..rest.min(varint::MAX_LEN))?;
        copy_out(self.words, offset, field);
        let (size, header) = varint::decode(field).unwrap_or((u64::MAX, field.len()));
        let (kind, size) = if size == u64::from(ABORTED_SIZE) {
            (FragmentKind::Aborted, 0)
        } else if size <= rest.saturating_sub(header) as u64 {
            (FragmentKind::Valid, size as usize)
        } else {
            (FragmentKind::Malformed, 0)
        };
        if kind != FragmentKind::Valid {
            self.left = 0;
        }
        self.pos = offset + header + size;
        Some(Fragment { offset, header, size, kind })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::atomics::Ordering;
    use crate::producer::atomics::{atomic_words, atomic_words_in};
    use crate::producer::chunk_header::HeaderFlags;
    use crate::producer::chunk_header::set_header;
    use crate::producer::layout::Division;
    use crate::producer::smb::SharedMemory;
    use std::vec::Vec;

    /// What each fragment of a payload is: where it begins, its size field, its content.
    fn all<const N: usize>(payload: [u8; N], left: u16) -> Vec<(usize, usize, usize, FragmentKind)> {
        let mut memory = [0u32; N];
        let bytes = &mut zerocopy::IntoBytes::as_mut_bytes(&mut memory)[..N];
        bytes.copy_from_slice(&payload);
        let words = atomic_words_in(bytes);
        let fragments = Fragments { words, pos: 0, left };
        fragments.map(|f| (f.offset, f.header, f.size, f.kind)).collect()
    }

    #[test]
    fn fragments_are_told_up_to_the_one_that_is_none() {
        use FragmentKind::*;
        let payload = [2, 7, 7, 0x83, 0x80, 0x80, 0, 7, 7, 7, 0, 1];
        let sound = [(0, 1, 2, Valid), (3, 4, 3, Valid), (10, 1, 0, Valid)];
        assert_eq!(all(payload, 3), sound);
        // The next one's content would begin after the payload, and after that there is nothing.
        assert_eq!(all(payload, 9)[3..], [(11, 1, 0, Malformed)]);
        assert_eq!(all([1, 7, 2, 7], 2), [(0, 1, 1, Valid), (2, 1, 0, Malformed)]);
        assert_eq!(all([1, 7, 1, 7], 9)[2..], [(4, 0, 0, Malformed)]);
        assert_eq!(all([1, 7, 0x81, 0x80], 2)[1..], [(2, 2, 0, Malformed)]);
    }

    #[test]
    fn a_size_of_ten_bytes_is_one_and_of_eleven_none() {
        use FragmentKind::*;
        let mut payload = [0x80; 12];
        (payload[0], payload[9], payload[10]) = (0x81, 0, 7);
        assert_eq!(all(payload, 1), [(0, 10, 1, Valid)]);
        payload[9] = 0x80;
        assert_eq!(all(payload, 2), [(0, 10, 0, Malformed)]);
    }

    #[test]
    fn a_packet_given_up_ends_a_chunk() {
        use FragmentKind::*;
        assert_eq!(all([1, 7, 0xFF, 0xFF, 0xFF, 0x7F, 1, 7], 3), [(0, 1, 1, Valid), (2, 4, 0, Aborted)]);
    }

    #[test]
    fn chunks_of_a_page_are_told_with_their_place_state_and_header() {
        let mut memory = [0u32; 2 * 64];
        let memory = SharedMemory::new(atomic_words(&mut memory), 256).unwrap();
        let division = Division::new(Layout::Four, 256);
        let header =
            SmbChunkHeader { writer_id: 3, chunk_id: 9, fragments: 1, flags: HeaderFlags::CONTINUES_ON_NEXT };
        for _ in 0..2 {
            division.acquire(memory.bitmap(1).unwrap());
        }
        set_header(memory.chunk(1, 1, &division), header);
        assert_eq!(memory.all_pages().map(|page| page.chunks().count()).collect::<Vec<_>>(), [0, 4]);
        let chunks: Vec<_> = memory.page(1).unwrap().chunks().collect();
        for (chunk, index) in chunks.iter().zip(0..) {
            // Pages of 256 bytes have 62 words for four chunks: 15 each, header included.
            assert_eq!((chunk.index(), chunk.offset(), chunk.payload_len()), (index, 8 + index * 60, 52));
            let taken = if index < 2 { ChunkState::BeingWritten } else { ChunkState::Free };
            assert_eq!(chunk.state(), taken);
            assert_eq!(chunk.header(), if index == 1 { header } else { SmbChunkHeader::default() });
            assert_eq!(chunk.fragments().count(), usize::from(index == 1));
        }
        memory.chunk(1, 1, &division)[2].store(0x0807_0201_u32.to_le(), Ordering::Relaxed);
        let mut payload = [0xEE; 60];
        chunks[1].fill(1, &mut payload);
        assert_eq!((&payload[..4], &payload[51..]), (&[2, 7, 8, 0][..], &[0; 9][..]));
    }
}
