//! Which layers there are: spans entered under one that is gone are exited under none.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In an owner's number: it is a layer.
const LAYER: u64 = 1 << 63;
/// Above this bit is which, of those with one recorder.
pub(super) const WHICH: u32 = 48;
/// Which subscribers, and which layers, are told apart.
pub(super) const MOST: u64 = 0x7FFF;

/// How many layers of each number there are.
static LAYERS: Mutex<(u64, Vec<(u64, usize)>)> = Mutex::new((0, Vec::new()));

/// Numbers of which the last layer is gone, so many ever.
static GONE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How many of these this thread has left.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

fn layers() -> MutexGuard<'static, (u64, Vec<(u64, usize)>)> {
    LAYERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A layer that there is, by its number.
#[derive(Debug)]
pub(super) struct Living(u64);

impl Living {
    /// One of a recorder, by its identity: of the same number as those that there are.
    pub(super) fn new(identity: u64) -> Self {
        let mut layers = layers();
        let (before, known) = &mut *layers;
        if let Some((number, count)) =
            known.iter_mut().find(|(number, _)| is_of_one_recorder(*number, identity))
        {
            *count += 1;
            return Self(*number);
        }
        *before += 1;
        let number = LAYER | (*before % MOST) << WHICH | identity;
        known.push((number, 1));
        Self(number)
    }

    pub(super) fn number(&self) -> u64 {
        self.0
    }

    /// Takes it from those that there are. True: it was the last one of its number.
    pub(super) fn end(&self) -> bool {
        let mut layers = layers();
        let (_, known) = &mut *layers;
        let Some(at) = known.iter().position(|(number, _)| *number == self.0) else { return false };
        let Some((_, count)) = known.get_mut(at) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            known.swap_remove(at);
            GONE.fetch_add(1, Ordering::Relaxed);
        }
        is_last
    }
}

pub(super) fn is_layer(number: u64) -> bool {
    number & LAYER != 0
}

/// Whether layers are gone since this thread looked.
#[inline(always)]
pub(super) fn have_gone() -> bool {
    GONE.load(Ordering::Relaxed) != LEFT.get()
}

/// Hands what knows of an owner's number whether it is that of a layer that is gone to `leave`.
pub(super) fn leave_gone(leave: impl FnOnce(&dyn Fn(u64) -> bool)) {
    // Before it is done: what goes meanwhile is looked for again.
    LEFT.set(GONE.load(Ordering::Relaxed));
    leave(&|number| is_layer(number) && !layers().1.iter().any(|(known, _)| *known == number));
}

fn is_of_one_recorder(number: u64, other: u64) -> bool {
    (number ^ other) << (u64::BITS - WHICH) == 0
}
