//! Memory that two processes share: [`SharedWords`].
#![allow(unsafe_code, reason = "a slice of mapped memory")]

use std::io;
use std::ops::RangeBounds;
use std::os::fd::OwnedFd;
use std::slice;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use tracebuf::producer::AtomicU32;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The kind of file system that files of huge pages are in.
const HUGE_PAGES: u32 = 0x9584_58F6;

/// Words of memory shared with another process.
///
/// It was cut to its length before anything else had it, and sealed against being cut again: a process that could do
/// that could end the other one, by SIGBUS.
///
/// ```
/// use tracebuf_sockets::SharedWords;
///
/// let (words, file) = SharedWords::new(8192)?; // the file is for the other process
/// let theirs = SharedWords::of(&file, 4096..=8192)?;
/// words.as_ref()[7].store(1, std::sync::atomic::Ordering::Relaxed);
/// assert_eq!(theirs.as_ref()[7].load(std::sync::atomic::Ordering::Relaxed), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedWords(MmapRaw);

impl SharedWords {
    /// This many bytes, zeroed, and the file for the other process. They cost memory once they are touched.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tracebuf", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, bytes, MmapOptions::new())?, file))
    }

    /// The words of a file that came from another process, which is not trusted, and has one of these sizes.
    ///
    /// # Errors
    /// It has another one, or can be cut short.
    pub fn of(file: &OwnedFd, sizes: impl RangeBounds<usize>) -> io::Result<Self> {
        Self::map(file, Self::size_of(file, sizes)?, MmapOptions::new())
    }

    /// The same with all pages touched, so that no recording thread has to wait until the system has one.
    ///
    /// # Errors
    /// As above.
    pub fn touched(file: &OwnedFd, sizes: impl RangeBounds<usize>) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        options.populate();
        Self::map(file, Self::size_of(file, sizes)?, options)
    }

    fn size_of(file: &OwnedFd, sizes: impl RangeBounds<usize>) -> io::Result<usize> {
        // A file that cannot be sealed is an error here. Of huge pages there may be none left when one is touched, which
        // is a SIGBUS too: its owner can punch holes into the file.
        let is_sealed = fcntl_get_seals(file)?.contains(SEALS) && fstatfs(file)?.f_type as u32 != HUGE_PAGES;
        let bytes = usize::try_from(fstat(file)?.st_size)
            .ok()
            .filter(|bytes| is_sealed && *bytes > 0 && sizes.contains(bytes));
        bytes.ok_or_else(|| {
            let what = "its shared memory is not as long as it says, or can be cut short";
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    fn map(file: &OwnedFd, bytes: usize, mut options: MmapOptions) -> io::Result<Self> {
        options.len(bytes).map_raw(file).map(Self)
    }
}

impl AsRef<[AtomicU32]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU32] {
        let (start, bytes) = (self.0.as_ptr().cast(), self.0.len());
        // SAFETY: this many bytes are mapped, starting at a page, for as long as `self` lives, and cannot be cut short.
        // Anything that another process may do to them may be seen through atomics.
        unsafe { slice::from_raw_parts(start, bytes / size_of::<AtomicU32>()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_see_what_one_writes() {
        let (one, file) = SharedWords::new(8192).expect("memory");
        let others = [SharedWords::of(&file, ..), SharedWords::touched(&file, 8192..=8192)];
        drop(file);
        one.as_ref()[2047].store(7, Ordering::Relaxed);
        for other in others {
            let other = other.expect("the same");
            assert_eq!(other.as_ref()[2047].load(Ordering::Relaxed), 7);
            assert_eq!((other.as_ref().len(), other.as_ref()[0].load(Ordering::Relaxed)), (2048, 0));
        }
    }

    #[test]
    fn nobody_cuts_it_short_and_none_that_can_be_is_taken() {
        let (_words, file) = SharedWords::new(8192).expect("memory");
        assert!(ftruncate(&file, 4096).is_err());
        assert!(SharedWords::of(&file, ..8192).is_err(), "of another length");
        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&unsealed, 8192).expect("nobody has it");
        assert!(SharedWords::of(&unsealed, ..).is_err());
        fcntl_add_seals(&unsealed, SealFlags::SHRINK).expect("it may be sealed");
        assert!(SharedWords::of(&unsealed, ..).is_err(), "it can still grow");
        // A system may have no huge pages, or none for this process.
        if let Ok(huge) = memfd_create("test", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) {
            ftruncate(&huge, 2 << 20).expect("it takes none yet");
            fcntl_add_seals(&huge, SEALS).expect("it may be sealed");
            let error = SharedWords::of(&huge, ..).expect_err("of huge pages");
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
        }
        let null = std::fs::File::open("/dev/null").expect("it is there");
        assert!(SharedWords::of(&null.into(), ..).is_err());
        let empty = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("a file");
        fcntl_add_seals(&empty, SEALS).expect("it may be sealed");
        assert!(SharedWords::of(&empty, ..).is_err(), "of no length");
    }
}
