//! Children after a fork.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A child that does this and ends without unwinding, with 0 if it was true, and after 10 s in any case.
pub fn fork(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child does what the test says, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: by default its signal ends the process.
        unsafe { libc::alarm(10) };
        let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    child
}

/// The status that a child has ended with.
pub fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}

/// Ends a child that has not ended.
pub fn assert_ended_by(child: i32, signal: i32) {
    // SAFETY: the child has not been waited for.
    unsafe { libc::kill(child, signal) };
    assert_eq!(end_of(child), Some(signal));
}

/// The signal that ended a child, if it was one.
pub fn end_of(child: i32) -> Option<i32> {
    let status = status_of(child);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

/// Returns true if `work` does in a child, within 10 s.
pub fn in_child(work: impl FnOnce() -> bool) -> bool {
    status_of(fork(work)) == 0
}
