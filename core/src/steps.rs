//! Step counters, by which tests and fuzzing hold operations to the costs that they state.
//!
//! A step is a look at an item of a ring, at a fragment's size, or at a place of the table of sequences. Other
//! builds count nothing.

#[cfg(any(test, fuzzing))]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts one.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(any(test, fuzzing))]
    STEPS.set(STEPS.get().wrapping_add(1));
}

/// How many steps this thread takes in `work`.
#[cfg(any(test, fuzzing))]
pub fn steps_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = STEPS.get();
    let done = work();
    (done, STEPS.get().wrapping_sub(before))
}
