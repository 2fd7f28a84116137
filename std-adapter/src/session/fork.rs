//! Which process this is, across forks.
//!
//! A child has neither the drain thread nor a lock's other owner: whatever it did with its parent's session
//! would wait for ever or write into memory that nobody reads. So every fork counts a number up, in the child
//! alone, by a handler of `pthread_atfork`, and a session works only while the number is the one it began
//! with. Reading it is one load. A child made by the bare system call, past the C library, is not noticed.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

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
