//! Which process this is, across forks.
//!
//! A child has neither the drain thread nor a lock's other owner: whatever it did with its parent's session
//! would wait for ever or write into memory that nobody reads. So every fork counts a number up, in the child
//! alone, by a handler of `pthread_atfork`, and a session works only while the number is the one it began
//! with. Reading it is one load. A child made by the bare system call, past the C library, is not noticed.
#![allow(unsafe_code)]

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::process::id;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(unix)]
use signal_hook::low_level;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Begins to count, if nobody has.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(unix)]
        {
            // SAFETY: the handler is a function of the program, so it is there as long as the process; all it
            // does is one atomic addition, which POSIX allows between fork and exec. Without memory for the
            // handler there is an error, and forks go unnoticed.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    });
}

#[cfg(unix)]
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Forks between the first process that watched and this one.
#[inline]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// For each signal, the process that has a thread for it.
#[cfg(unix)]
static WATCHERS: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];

#[cfg(unix)]
fn watcher(signal: i32) -> Option<&'static AtomicU32> {
    WATCHERS.get(usize::try_from(signal).ok()?)
}

/// This process is going to have a thread for a signal.
#[cfg(unix)]
pub(crate) fn watches(signal: i32) {
    if let Some(watcher) = watcher(signal) {
        watcher.store(id(), Ordering::Relaxed);
    }
}

/// Has a signal that this process watches do what it does by default in children, which have its handler and not its
/// thread; unless they watch it themselves. For the rest of the program: its handler is never taken away either.
#[cfg(unix)]
pub(crate) fn default_in_children(signal: i32) -> io::Result<()> {
    let in_handler = move || {
        if watcher(signal).is_some_and(|watcher| watcher.load(Ordering::Relaxed) != id()) {
            // Of one that is unknown to it, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: signal handlers may load an atomic and ask for the process's id, and by its documentation may call
    // what emulates the default. Nothing here allocates, locks or panics.
    unsafe { low_level::register(signal, in_handler) }.map(|_| ())
}
