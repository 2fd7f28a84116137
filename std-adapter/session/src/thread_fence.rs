//! A fence that one thread has all threads of the process pass: what taking chunks back from idle threads needs.

/// A function that has every thread of this process pass a full memory fence; none where the system cannot do that: on
/// other systems than Linux from 4.14 on, and in sandboxes that forbid `membarrier`. The first call in a process that
/// has threads already may take some 10 ms.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) fn thread_fence() -> Option<fn() -> bool> {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::OnceLock;

    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_registered =
        IS_REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());
    is_registered.then_some(|| membarrier(MembarrierCommand::PrivateExpedited).is_ok())
}

/// Miri knows nothing of such fences; there, recording threads have fences of their own.
#[cfg(miri)]
pub(crate) fn thread_fence() -> Option<fn() -> bool> {
    Some(|| {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        true
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android", miri)))]
pub(crate) fn thread_fence() -> Option<fn() -> bool> {
    None
}
