//! Atomic words that a test can stop before any store, or interrupt before any access: what another thread could see then
//! is what it looks at, and what an interrupt could do then is done.
//!
//! The order of stores matters to other threads only, and on most machines a test of threads hits the moment between two
//! of them once in a thousand million times. Loom tries all orders, but takes minutes.

use core::sync::atomic;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Ordering;

/// As the core's own, of which it is made.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU32(atomic::AtomicU32);

std::thread_local! {
    /// Stores of this thread until one is not made, counted down; 0 for never.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// From then on nothing is stored: destructors still run.
const STOPPED: u64 = u64::MAX;

struct Stopped;

/// Does something up to this store, numbered from 1, which is not made, nor is any after it. False if it ended before.
pub(crate) fn stopped_at(store: u64, work: impl FnOnce()) -> bool {
    LEFT.set(store);
    let ended = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(0);
    match ended {
        Ok(()) => false,
        Err(payload) if payload.is::<Stopped>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

/// Called before each store: whether it is to be made.
fn is_made() -> bool {
    match LEFT.get() {
        0 => true,
        STOPPED => false,
        1 => {
            LEFT.set(STOPPED);
            // No message: this is no failure.
            resume_unwind(Box::new(Stopped));
        }
        more => {
            LEFT.set(more - 1);
            true
        }
    }
}

std::thread_local! {
    /// Accesses of this thread until an interrupt comes, counted down; 0 for never.
    static UNTIL: Cell<u64> = const { Cell::new(0) };
    static INTERRUPT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Does something, and before this access of it, numbered from 1, what an interrupt does. False if it ended before.
pub(crate) fn interrupted_at(access: u64, interrupt: impl FnOnce() + 'static, work: impl FnOnce()) -> bool {
    INTERRUPT.set(Some(Box::new(interrupt)));
    UNTIL.set(access);
    work();
    UNTIL.set(0);
    INTERRUPT.take().is_none()
}

/// Called before each access.
fn interrupted() {
    let until = UNTIL.get();
    UNTIL.set(until.saturating_sub(1));
    if until == 1 {
        INTERRUPT.take().into_iter().for_each(|interrupt| interrupt());
    }
}

macro_rules! stores {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, or $not_made:expr;)*) => {
        $(
            #[allow(missing_docs, dead_code)]
            pub fn $name(&self, $($argument: $type),*) -> $result {
                interrupted();
                if is_made() { self.0.$name($($argument),*) } else { $not_made(self) }
            }
        )*
    };
}

impl AtomicU32 {
    fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[allow(missing_docs)]
    pub const fn new(value: u32) -> Self {
        Self(atomic::AtomicU32::new(value))
    }

    #[allow(missing_docs)]
    pub fn load(&self, order: Ordering) -> u32 {
        interrupted();
        self.0.load(order)
    }

    #[allow(missing_docs, dead_code)]
    pub fn get_mut(&mut self) -> &mut u32 {
        self.0.get_mut()
    }

    #[allow(missing_docs, dead_code)]
    pub fn into_inner(self) -> u32 {
        self.0.into_inner()
    }

    stores! {
        store(value: u32, order: Ordering) -> (), or |_| ();
        swap(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_add(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_sub(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_and(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_or(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_max(value: u32, order: Ordering) -> u32, or Self::seen;
        fetch_min(value: u32, order: Ordering) -> u32, or Self::seen;
        // Loops that try again end.
        compare_exchange(now: u32, new: u32, order: Ordering, failed: Ordering) -> Result<u32, u32>, or
            |_: &Self| Ok(now);
        compare_exchange_weak(now: u32, new: u32, order: Ordering, failed: Ordering) -> Result<u32, u32>, or
            |_: &Self| Ok(now);
        fetch_update(order: Ordering, failed: Ordering, change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32>, or
            |this: &Self| Ok(this.seen());
    }
}
