//! Which process this is, across forks.
//!
//! A child has neither the drain thread nor a lock's other owner: whatever it did with its parent's session
//! would wait for ever or write into memory that nobody reads. So every fork counts a number up, in the child
//! alone, by a handler of `pthread_atfork`, and a session works only while the number is the one it began
//! with. Reading it is one load. The handler also closes the files by which the parent has locks, for a child
//! would have them too. A child made by the bare system call, past the C library, is not noticed.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::process::id;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use signal_hook::consts::FORBIDDEN;
use signal_hook::{SigId, low_level};

use crate::region_file::close_locks_of_parent;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Begins to count, if nobody has.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of the program, so it is there as long as the process; all it
        // does is atomic operations and closing files, which POSIX allows between fork and exec. Without memory
        // for the handler there is an error, and forks go unnoticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    close_locks_of_parent();
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
    // With others `signal-hook` panics; below 128 what is no signal is an error of the system's.
    let can_be = |signal: &i32| (1..128).contains(signal) && !FORBIDDEN.contains(signal);
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
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Whether this was true in a child, which has 10 s for it.
    pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child does what the test says, and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: by default its signal ends the process.
            unsafe { libc::alarm(10) };
            let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!done)) };
        }
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status == 0
    }
}
