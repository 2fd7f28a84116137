//! Which layers there are: spans entered under one that is gone are exited under none.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::fork::while_nobody_forks;

/// In an owner's number: it is a layer.
const LAYER: u64 = 1 << 63;
/// Above this bit is which, of those with one recorder.
pub(super) const WHICH: u32 = 48;
/// Which subscribers, and which layers, are told apart.
pub(super) const MOST: u64 = 0x7FFF;

/// How many numbers there were, and those of the layers that there are: each as often as a layer has it.
static LAYERS: Mutex<(u64, Vec<u64>)> = Mutex::new((0, Vec::new()));

/// Numbers of which the last layer is gone, so many ever.
static GONE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How many of these this thread has left.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// A child after a fork may have layers of its own.
fn with_layers<T>(f: impl FnOnce(&mut u64, &mut Vec<u64>) -> T) -> T {
    while_nobody_forks(|| {
        let mut layers = LAYERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, known) = &mut *layers;
        f(before, known)
    })
}

/// The number of one more layer of a recorder, by its identity: that of those that there are.
pub(super) fn begin(identity: u64) -> u64 {
    with_layers(|before, known| {
        let same = known.iter().copied().find(|number| is_of_one_recorder(*number, identity));
        let number = same.unwrap_or_else(|| {
            *before += 1;
            LAYER | (*before % MOST) << WHICH | identity
        });
        known.push(number);
        number
    })
}

/// Takes a layer from those that there are. True: it was the last one of its number.
pub(super) fn end(number: u64) -> bool {
    with_layers(|_, known| {
        let Some(at) = known.iter().position(|known| *known == number) else { return false };
        known.swap_remove(at);
        let is_last = !known.contains(&number);
        if is_last {
            GONE.fetch_add(1, Ordering::Relaxed);
        }
        is_last
    })
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
    let is_there = |number: u64| with_layers(|_, known| known.contains(&number));
    leave(&|number| is_layer(number) && !is_there(number));
}

fn is_of_one_recorder(number: u64, other: u64) -> bool {
    (number ^ other) << (u64::BITS - WHICH) == 0
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::fork::tests::in_child;

    #[test]
    fn a_child_may_make_layers_though_other_threads_were_about_to() {
        crate::fork::watch();
        let forked = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for identity in 1..3 {
                let forked = &forked;
                scope.spawn(move || {
                    while !forked.load(Ordering::Relaxed) {
                        end(begin(identity << 16));
                    }
                });
            }
            let done = (0..50).all(|_| in_child(|| end(begin(3 << 16))));
            forked.store(true, Ordering::Relaxed);
            assert!(done);
        });
    }
}
