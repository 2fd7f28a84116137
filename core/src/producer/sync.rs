//! Atomics: the core's own, `portable-atomic`'s for targets without compare-and-swap, or loom's models.
//!
//! One name for all, so that the code under loom is the code that runs.

#[cfg(not(any(loom, feature = "portable-atomic")))]
pub use core::sync::atomic::AtomicU32;
#[cfg(loom)]
pub use loom::sync::atomic::AtomicU32;
#[cfg(all(feature = "portable-atomic", not(loom)))]
pub use portable_atomic::AtomicU32;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::Ordering;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;
