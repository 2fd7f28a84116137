//! The signal that ends a program whose file has reached the limit of its process (`ulimit -f`).
//!
//! A traced program must not end because its trace is too long. The signal of a write goes to the thread that writes,
//! so it is blocked there, and the write fails with an error; what the program does about the signal elsewhere stays
//! its own.
#![cfg_attr(unix, allow(unsafe_code))]

#[cfg(unix)]
use std::mem::MaybeUninit;

#[cfg(unix)]
fn only_it() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes the set, the second changes it; both cannot fail with a signal that exists.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        set.assume_init()
    }
}

/// Blocks it in this thread, which is the caller's own; returns true if it was blocked before.
#[cfg(unix)]
pub(crate) fn block() -> bool {
    let mut before = MaybeUninit::uninit();
    // SAFETY: changes the mask of this thread alone, and fills `before` if it succeeds, as it does with a valid request.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &only_it(), before.as_mut_ptr()) == 0
            && libc::sigismember(before.as_ptr(), libc::SIGXFSZ) == 1
    }
}

/// On this system a write beyond a limit is an error and nothing else.
#[cfg(not(unix))]
pub(crate) fn block() -> bool {
    true
}

/// Writes on somebody else's thread, whose mask is then as it was.
pub(crate) fn blocked<T>(write: impl FnOnce() -> T) -> T {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            if !self.0 {
                unblock();
            }
        }
    }
    let _restored = Restored(block());
    write()
}

#[cfg(unix)]
fn unblock() {
    let (signal, mut pending, mut taken) = (only_it(), MaybeUninit::uninit(), 0);
    // SAFETY: the sets are valid, and `pending` is read only if it was filled. `sigwait` returns at once, because the
    // signal is blocked here and pending: only this thread's own writes raise it.
    unsafe {
        if libc::sigpending(pending.as_mut_ptr()) == 0
            && libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1
        {
            libc::sigwait(&signal, &mut taken);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &signal, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
fn unblock() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_came_while_it_was_blocked_does_not_come_after_it() {
        let raise = || {
            // SAFETY: sends a signal to this thread, where it is blocked.
            assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) }, 0);
        };
        // Otherwise this program would end here.
        blocked(raise);
        blocked(|| blocked(raise));
        assert!(!block() && block());
        // A thread that has it blocked keeps it so.
        blocked(|| ());
        assert!(block());
    }
}
