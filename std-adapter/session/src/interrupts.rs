//! Signal handlers, told from the code that they interrupt, and fences for all threads.
//!
//! A handler may interrupt its thread anywhere: within the allocator, or before the standard library has set the thread
//! up. There it must not ask for memory, nor for the thread's name, nor wait.
#![allow(unsafe_code)]

/// Returns true in a signal handler, as far as can be known: not if the handler's own code cannot be unwound, as C
/// without unwind tables, nor with `SA_NODEFER`, nor on 32-bit Arm. Meant for what is seldom done: some 100 ns, and some
/// microseconds in threads that block signals.
#[cfg(all(unix, not(any(miri, target_arch = "arm"))))]
pub(crate) fn are_handled() -> bool {
    // A handler's own signal is blocked while it runs.
    blocks_signals() && is_in_signal_frame()
}

#[cfg(not(all(unix, not(any(miri, target_arch = "arm")))))]
pub(crate) fn are_handled() -> bool {
    false
}

#[cfg(all(unix, not(any(miri, target_arch = "arm"))))]
fn blocks_signals() -> bool {
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null pointer asks for no change; the other one is to memory for the answer, which is all zeros before.
    let blocked = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
        blocked.assume_init()
    };
    // SAFETY: it only reads the set; what is no signal is an error.
    (1..=64).any(|signal| unsafe { libc::sigismember(&blocked, signal) } == 1)
}

/// Returns true if one of the frames of this thread's stack was made by a signal.
#[cfg(all(unix, not(any(miri, target_arch = "arm"))))]
fn is_in_signal_frame() -> bool {
    use std::ffi::{c_int, c_void};

    type Frame = extern "C" fn(context: *mut c_void, found: *mut c_void) -> c_int;
    unsafe extern "C" {
        // Of the unwinder, which the standard library links. They neither allocate nor, since glibc 2.35, lock.
        fn _Unwind_Backtrace(frame: Frame, found: *mut c_void) -> c_int;
        fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
    }
    extern "C" fn frame(context: *mut c_void, found: *mut c_void) -> c_int {
        let mut is_interrupted = 0;
        // SAFETY: the context is the unwinder's, and the other one a number of the right type.
        unsafe { _Unwind_GetIPInfo(context, &raw mut is_interrupted) };
        if is_interrupted == 0 {
            return 0;
        }
        // SAFETY: it points to the flag below, which lives as long as the walk.
        unsafe { found.cast::<bool>().write(true) };
        // Any other number than 0 ends the walk.
        5
    }
    let mut found = false;
    // SAFETY: the function is called with this pointer, on this thread, before the call returns.
    unsafe { _Unwind_Backtrace(frame, (&raw mut found).cast()) };
    found
}

/// Keeps signal handlers from this thread while it does something: what they interrupt may hold a lock that they need.
/// Not those for faults of the thread itself. Cost: two system calls.
pub(crate) fn held_off<T>(work: impl FnOnce() -> T) -> T {
    let _before = HeldOff::begin();
    work()
}

/// The same for good.
pub(crate) fn keep_away() {
    std::mem::forget(HeldOff::begin());
}

#[cfg(all(unix, not(miri)))]
struct HeldOff {
    /// The signals that were blocked before.
    before: libc::sigset_t,
}

#[cfg(all(unix, not(miri)))]
impl HeldOff {
    fn begin() -> Self {
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGSYS,
        ];
        let [mut signals, mut before] = [std::mem::MaybeUninit::<libc::sigset_t>::zeroed(); 2];
        // SAFETY: the first set is filled before it is changed and read; the other one, which is all zeros, is written.
        unsafe {
            libc::sigfillset(signals.as_mut_ptr());
            for fault in faults {
                libc::sigdelset(signals.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for HeldOff {
    fn drop(&mut self) {
        // SAFETY: the set is one that the system gave; the null pointer asks for no answer.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(not(all(unix, not(miri))))]
struct HeldOff;

#[cfg(not(all(unix, not(miri))))]
impl HeldOff {
    fn begin() -> Self {
        Self
    }
}
