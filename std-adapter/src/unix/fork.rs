//! Forks, and what a child gets: neither its parent's locks nor its memory in files.
//!
//! A handler of `pthread_atfork` increments a number at every fork, in the child alone: what belongs to one process
//! compares it with the number that it began with, which is one load. The handler also closes the files by which the
//! parent holds locks, and copies memory in files that threads write into: what is being written during a fork is
//! completed in both. A child made past these handlers, by `_Fork` or the bare system call, is not noticed, nor is one
//! while handlers that were registered earlier run.
//!
//! What a child needs whole, such as the lock of the crate `signal-hook`, changes only in [`while_nobody_forks`]:
//! otherwise the child might wait for ever.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::page_size;

pub use crate::waits::join;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Begins to count, unless counting has begun.
pub fn watch() {
    is_watched();
}

/// The same; returns true if forks are noticed.
fn is_watched() -> bool {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    *WATCHED.get_or_init(|| {
        // SAFETY: the handlers are functions of the program. The one in the child only does atomic operations, closes
        // files, which POSIX allows between fork and exec, and maps them, which is a mere system call too. Without
        // memory for the handlers there is an error, and forks go unnoticed.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
    })
}

/// [`FORK`] for each thread that forks, and [`CHANGING`] while one changes what a child must get whole.
static BUSY: AtomicU32 = AtomicU32::new(0);
const CHANGING: u32 = 1;
const FORK: u32 = 2;

extern "C" fn before_fork() {
    // From here on no change begins.
    BUSY.fetch_add(FORK, Ordering::Relaxed);
    for _ in 0..1000 {
        if BUSY.load(Ordering::Acquire) & CHANGING == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // Not for ever: a signal handler that forks may have interrupted the thread that makes the change.
}

extern "C" fn in_parent() {
    BUSY.fetch_sub(FORK, Ordering::Relaxed);
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    BUSY.store(0, Ordering::Relaxed);
    // First, because it needs files that are closed next.
    copy_memory_of_parent();
    close_files_of_parent();
}

const NONE: i32 = -1;

/// Open files that children close. Those for which there is no place stay open there.
static FILES: [AtomicI32; 4096] = [const { AtomicI32::new(NONE) }; 4096];

/// Replaces one number by another, if it is there.
fn replace(old: i32, new: i32) {
    let exchange =
        |place: &AtomicI32| place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let _ = FILES.iter().any(exchange);
}

/// Runs in a child after a fork, where only what POSIX allows in signal handlers may be done.
fn close_files_of_parent() {
    for place in &FILES {
        let number = place.swap(NONE, Ordering::Relaxed);
        if number != NONE {
            // SAFETY: `close` may be called here, and nobody else in this process uses or closes the file.
            unsafe { libc::close(number) };
        }
    }
}

/// An open file or socket that is closed in children after a fork: otherwise a lock would last until they end, and the
/// peer of a connection would not see that this process has ended.
#[derive(Debug)]
pub struct ClosedInChildren {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    /// The fork count of the process that owns it.
    forks: u32,
}

impl ClosedInChildren {
    /// Closes the file in children forked from now on.
    pub fn new(file: impl Into<OwnedFd>) -> Self {
        watch();
        let (file, forks) = (file.into(), forks());
        replace(NONE, file.as_raw_fd());
        Self { file: Some(file), forks }
    }

    /// Returns true if this process owns the file. In others it is closed, and its number may be another file's.
    pub fn is_here(&self) -> bool {
        forks() == self.forks
    }

    /// The file, in the process that owns it.
    ///
    /// # Errors
    /// This is a child, where it is closed.
    pub fn get(&self) -> io::Result<&OwnedFd> {
        self.file.as_ref().filter(|_| self.is_here()).ok_or_else(|| Errno::BADF.into())
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        match self.file.take() {
            Some(file) if self.is_here() => replace(file.as_raw_fd(), NONE),
            file => drop(file.map(OwnedFd::into_raw_fd)),
        }
    }
}

/// Memory in a file, of which children get a copy.
struct Mapping {
    /// Its address; [`FREE`], or [`RESERVED`] while what follows is written.
    start: AtomicUsize,
    len: AtomicUsize,
    file: AtomicI32,
    /// Its offset in the file.
    offset: AtomicI64,
}

const FREE: usize = 0;
const RESERVED: usize = 1;

static MAPPINGS: [Mapping; 256] = [const {
    Mapping {
        start: AtomicUsize::new(FREE),
        len: AtomicUsize::new(0),
        file: AtomicI32::new(NONE),
        offset: AtomicI64::new(0),
    }
}; 256];

/// Memory in a file, of which children get a copy, until this is dropped.
#[derive(Debug)]
pub struct CopyInChildren {
    start: usize,
    /// The file from which they get it.
    _file: ClosedInChildren,
}

impl CopyInChildren {
    /// Gives children their own copy of `len` bytes of memory from `start` on, mapped from a place in a file, as they
    /// have of everything on the heap.
    ///
    /// # Errors
    /// There are 256 already, the memory lies farther into the file than the C library's call reaches, or forks are not
    /// noticed.
    pub fn of(start: usize, len: usize, file: &File, at: u64) -> io::Result<Self> {
        let file = ClosedInChildren::new(file.try_clone()?);
        if !is_watched() {
            return Err(io::Error::other("there was no memory to be told of forks"));
        }
        let number = file.get()?.as_raw_fd();
        let (start, len, offset) = from_a_page_on(start, len, at, page_size());
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let take = |place: &&Mapping| {
            place.start.compare_exchange(FREE, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = MAPPINGS.iter().find(take);
        let place =
            place.ok_or_else(|| io::Error::other("the process has shared memory in 256 files already"))?;
        place.len.store(len, Ordering::Relaxed);
        place.file.store(number, Ordering::Relaxed);
        #[allow(clippy::useless_conversion, reason = "it is shorter where addresses are")]
        place.offset.store(offset.into(), Ordering::Relaxed);
        place.start.store(start, Ordering::Release);
        Ok(Self { start, _file: file })
    }
}

impl Drop for CopyInChildren {
    fn drop(&mut self) {
        // Before the memory is given back and the file is closed.
        for place in &MAPPINGS {
            let _ = place.start.compare_exchange(self.start, FREE, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// The mapping for so many bytes of memory, from a place in a file on: in pages of the system's, which may be larger
/// than the file's.
fn from_a_page_on(start: usize, len: usize, at: u64, page: usize) -> (usize, usize, u64) {
    let before = start % page;
    (start - before, len + before, at.saturating_sub(before as u64))
}

/// Runs in a child after a fork.
fn copy_memory_of_parent() {
    for place in &MAPPINGS {
        let start = place.start.swap(FREE, Ordering::Acquire);
        if start == FREE || start == RESERVED {
            continue;
        }
        let (len, file) = (place.len.load(Ordering::Relaxed), place.file.load(Ordering::Relaxed));
        let offset = place.offset.load(Ordering::Relaxed) as libc::off_t;
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
        // Few of its pages will be written, if any.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let how = how | libc::MAP_NORESERVE;
        let memory = start as *mut libc::c_void;
        // SAFETY: a whole mapping of this process is replaced by another of the same part of the file, at the same
        // place and with the same access. Whatever has references to it, such as the event that this thread is within,
        // finds what was there or what the parent has written since, as words that are read one by one. There is no
        // other thread. The call takes no lock and no memory of the program's.
        let copy = unsafe { libc::mmap(memory, len, access, how, file, offset) };
        if copy == libc::MAP_FAILED {
            // SAFETY: as above. Touching it now ends the child, instead of writing into the parent's file.
            unsafe { libc::munmap(memory, len) };
        }
    }
}

/// Does work during which no other thread may fork. For one thread at a time, and not reentrant.
pub fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
    struct Changed;
    impl Drop for Changed {
        fn drop(&mut self) {
            BUSY.fetch_and(!CHANGING, Ordering::Release);
        }
    }
    while BUSY.compare_exchange_weak(0, CHANGING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        thread::yield_now();
    }
    let _changed = Changed;
    work()
}

/// Forks between the first process that watched and this one.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_begins_within_a_page_of_the_system_is_mapped_from_that_page_on() {
        for (page, at) in
            [4, 16, 64].into_iter().flat_map(|page| (0..40).map(move |at| (page << 10, at << 12)))
        {
            // Like a mapping: as far within a page in memory as in the file.
            let (memory, len) = ((17 << 16) + at % page, 3 << 12);
            let (start, whole, from) = from_a_page_on(memory, len, at as u64, page);
            assert_eq!((start % page, from as usize % page), (0, 0));
            assert_eq!((start + whole, from as usize + whole), (memory + len, at + len));
        }
    }
}
