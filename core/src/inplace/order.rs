//! Orders of loads and stores: those of the instructions are enough where there is one core.

use crate::atomics::Ordering;

/// Whether one core at most touches a region while it is in use: interrupts and a reset see its stores in their order.
const ONE_CORE: bool = cfg!(all(target_os = "none", not(feature = "multicore")));

/// Of a store that publishes what was stored before [`before_publishing`].
pub(super) const PUBLISH: Ordering = if ONE_CORE { Ordering::Relaxed } else { Ordering::Release };
/// Of a load of what was published, before [`after_seeing`].
pub(super) const SEE: Ordering = if ONE_CORE { Ordering::Relaxed } else { Ordering::Acquire };

/// Keeps the stores before it before the store that publishes them.
#[inline(always)]
pub(super) fn before_publishing() {
    one_core_fence(Ordering::Release);
}

/// Keeps the loads after it behind the load that saw what was published.
#[inline(always)]
pub(super) fn after_seeing() {
    one_core_fence(Ordering::Acquire);
}

/// Keeps the stores after it behind the store before it.
#[inline(always)]
pub(super) fn after_claiming() {
    if ONE_CORE {
        one_core_fence(Ordering::Release);
    } else {
        #[cfg(loom)]
        loom::sync::atomic::fence(Ordering::Release);
        #[cfg(not(loom))]
        core::sync::atomic::fence(Ordering::Release);
    }
}

/// Keeps the loads after it behind the timer's register.
#[inline(always)]
pub(super) fn after_reading() {
    #[cfg(not(loom))]
    if ONE_CORE {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        core::sync::atomic::fence(Ordering::Acquire);
    }
}

/// A word, made before interrupts are masked, where that stands in for compare-and-swap.
#[inline(always)]
pub(super) fn before_masking(word: u32) -> u32 {
    if cfg!(target_has_atomic = "32") { word } else { core::hint::black_box(word) }
}

/// For the compiler alone.
#[inline(always)]
fn one_core_fence(order: Ordering) {
    #[cfg(not(loom))]
    if ONE_CORE {
        core::sync::atomic::compiler_fence(order);
    }
    #[cfg(loom)]
    let _ = order;
}
