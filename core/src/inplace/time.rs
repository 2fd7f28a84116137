//! A timer's ticks, and the 64-bit time that is made of them.

use super::layout::header;
use super::order::before_masking;
use super::region::Memory;
use crate::atomics::Ordering;

/// A timer that counts up and wraps. Reading it must be quick, and right at any priority.
///
/// It is the same for all writers of a recorder. Any `fn() -> u32`, or closure that is `Copy`, is a timer of 32 bits;
/// [`Bits`] is one of fewer.
///
/// ```
/// use tracebuf::inplace::{Bits, Timer};
/// # fn sys_tick() -> u32 { 0xFF_FFFF }
///
/// /// SysTick counts down, here from all ones.
/// fn ticks() -> u32 {
///     !sys_tick() & 0xFF_FFFF
/// }
/// assert_eq!(Bits::<24, _>(ticks).ticks(), 0);
/// ```
pub trait Timer: Copy {
    /// How many bits it counts in: 16 to 32. Those above are zero.
    const BITS: u32 = 32;

    /// Ticks until now.
    fn ticks(&self) -> u32;
}

impl<F: Fn() -> u32 + Copy> Timer for F {
    #[inline(always)]
    fn ticks(&self) -> u32 {
        self()
    }
}

/// A timer of so many bits: see [`Timer`].
#[derive(Clone, Copy, Debug)]
pub struct Bits<const BITS: u32, F>(pub F);

impl<const BITS: u32, F: Fn() -> u32 + Copy> Timer for Bits<BITS, F> {
    const BITS: u32 = {
        assert!(BITS >= 16 && BITS <= 32, "timers have 16 to 32 bits");
        BITS
    };

    #[inline(always)]
    fn ticks(&self) -> u32 {
        (self.0)()
    }
}

/// A moment: the timer, and its half periods so far.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) low: u32,
    pub(super) halves: u32,
}

impl Moment {
    /// The timer, and the half periods as it has them. Cost: a compare-and-swap, and another one twice a period.
    pub(super) fn settle<M: Memory, T: Timer>(region: &M, timer: T) -> Self {
        let word = region.header(header::HALVES);
        loop {
            let halves = word.load(Ordering::Relaxed);
            let low = timer.ticks();
            let next = before_masking(halves.wrapping_add((halves ^ low >> (T::BITS - 1)) & 1));
            // Whoever comes first counts a half period; if nothing is to be counted, this sees that nobody has.
            if word.compare_exchange(halves, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                && next == halves
            {
                return Self { low, halves };
            }
        }
    }

    pub(super) fn ticks<T: Timer>(self) -> u64 {
        let low = u64::from(self.low) & ((1 << (T::BITS - 1)) - 1);
        u64::from(self.halves) << (T::BITS - 1) | low
    }
}
