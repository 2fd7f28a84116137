//! A value that one caller at a time has: who comes meanwhile does without.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value for whoever comes first.
pub(crate) struct Alone<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: whoever comes while it is busy does without, be it an interrupt, what the one who has it calls in turn, or
// another task of the same priority: so there is never more than one reference.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Does something with the value. `None` within another call of this.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        // Interrupts are masked as not all cores could do it in one step, and a scheduler may come between two.
        let was_busy = critical_section::with(|_| {
            let was_busy = self.busy.load(Ordering::Acquire);
            self.busy.store(true, Ordering::Relaxed);
            was_busy
        });
        if was_busy {
            return None;
        }
        // SAFETY: who is busy is alone with it.
        let result = work(unsafe { &mut *self.value.get() });
        self.busy.store(false, Ordering::Release);
        Some(result)
    }
}
