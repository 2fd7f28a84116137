//! Clocks, and their ticks as the timestamps of a trace.

use crate::producer::atomics::{AtomicU32, Ordering, const_fn};

/// A clock: ticks since any fixed moment, never backwards. Their frequency is the
/// [`TracerConfig`](super::TracerConfig)'s. If a tracer's first reading is above 2⁶⁴ − 2³², it is taken for one before
/// tick 0, and becomes 0.
///
/// Tracers whose times are to be compared must read the same clock. Any closure that returns ticks is a clock.
///
/// ```
/// use tracebuf::producer::track_event::Clock;
///
/// let start = std::time::Instant::now();
/// let nanoseconds = || start.elapsed().as_nanos() as u64;
/// assert!(Clock::now(&nanoseconds) <= Clock::now(&nanoseconds));
/// ```
pub trait Clock {
    /// Ticks until now.
    fn now(&self) -> u64;
}

impl<F: Fn() -> u64> Clock for F {
    fn now(&self) -> u64 {
        self()
    }
}

/// A 32-bit timer that counts up and wraps, extended to 64 bits.
///
/// Shared by all interrupt priorities and cores: reading it never waits and never goes backwards. It must be
/// read at least once in half a period of the timer (13 s at 160 MHz); an interrupt that does nothing else
/// will do. All must read the same timer: where each core has its own, each has an extension of its own. Cost: two
/// loads, and twice a period a compare-and-swap.
///
/// ```
/// use tracebuf::producer::track_event::{Clock, Extended32};
///
/// static CYCLES: Extended32 = Extended32::new();
/// # fn cycle_counter() -> u32 { 0x8000_0001 }
/// let clock = || CYCLES.extend(cycle_counter);
/// assert_eq!(Clock::now(&clock), 0x8000_0001);
/// ```
///
/// A timer of fewer bits is shifted up to the highest bits, and the time back down. SysTick has 24 bits, and counts
/// down, here from all ones: its reload is `0xFF_FFFF`, so it is not the tick of anything else.
///
/// ```
/// use tracebuf::producer::track_event::{Clock, Extended32};
///
/// static TICKS: Extended32 = Extended32::new();
/// # static VALUE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0xFF_FFFF);
/// # fn sys_tick() -> u32 { VALUE.load(core::sync::atomic::Ordering::Relaxed) }
/// let clock = || TICKS.extend(|| !sys_tick() << 8) >> 8;
/// assert_eq!(Clock::now(&clock), 0);
/// # for (value, time) in [(0x7F_FFFF, 1 << 23), (0, 0xFF_FFFF), (0xFF_FFFE, 0x100_0001)] {
/// #     VALUE.store(value, core::sync::atomic::Ordering::Relaxed);
/// #     assert_eq!(Clock::now(&clock), time);
/// # }
/// ```
pub struct Extended32 {
    /// Half periods begun, less one: the lowest bit equals the timer's highest, or the timer has gone on.
    halves: AtomicU32,
}

impl Extended32 {
    const_fn! {
        /// An extension that has seen nothing yet.
        pub const fn new() -> Self {
            Extended32 { halves: AtomicU32::new(0) }
        }
    }

    /// The 64-bit time; `timer` reads the timer, each time that it is called: a value from before would set the time
    /// forward by half a period for good.
    pub fn extend(&self, timer: impl Fn() -> u32) -> u64 {
        let mut halves = self.halves.load(Ordering::Acquire);
        loop {
            // After the count: a timer read before it could belong to a half period that is over.
            let low = timer();
            if halves & 1 == low >> 31 {
                // An interrupt may have lasted so long that the count went on by two.
                let again = self.halves.load(Ordering::Acquire);
                if again == halves {
                    return u64::from(halves) << 31 | u64::from(low & 0x7FFF_FFFF);
                }
                halves = again;
                continue;
            }
            let next = halves.wrapping_add(1);
            match self.halves.compare_exchange(halves, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => halves = next,
                Err(now) => halves = now,
            }
        }
    }
}

impl Default for Extended32 {
    fn default() -> Self {
        Self::new()
    }
}

/// Turns ticks into units of the trace's clock. Every tracer gets the same for the same tick.
pub(super) struct Scale {
    /// Units per tick, in 2⁻³².
    factor: u64,
    /// The tick of the last event, and what its time in units is beyond the last whole one, in 2⁻³².
    last: u64,
    fraction: u32,
}

impl Scale {
    pub(super) fn new(factor: u64) -> Self {
        Scale { factor, last: 0, fraction: 0 }
    }

    /// The time of a tick, but never a little before the last one's; the distances to come begin here.
    pub(super) fn start(&mut self, ticks: u64) -> u64 {
        // Not if it is back by more than 2³² ticks: then the last one was read wrong, and all others would wait for it.
        let is_back = (ticks.wrapping_sub(self.last) >> 32) as u32 == u32::MAX;
        let ticks = if is_back { self.last } else { ticks };
        let units = u128::from(ticks) * u128::from(self.factor);
        self.last = ticks;
        self.fraction = units as u32;
        (units >> 32) as u64
    }

    /// The tick of the last event.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Units since the last call, without the fraction of a unit, which is kept for the next; a clock that went
    /// backwards stands still. `None`, with no change, if there are 2³² or more, or as many ticks, or if the clock went
    /// back by more ticks than that: start anew.
    #[inline]
    pub(super) fn delta(&mut self, ticks: u64) -> Option<u32> {
        let elapsed = ticks.wrapping_sub(self.last);
        match (elapsed >> 32) as u32 {
            0 => {}
            u32::MAX => return Some(0),
            _ => return None,
        }
        // By halves: 128 bits are several multiplications on a small machine, these are two, and one where a unit is
        // longer than a tick. Each is 37 instructions on a Cortex-M0.
        let elapsed = elapsed & 0xFFFF_FFFF;
        let fractions = elapsed * (self.factor & 0xFFFF_FFFF) + u64::from(self.fraction);
        let mut units = (fractions >> 32) as u32;
        if self.factor >> 32 != 0 {
            let whole = (elapsed * (self.factor >> 32)).wrapping_add(u64::from(units));
            units = u32::try_from(whole).ok()?;
        }
        self.last = ticks;
        self.fraction = fractions as u32;
        Some(units)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::track_event::TracerConfig;
    use core::cell::Cell;

    #[test]
    fn a_timer_is_extended_over_many_periods() {
        let clock = Extended32::new();
        let mut time = 0u64;
        for step in [1, 0x7FFF_FFFE, 1, 0x7FFF_FFFF, 0x4000_0000, 0x7000_0000].into_iter().cycle().take(60) {
            time += step;
            assert_eq!(clock.extend(|| time as u32), time);
        }
        assert!(time > 10 << 32);
    }

    #[test]
    fn an_interrupt_between_the_two_reads_does_not_turn_time_back_or_forward() {
        // The interrupt comes before the timer is read, and passes the middle and the end of a period.
        for (before, after) in [
            (0x7FFF_FFFFu64, 0x8000_0001),
            (0xFFFF_FFFF, 0x1_0000_0001),
            (0x7FFF_FFFF, 0x1_0000_0001),
            (5, 0x1_8000_0000),
        ] {
            let clock = Extended32::new();
            let mut time = 0;
            while time < before {
                time = (time + 0x7000_0000).min(before);
                clock.extend(|| time as u32);
            }
            let interrupted = Cell::new(false);
            let seen = clock.extend(|| {
                if !interrupted.replace(true) {
                    let mut time = before;
                    while time < after {
                        time = (time + 0x7000_0000).min(after);
                        assert_eq!(clock.extend(|| time as u32), time);
                    }
                }
                after as u32
            });
            assert_eq!(seen, after);
        }
    }

    #[test]
    fn ticks_of_any_frequency_are_the_right_time_and_add_up_to_it() {
        for (frequency, unit) in
            [(1_000_000_000, 1), (32_768, 1), (168_000_000, 1), (24_000_000, 1000), (3_187_654_321, 1)]
        {
            let mut scale = Scale::new(TracerConfig::new(frequency).unit_ns(unit).factor());
            let exact = |ticks: u64| {
                (u128::from(ticks) * 1_000_000_000 / u128::from(frequency) / u128::from(unit)) as u64
            };
            let (start, mut now) = (12_345_678_901u64, 12_345_678_901u64);
            let mut units = scale.start(start);
            for i in 0..if cfg!(miri) { 100 } else { 100_000u64 } {
                now += i * 7 % 12_345;
                units += u64::from(scale.delta(now).unwrap());
            }
            assert_eq!(units, scale.start(now));
            let most = ((u128::from(frequency) * u128::from(unit)) << 32) / 1_000_000_000;
            assert_eq!(scale.delta(now + most as u64 + 2), None);
            for ticks in [now, now << 16, now << 24] {
                let (units, exact) = (scale.start(ticks), exact(ticks));
                assert!(units.abs_diff(exact) <= 1 + exact / 300_000_000, "{frequency}: {units} {exact}");
            }
        }
    }

    #[test]
    fn a_clock_that_goes_backwards_stands_still() {
        let mut scale = Scale::new(1 << 32);
        scale.start(1000);
        let deltas = [1010, 1005, 1012].map(|now| scale.delta(now));
        assert_eq!(deltas, [Some(10), Some(0), Some(2)]);
        assert_eq!([900, 1012, 1013].map(|now| scale.start(now)), [1012, 1012, 1013]);
    }

    #[test]
    fn a_time_that_was_read_wrong_does_not_hold_up_those_after_it_for_ever() {
        let mut scale = Scale::new(1 << 32);
        assert_eq!([1000, 1 << 40, 3000].map(|now| scale.start(now)), [1000, 1 << 40, 3000]);
        assert_eq!(scale.delta(3001), Some(1));
    }

    #[test]
    fn a_function_is_a_clock_and_a_timer_starts_in_its_first_period() {
        let timer = Extended32::default();
        let clock = || timer.extend(|| 0x7FFF_FFFF);
        assert_eq!(Clock::now(&clock), 0x7FFF_FFFF);
    }

    #[test]
    fn a_clock_without_a_frequency_stands_still_and_units_of_nothing_are_nanoseconds() {
        assert_eq!(Scale::new(TracerConfig::new(0).factor()).start(1 << 40), 0);
        let config = TracerConfig::new(1_000_000_000).unit_ns(0);
        assert_eq!(Scale::new(config.factor()).start(12_345), 12_345);
    }
}
