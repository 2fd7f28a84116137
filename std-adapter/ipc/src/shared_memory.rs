//! Memory that two processes share, and the service's endpoint over it.
#![allow(unsafe_code, reason = "a slice of mapped memory")]

use std::io;
use std::os::fd::OwnedFd;
use std::slice;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use self_cell::self_cell;
use tracebuf::producer::{AtomicU32, MemoryError};
use tracebuf::service::ProducerIdentity;

use tracebuf_session::parts::{Endpoint, endpoint, shared_memory};

/// Words of memory shared with another process.
///
/// It was cut to its length before anything else had it, and sealed against being cut again: a process that could do
/// that could end the other one, by SIGBUS.
pub(crate) struct SharedWords(MmapRaw);

impl SharedWords {
    /// This many bytes, zeroed, and the file for the other process. They cost memory once they are touched.
    pub(crate) fn new(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tracebuf", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, bytes, MmapOptions::new())?, file))
    }

    /// The words of a file that came from another process, which is not trusted. All pages are touched here, so that no
    /// recording thread has to wait until the system has one.
    pub(crate) fn of(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        // A file that cannot be sealed is an error here.
        let is_sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        if !is_sealed || u64::try_from(fstat(file)?.st_size).ok() != Some(bytes as u64) {
            let what = "its shared memory is not as long as it says, or can be cut short";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut options = MmapOptions::new();
        options.populate();
        Self::map(file, bytes, options)
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

self_cell!(
    struct WordsAndEndpoint {
        owner: SharedWords,
        #[covariant]
        dependent: Endpoint,
    }
);

/// An endpoint with its shared memory.
pub(crate) struct SharedEndpoint(WordsAndEndpoint);

impl SharedEndpoint {
    /// An endpoint for a producer that may write to this many buffers.
    pub(crate) fn over(words: SharedWords, identity: ProducerIdentity, buffers: u16) -> io::Result<Self> {
        let both = WordsAndEndpoint::try_new(words, |words| {
            Ok::<_, MemoryError>(endpoint(shared_memory(words.as_ref())?, identity, buffers))
        });
        both.map(Self).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut Endpoint<'_>) -> R) -> R {
        self.0.with_dependent_mut(|_, endpoint| act(endpoint))
    }

    pub(crate) fn get(&self) -> &Endpoint<'_> {
        self.0.borrow_dependent()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_see_what_one_writes() {
        let (one, file) = SharedWords::new(8192).expect("memory");
        let other = SharedWords::of(&file, 8192).expect("the same");
        drop(file);
        one.as_ref()[2047].store(7, Ordering::Relaxed);
        assert_eq!(other.as_ref()[2047].load(Ordering::Relaxed), 7);
        assert_eq!((one.as_ref().len(), other.as_ref()[0].load(Ordering::Relaxed)), (2048, 0));
    }

    #[test]
    fn nobody_cuts_it_short_and_none_that_can_be_is_taken() {
        let (_words, file) = SharedWords::new(8192).expect("memory");
        assert!(ftruncate(&file, 4096).is_err());
        assert!(SharedWords::of(&file, 4096).is_err(), "of another length");
        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&unsealed, 8192).expect("nobody has it");
        assert!(SharedWords::of(&unsealed, 8192).is_err());
        let null = std::fs::File::open("/dev/null").expect("it is there");
        assert!(SharedWords::of(&null.into(), 8192).is_err());
    }
}
