//! Which process this is, across forks.
//!
//! A child has neither the drain thread nor the threads that hold locks: whatever it did with its parent's session
//! would wait for ever or write into memory that nobody reads. So a handler of `pthread_atfork` increments a number at
//! every fork, in the child alone, and a session works only while the number is the one it began with. Reading it is
//! one load. The handler also closes the files by which the parent holds locks, because the child would hold them too,
//! and gives the child its own copy of memory that threads write into and that lies in a file: an event that is being
//! written during a fork is completed in both. A child made past these handlers, by `_Fork` or the bare system call, is
//! not noticed, nor is one while handlers that were registered earlier run.
//!
//! A child may watch signals of its own, for which the crate `signal-hook` has a lock, and have layers for `tracing`,
//! of which there is a list. So no fork happens while another thread changes that crate's handlers or holds that list;
//! otherwise the child might wait for ever.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::param::page_size;

use super::closed_in_children::ClosedInChildren;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Begins to count, unless counting has begun.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions of the program, so they exist as long as the process. The one in the child
        // only does atomic operations, closes files, which POSIX allows between fork and exec, and maps them, which is
        // a mere system call too. Without memory for the handlers there is an error, and forks go unnoticed.
        let error = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        IS_WATCHED.store(error == 0, Ordering::Relaxed);
    });
}

/// Whether forks are noticed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

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

/// Open files that children close: a socket for each producer of a service, and some more. Files for which there is no
/// place stay open in children.
static FILES: [AtomicI32; 4096] = [const { AtomicI32::new(NONE) }; 4096];

/// Replaces one number by another, if it is there.
fn replace(old: i32, new: i32) {
    let exchange =
        |place: &AtomicI32| place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let _ = FILES.iter().any(exchange);
}

/// Makes children close an open file of this process, which itself neither uses nor closes it in a child.
pub fn close_in_children(file: RawFd) {
    replace(NONE, file);
}

/// Takes that back, before the file is closed here.
pub fn leave_to_children(file: RawFd) {
    replace(file, NONE);
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

/// Memory in a file, of which children get a copy.
struct Mapping {
    /// Where it begins; [`FREE`], or [`RESERVED`] while what follows is written.
    start: AtomicUsize,
    len: AtomicUsize,
    file: AtomicI32,
    /// Its offset in the file.
    offset: AtomicI64,
}

const FREE: usize = 0;
const RESERVED: usize = 1;

/// One for each session with shared memory in a file, until the last user of its producer is gone: the session, what it
/// was stopped with, its recorders, and the threads that recorded into it.
static MAPPINGS: [Mapping; 256] = [const {
    Mapping {
        start: AtomicUsize::new(FREE),
        len: AtomicUsize::new(0),
        file: AtomicI32::new(NONE),
        offset: AtomicI64::new(0),
    }
}; 256];

/// Gives children their own copy of memory that is mapped from a file and that threads write into, as they have of
/// everything on the heap. The file stays open until that is taken back. `start` and `offset` are multiples of the
/// system's page size. Fails if there is no place for one more, if the memory lies farther into the file than the C
/// library's call reaches, or if forks are not noticed.
fn copy_in_children(start: usize, len: usize, file: RawFd, offset: u64) -> io::Result<()> {
    watch();
    if !IS_WATCHED.load(Ordering::Relaxed) {
        return Err(io::Error::other("there was no memory to be told of forks"));
    }
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let take = |place: &&Mapping| {
        place.start.compare_exchange(FREE, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let place = MAPPINGS.iter().find(take);
    let place =
        place.ok_or_else(|| io::Error::other("the process has shared memory in 256 files already"))?;
    place.len.store(len, Ordering::Relaxed);
    place.file.store(file, Ordering::Relaxed);
    #[allow(clippy::useless_conversion, reason = "it is shorter where addresses are")]
    place.offset.store(offset.into(), Ordering::Relaxed);
    place.start.store(start, Ordering::Release);
    Ok(())
}

/// Takes that back, before the memory is given back or the file is closed.
fn leave_memory_to_children(start: usize) {
    for place in &MAPPINGS {
        let _ = place.start.compare_exchange(start, FREE, Ordering::Release, Ordering::Relaxed);
    }
}

/// Memory in a file, of which children get a copy, until this is dropped.
#[derive(Debug)]
pub struct CopyInChildren {
    start: usize,
    /// The file from which they get it.
    _file: ClosedInChildren,
}

impl CopyInChildren {
    /// For `len` bytes of memory from `start` on, mapped from a place in a file.
    ///
    /// # Errors
    /// There is no place for one more, the memory lies farther into the file than the C library's call reaches, or
    /// forks are not noticed.
    pub fn of(start: usize, len: usize, file: &File, at: u64) -> io::Result<Self> {
        let file = ClosedInChildren::new(file.try_clone()?);
        let (start, len, at) = from_a_page_on(start, len, at, page_size());
        copy_in_children(start, len, file.get()?.as_raw_fd(), at)?;
        Ok(Self { start, _file: file })
    }
}

impl Drop for CopyInChildren {
    fn drop(&mut self) {
        leave_memory_to_children(self.start);
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
        // place and with the same access, so that whatever has references to it, such as the event that this thread is
        // within, goes on there: it finds what was there or what the parent has written since, as words that are read
        // one by one. There is no other thread. The call takes no lock and no memory of the program's.
        let copy = unsafe { libc::mmap(memory, len, access, how, file, offset) };
        if copy == libc::MAP_FAILED {
            // SAFETY: as above; nothing reads a word of it: touching it ends the child, instead of writing into the
            // parent's trace.
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

/// Waits for a thread's end, unless it is this one: the last owner of a thing may be what its own thread belongs to.
pub fn join(thread: thread::JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn a_part_that_begins_within_a_page_of_the_system_is_mapped_from_that_page_on() {
        const PAGE: u64 = 4096;
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for at in (0..40).map(|pages| pages * PAGE) {
                // Like a mapping: as far within a page in memory as in the file.
                let (memory, len) = ((17 << 16) + (at as usize % page), 3 << 12);
                let (start, whole, from) = from_a_page_on(memory, len, at, page);
                assert_eq!((start % page, from as usize % page), (0, 0));
                assert_eq!((start + whole, from + whole as u64), (memory + len, at + len as u64));
            }
        }
    }

    /// Returns true if `work` does in a child. One that hangs ends with SIGALRM after 10 s.
    pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only does what the tests here are about, and ends without unwinding or exit handlers.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: neither call has conditions.
            unsafe {
                libc::alarm(10);
                libc::_exit(i32::from(!work()))
            }
        }
        let mut status = 0;
        // SAFETY: the pointer is to a local number.
        unsafe { libc::waitpid(child, &mut status, 0) == child && status == 0 }
    }
}
