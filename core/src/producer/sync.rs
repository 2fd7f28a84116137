//! Atomics: the core's own, `portable-atomic`'s for targets without compare-and-swap, or loom's models.
//!
//! One name for all, so that the code under loom is the code that runs.

#[cfg(not(any(loom, feature = "portable-atomic")))]
pub use core::sync::atomic::AtomicU32;
#[cfg(loom)]
pub use loom::sync::atomic::AtomicU32;
#[cfg(all(feature = "portable-atomic", not(loom)))]
pub use portable_atomic::AtomicU32;

/// A `const fn`; under loom, whose atomics cannot be constants, a plain one.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visible:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])* $visible const fn $($rest)*
        #[cfg(loom)]
        $(#[$attribute])* $visible fn $($rest)*
    };
}
pub(crate) use const_fn;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::Ordering;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;
