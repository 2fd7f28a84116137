//! Windows has no forks: a process owns what it made, and no other has it.

/// Begins to count forks, of which there are none.
pub(crate) fn watch() {}

/// Forks between the first process that watched and this one.
#[inline]
pub(crate) fn forks() -> u32 {
    0
}

/// Does work that no fork must interrupt.
#[cfg(feature = "tracing")]
pub(crate) fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
    work()
}
