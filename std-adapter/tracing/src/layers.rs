//! The layers that exist: spans that were entered under one that is gone are never exited.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracebuf_std::fork::while_nobody_forks;

/// The bit of a front end's number that marks a layer.
const LAYER: u64 = 1 << 63;
/// The bits from this one on say which it is, of those with one recorder.
pub(super) const WHICH: u32 = 48;
/// The number of subscribers, and of layers, that can be told apart.
pub(super) const MOST: u64 = 0x7FFF;

/// How many numbers were given out, and the numbers of existing layers: each as often as a layer has it.
static LAYERS: Mutex<(u64, Vec<u64>)> = Mutex::new((0, Vec::new()));

/// How many numbers have ever lost their last layer.
static GONE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How many of these this thread has dealt with.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Calls `f` with [`LAYERS`], in a way that lets a child after a fork have layers of its own.
fn with_layers<T>(f: impl FnOnce(&mut u64, &mut Vec<u64>) -> T) -> T {
    while_nobody_forks(|| {
        let mut layers = LAYERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, known) = &mut *layers;
        f(before, known)
    })
}

/// Adds a layer of the recorder with this identity, and returns its number: that of the existing ones, or a new one.
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

/// Removes a layer. True if it was the last one with its number.
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

/// Whether layers have gone since this thread last looked.
#[inline(always)]
pub(super) fn have_gone() -> bool {
    GONE.load(Ordering::Relaxed) != LEFT.get()
}

/// Calls `leave` with a function that says whether a front end's number is that of a layer that is gone.
pub(super) fn leave_gone(leave: impl FnOnce(&dyn Fn(u64) -> bool)) {
    // Before it is done: layers that go meanwhile are looked for again.
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
    use tracebuf_testing::fork::in_child;

    #[test]
    fn a_child_may_make_layers_though_other_threads_were_about_to() {
        tracebuf_std::fork::watch();
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
