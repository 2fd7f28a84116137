//! Memory that the operating system hands out page by page, as it is used.

use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::fork;

/// A zeroed region of anonymous pages, mapped lazily: memory for something large that may stay empty.
///
/// A page (4 KiB on most systems) costs physical memory from the first write to it. Except on Windows no swap space is
/// reserved: on a system that hands out more than it has, a write may end the process. The address stays the same when
/// the value moves.
#[derive(Debug)]
pub struct PagedMemory {
    map: MmapMut,
}

impl PagedMemory {
    /// Maps `len` bytes, all zero, by one system call.
    ///
    /// # Errors
    /// No room for `len` bytes of address space, or `len` exceeds `isize::MAX`.
    pub fn new(len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Self { map })
    }

    /// Asks the system for pages of 2 MiB, if it has them: for memory that is written from one end to the other. Waits
    /// for the system at first writes become one in 512, which saves two thirds of the cost of filling the memory.
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

/// A part of a file as memory that threads write into by atomic operations. A child after a fork has its own copy.
#[derive(Debug)]
pub struct WordsInFile {
    map: MmapRaw,
    _copies: fork::CopyInChildren,
}

impl WordsInFile {
    /// Maps `len` bytes of a file from this place on, both multiples of 4 KiB. Their blocks must be allocated: touching
    /// a page for which the disk has no room ends the process, and so does one beyond the file's end.
    ///
    /// # Errors
    /// Those of the system, or that it has no memory that is copied by a fork, as on Windows.
    pub fn new(file: &File, at: u64, len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().offset(at).len(len).map_raw(file)?;
        let copies = fork::CopyInChildren::of(map.as_ptr() as usize, len, file, at)?;
        Ok(Self { map, _copies: copies })
    }

    /// Its bytes from one place to another, as words of four bytes; none if they are not all there.
    #[allow(unsafe_code)]
    pub fn words(&self, from: usize) -> &[AtomicU32] {
        let Some(len) = self.map.len().checked_sub(from).filter(|_| from.is_multiple_of(4)) else {
            return &[];
        };
        // SAFETY: so many bytes are mapped from there on, readable and writable while `self` lives, and aligned: the
        // mapping begins with a page. This process touches them only by atomic operations, each byte by those of one
        // width, because callers split the part between the two calls. Another program that writes into the file does
        // the same as one that writes into this process's memory.
        unsafe { slice::from_raw_parts(self.map.as_ptr().wrapping_add(from).cast(), len / 4) }
    }

    /// Its first bytes up to a place, as words of eight bytes.
    #[allow(unsafe_code)]
    pub fn long_words(&self, to: usize) -> &[AtomicU64] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.map.as_ptr().cast(), to.min(self.map.len()) / 8) }
    }
}
