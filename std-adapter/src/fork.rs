//! Which process this is, across forks.
//!
//! A child has neither the drain thread nor a lock's other owner: whatever it did with its parent's session
//! would wait for ever or write into memory that nobody reads. So every fork counts a number up, in the child
//! alone, by a handler of `pthread_atfork`, and a session works only while the number is the one it began
//! with. Reading it is one load. The handler also closes the files by which the parent has locks, for a child
//! would have them too, and has memory that threads write into and that lies in a file be the child's own: who
//! forks within an event writes the rest of that event in both. A child made past these handlers, by `_Fork` or the
//! bare system call, is not noticed, nor is one in the handlers of those who registered theirs before.
//!
//! A child may have signals of its own to watch, for which the crate `signal-hook` has a lock, and layers for
//! `tracing`, of which there is a list. So nobody forks while a thread changes that crate's handlers or has
//! that list, or the child might wait for ever.
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

/// Begins to count, if nobody has.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions of the program, so they are there as long as the process; all that the one
        // in the child does is atomic operations, closing files, which POSIX allows between fork and exec, and mapping
        // them, a mere system call too. Without memory for the handlers there is an error, and forks go unnoticed.
        let error = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        IS_WATCHED.store(error == 0, Ordering::Relaxed);
    });
}

/// Whether forks are noticed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// [`FORK`] for each thread that forks, and [`CHANGING`] while one changes what a child is to have whole.
static BUSY: AtomicU32 = AtomicU32::new(0);
const CHANGING: u32 = 1;
const FORK: u32 = 2;

extern "C" fn before_fork() {
    // From here on nobody begins to.
    BUSY.fetch_add(FORK, Ordering::Relaxed);
    for _ in 0..1000 {
        if BUSY.load(Ordering::Acquire) & CHANGING == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // Not for ever: who forks in a signal's handler may have interrupted the thread that is at it.
}

extern "C" fn in_parent() {
    BUSY.fetch_sub(FORK, Ordering::Relaxed);
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    BUSY.store(0, Ordering::Relaxed);
    // First, for it takes files that are closed then.
    copy_memory_of_parent();
    close_files_of_parent();
}

const NONE: i32 = -1;

/// Open files that children close: a socket for each producer of a service, and some more. They keep more of them than
/// there are places for.
static FILES: [AtomicI32; 4096] = [const { AtomicI32::new(NONE) }; 4096];

/// Puts a number in the place of another, if there is one.
fn replace(old: i32, new: i32) {
    let exchange =
        |place: &AtomicI32| place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let _ = FILES.iter().any(exchange);
}

/// Has children close an open file of this process, which does neither use it in a child nor close it there.
pub(crate) fn close_in_children(file: RawFd) {
    replace(NONE, file);
}

/// Takes that back, before the file is closed here.
pub(crate) fn leave_to_children(file: RawFd) {
    replace(file, NONE);
}

/// In a child after a fork, where nothing but what POSIX allows in signal handlers may be done.
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
    /// Where it begins; [`NOWHERE`], or [`NOT_YET`] while what follows is written.
    start: AtomicUsize,
    len: AtomicUsize,
    file: AtomicI32,
    /// Its place in the file.
    offset: AtomicI64,
}

const NOWHERE: usize = 0;
const NOT_YET: usize = 1;

/// One for each session with shared memory in a file, until the last that has its producer is gone: the session, what it
/// was stopped with, its recorders, and the threads that recorded into it.
static MAPPINGS: [Mapping; 256] = [const {
    Mapping {
        start: AtomicUsize::new(NOWHERE),
        len: AtomicUsize::new(0),
        file: AtomicI32::new(NONE),
        offset: AtomicI64::new(0),
    }
}; 256];

/// Gives children a copy of their own of memory that is mapped from a file and that threads write into, as they have of
/// all that lies on the heap. The file stays open until that is taken back. From a page of the system's on, in memory and
/// in the file. An error if there is no place for one more, it lies farther in the file than the C library's call
/// reaches, or forks are not noticed.
pub(crate) fn copy_in_children(start: usize, len: usize, file: RawFd, offset: u64) -> io::Result<()> {
    watch();
    if !IS_WATCHED.load(Ordering::Relaxed) {
        return Err(io::Error::other("there was no memory to be told of forks"));
    }
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let take = |place: &&Mapping| {
        place.start.compare_exchange(NOWHERE, NOT_YET, Ordering::Acquire, Ordering::Relaxed).is_ok()
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
        let _ = place.start.compare_exchange(start, NOWHERE, Ordering::Release, Ordering::Relaxed);
    }
}

/// In a child after a fork.
fn copy_memory_of_parent() {
    for place in &MAPPINGS {
        let start = place.start.swap(NOWHERE, Ordering::Acquire);
        if start == NOWHERE || start == NOT_YET {
            continue;
        }
        let (len, file) = (place.len.load(Ordering::Relaxed), place.file.load(Ordering::Relaxed));
        let offset = place.offset.load(Ordering::Relaxed) as libc::off_t;
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
        // Few of its pages will be written, if any.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let how = how | libc::MAP_NORESERVE;
        let memory = start as *mut libc::c_void;
        // SAFETY: all of a mapping of this process gives way to another of the same part of the file at the same place,
        // with the same access, so that whoever has references to it, such as the event that this thread is within,
        // goes on there: it finds what was there or what the parent has written since, as words that are read one by
        // one. There is no other thread. The call takes no lock and no memory of the program's.
        let copy = unsafe { libc::mmap(memory, len, access, how, file, offset) };
        if copy == libc::MAP_FAILED {
            // SAFETY: as above; nobody reads a word of it, for who touches it ends here, and not in the parent's trace.
            unsafe { libc::munmap(memory, len) };
        }
    }
}

/// Does what no fork of another thread is to come into. For one thread at a time, and not from within itself.
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

/// For each signal, how many watch it in which process: that one's id is the upper half.
static WATCHERS: [AtomicU64; 65] = [const { AtomicU64::new(0) }; 65];

fn watchers(signal: i32) -> Option<&'static AtomicU64> {
    WATCHERS.get(usize::try_from(signal).ok()?)
}

/// How many are in this process. What a child has of its parent is none.
fn count_here(watchers: u64) -> u32 {
    if watchers >> 32 == u64::from(id()) { watchers as u32 } else { 0 }
}

/// An error if one of these signals cannot be caught.
pub(crate) fn check_signals(signals: &[i32]) -> io::Result<()> {
    // With others `signal-hook` panics; below 128 what is no signal is an error of the system's. That of memory which is
    // not there any more it allows, but who goes on from there comes there again.
    let can_be = |signal: &i32| (1..128).contains(signal) && !FORBIDDEN.contains(signal) && *signal != SIGBUS;
    match signals.iter().find(|signal| !can_be(signal)) {
        Some(signal) => {
            let message = format!("signal {signal} cannot be caught");
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        None => Ok(()),
    }
}

/// This process notes down some signals, and has, or is going to have, a thread for them; until it is dropped.
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

/// For each signal the handler that was made last by the function below.
static ENDS: Mutex<BTreeMap<i32, SigId>> = Mutex::new(BTreeMap::new());

/// Has a signal do what it does by default where none of this process watches it: in children, which have the handler
/// and not the thread, and when the last that watched it is gone. For the rest of the program: the system's handler is
/// never taken away, and without this it would do nothing.
///
/// To be called when a recorder's own handler is there: what that notes down too late for its thread is found here.
pub(crate) fn default_unless_watched(signal: i32) -> io::Result<()> {
    while_nobody_forks(|| replace_default(signal))
}

fn replace_default(signal: i32) -> io::Result<()> {
    // Not waited for: in a child, a thread of the parent's may have had it. What is made then, or by two threads at
    // once, stays.
    let ends = ENDS.try_lock();
    let in_handler = move || {
        if watchers(signal).is_some_and(|watchers| count_here(watchers.load(Ordering::Relaxed)) == 0) {
            // Of one that is unknown to it, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: signal handlers may load an atomic and ask for the process's id, and by its documentation may call
    // what emulates the default. Nothing here allocates, locks or panics.
    let this = unsafe { low_level::register(signal, in_handler) }?;
    if let Some(before) = ends.ok().and_then(|mut ends| ends.insert(signal, this)) {
        // This one, which comes after those of all recorders, does for both.
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

    /// Whether this was true in a child, which has 10 s for it.
    pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
        status_of(fork(work)) == 0
    }
}
