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

use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::process::id;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{FORBIDDEN, SIGBUS};
use signal_hook::{SigId, low_level};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Begins to count, unless counting has begun.
pub(crate) fn watch() {
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
pub(crate) fn close_in_children(file: RawFd) {
    replace(NONE, file);
}

/// Takes that back, before the file is closed here.
pub(crate) fn leave_to_children(file: RawFd) {
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
pub(crate) fn copy_in_children(start: usize, len: usize, file: RawFd, offset: u64) -> io::Result<()> {
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
pub(crate) fn leave_memory_to_children(start: usize) {
    for place in &MAPPINGS {
        let _ = place.start.compare_exchange(start, FREE, Ordering::Release, Ordering::Relaxed);
    }
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
pub(crate) fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
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
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// For each signal, how many watch it, and in which process: its id is the upper half.
static WATCHERS: [AtomicU64; 65] = [const { AtomicU64::new(0) }; 65];

fn watchers(signal: i32) -> Option<&'static AtomicU64> {
    WATCHERS.get(usize::try_from(signal).ok()?)
}

/// How many watch in this process. Those that a child has from its parent do not count.
fn count_here(watchers: u64) -> u32 {
    if watchers >> 32 == u64::from(id()) { watchers as u32 } else { 0 }
}

/// Fails if one of these signals cannot be caught.
pub(crate) fn check_signals(signals: &[i32]) -> io::Result<()> {
    // With others, `signal-hook` panics; a number below 128 that is no signal is an error of the system's.
    // `signal-hook` allows SIGBUS, raised by memory that is gone, but a program that returns from it would raise it
    // again.
    let can_be = |signal: &i32| (1..128).contains(signal) && !FORBIDDEN.contains(signal) && *signal != SIGBUS;
    match signals.iter().find(|signal| !can_be(signal)) {
        Some(signal) => {
            let message = format!("signal {signal} cannot be caught");
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        None => Ok(()),
    }
}

/// Some signals that this process notes down, and for which it has or will have a thread, until this is dropped.
pub(crate) struct Watch(Vec<i32>);

impl Watch {
    pub(crate) fn of(signals: &[i32]) -> Self {
        let watch = Self(signals.to_owned());
        watch.count(|count| count + 1);
        watch
    }

    fn count(&self, next: impl Fn(u32) -> u32) {
        let next = |watchers| Some(u64::from(id()) << 32 | u64::from(next(count_here(watchers))));
        for watchers in self.0.iter().filter_map(|signal| watchers(*signal)) {
            let _ = watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.count(|count| count.saturating_sub(1));
    }
}

/// For each signal, the handler that the function below made last.
static ENDS: Mutex<BTreeMap<i32, SigId>> = Mutex::new(BTreeMap::new());

/// Makes a signal take its default action where nothing in this process watches it: in children, which have the handler
/// but not the thread, and when the last watcher is gone. For the rest of the program: the system's handler is never
/// taken away, and without this the signal would do nothing.
///
/// To be called when a recorder's own handler is there: what that notes down too late for its thread is found here.
pub(crate) fn default_unless_watched(signal: i32) -> io::Result<()> {
    while_nobody_forks(|| replace_default(signal))
}

fn replace_default(signal: i32) -> io::Result<()> {
    // Does not wait: in a child, one of the parent's threads may have held it. A handler that is made then, or by two
    // threads at once, stays.
    let ends = ENDS.try_lock();
    let in_handler = move || {
        if watchers(signal).is_some_and(|watchers| count_here(watchers.load(Ordering::Relaxed)) == 0) {
            // With a signal that it does not know, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: signal handlers may load an atomic and ask for the process's id, and the documentation lets them call
    // what emulates the default. Nothing here allocates, locks or panics.
    let this = unsafe { low_level::register(signal, in_handler) }?;
    if let Some(before) = ends.ok().and_then(|mut ends| ends.insert(signal, this)) {
        // The new one, which comes after those of all recorders, serves for both.
        low_level::unregister(before);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::children::{fork, status_of};

    #[test]
    fn a_child_may_watch_signals_though_other_threads_were_about_to() {
        watch();
        let (begun, forked) = (std::sync::Barrier::new(3), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begun.wait();
                    while !forked.load(Ordering::Relaxed) {
                        default_unless_watched(libc::SIGWINCH).expect("a handler");
                    }
                });
            }
            begun.wait();
            let mut children = (0..20).map(|_| in_child(|| default_unless_watched(libc::SIGURG).is_ok()));
            let done = children.all(|done| done);
            forked.store(true, Ordering::Relaxed);
            assert!(done);
        });
    }

    /// Whether `work` returns true in a child within 10 s.
    pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
        status_of(fork(work)) == 0
    }
}
