//! The shared memory buffer: pages in memory that the caller provides.

use super::atomics::AtomicU32;
use super::layout::{Division, Layout};
use super::page::Page;
use core::fmt;

/// A shared memory buffer in Perfetto's ABI: pages of equal size in memory that the caller provides.
///
/// There, pages are a multiple of 4 KiB, up to 64 KiB; here they may also be smaller, for microcontrollers. Give a copy
/// of this to each side. A buffer starts out as zeros.
///
/// ```
/// use tracebuf::producer::{SharedMemory, atomic_words};
///
/// let mut memory = vec![0u32; 16 * 1024];
/// let smb = SharedMemory::new(atomic_words(&mut memory), 4096)?;
/// assert_eq!(smb.pages(), 16);
/// # Ok::<(), tracebuf::producer::MemoryError>(())
/// ```
#[derive(Clone, Copy)]
pub struct SharedMemory<'a> {
    words: &'a [AtomicU32],
    page_words: u32,
    pages: u32,
}

/// Why memory cannot be a shared memory buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MemoryError {
    /// The page size is not a multiple of 4 between [`SharedMemory::MIN_PAGE`] and
    /// [`SharedMemory::MAX_PAGE`].
    PageSize,
    /// There is no room for a page.
    NoPage,
    /// There is room for more than [`SharedMemory::MAX_PAGES`].
    TooManyPages,
    /// The layout would make chunks smaller than [`SharedMemory::MIN_CHUNK`].
    ChunkSize,
    /// The storage has fewer entries than the buffer has chunks; [`SharedMemory::chunks`] tells how many.
    Storage,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryError::PageSize => "the page size is not a multiple of 4 from 64 to 65536",
            MemoryError::NoPage => "the memory has no room for a page",
            MemoryError::TooManyPages => "the memory has room for more than 65536 pages",
            MemoryError::ChunkSize => "the chunks would be smaller than 32 bytes",
            MemoryError::Storage => "the storage has fewer entries than the buffer has chunks",
        })
    }
}

impl core::error::Error for MemoryError {}

impl<'a> SharedMemory<'a> {
    /// The smallest page, in bytes: the header and one chunk.
    pub const MIN_PAGE: u32 = 64;
    /// The largest page, in bytes, of the ABI.
    pub const MAX_PAGE: u32 = 65_536;
    /// The most pages; memory that has more is refused.
    pub const MAX_PAGES: usize = 65_536;
    /// The smallest chunk that a writer may be given, in bytes with its header.
    pub const MIN_CHUNK: u32 = 32;

    /// A buffer over `words`, in pages of `page_size` bytes. What does not fill a page is left unused.
    ///
    /// # Errors
    /// [`MemoryError::PageSize`], [`MemoryError::NoPage`] or [`MemoryError::TooManyPages`].
    pub const fn new(words: &'a [AtomicU32], page_size: u32) -> Result<Self, MemoryError> {
        if page_size < Self::MIN_PAGE || page_size > Self::MAX_PAGE || !page_size.is_multiple_of(4) {
            return Err(MemoryError::PageSize);
        }
        let page_words = page_size / 4;
        match words.len().checked_div(page_words as usize) {
            Some(pages @ 1..=Self::MAX_PAGES) => Ok(SharedMemory { words, page_words, pages: pages as u32 }),
            Some(1..) => Err(MemoryError::TooManyPages),
            _ => Err(MemoryError::NoPage),
        }
    }

    /// How many pages there are.
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Bytes of a page.
    pub const fn page_size(&self) -> u32 {
        self.page_words * 4
    }

    /// Bytes of all pages.
    pub fn size(&self) -> usize {
        self.pages as usize * self.page_words as usize * 4
    }

    /// A page, or `None` beyond the last.
    #[inline]
    pub fn page(&self, page: u32) -> Option<Page<'a>> {
        if page >= self.pages {
            return None;
        }
        let words = self.page_words as usize;
        let start = page as usize * words;
        Some(Page::new(self.words.get(start..)?.get(..words)?))
    }

    /// All pages, in address order.
    pub fn all_pages(&self) -> impl Iterator<Item = Page<'a>> + use<'a> {
        let memory = *self;
        (0..memory.pages()).filter_map(move |index| memory.page(index))
    }

    /// The first word of a page.
    pub(crate) fn bitmap(&self, page: u32) -> Option<&'a AtomicU32> {
        self.words.get(page.wrapping_mul(self.page_words) as usize)
    }

    /// Header and payload of a chunk; empty when there is no such chunk.
    pub(crate) fn chunk(&self, page: u32, chunk: u32, division: &Division) -> &'a [AtomicU32] {
        let start = page as usize * self.page_words as usize + 2 + chunk as usize * division.chunk_words;
        self.words.get(start..start.wrapping_add(division.chunk_words)).unwrap_or_default()
    }

    /// Chunks in the whole buffer when every page has this layout.
    pub const fn chunks(&self, layout: Layout) -> u32 {
        self.pages * layout.chunks()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::atomics::atomic_words;

    #[test]
    fn page_sizes_outside_the_abi_and_memory_without_a_page_are_refused() {
        let mut memory = [0u32; 1024];
        let words = atomic_words(&mut memory);
        for bad in [0, 4, 60, 66, 65_540, u32::MAX] {
            assert_eq!(SharedMemory::new(words, bad).err(), Some(MemoryError::PageSize), "{bad}");
        }
        assert_eq!(SharedMemory::new(words, 8192).err(), Some(MemoryError::NoPage));
        assert_eq!(SharedMemory::new(words, 4096).unwrap().pages(), 1);
        assert_eq!(SharedMemory::new(words, 72).unwrap().pages(), 56);
    }

    #[test]
    fn memory_has_65_536_pages_and_no_more() {
        let mut memory = std::vec![0u32; (SharedMemory::MAX_PAGES + 1) * 16];
        let words = atomic_words(&mut memory);
        let most = words.get(..words.len() - 1).unwrap();
        assert_eq!(SharedMemory::new(most, 64).unwrap().pages(), 65_536);
        assert_eq!(SharedMemory::new(words, 64).err(), Some(MemoryError::TooManyPages));
    }

    #[test]
    fn a_page_beyond_the_last_does_not_exist() {
        let mut memory = [0u32; 40];
        let smb = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
        assert_eq!((smb.pages(), smb.size()), (2, 128));
        assert!(smb.page(1).is_some() && smb.page(2).is_none() && smb.page(u32::MAX).is_none());
    }
}
