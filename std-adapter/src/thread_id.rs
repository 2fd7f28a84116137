//! The number of a thread.

/// The calling thread's id in the system. Where the system does not tell it, a number of our own: threads can be told
/// apart, but not recognised.
pub(crate) fn thread_id() -> u32 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return rustix::thread::gettid().as_raw_nonzero().get() as u32;
    #[cfg(windows)]
    return crate::system::thread_id();
    #[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
    {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(1);
        thread_local!(static ID: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
        ID.with(|id| *id)
    }
}
