//! The processor's time stamp counter as boot time: what the vDSO does, without its barriers.
//!
//! The drain thread compares counter and clock about once a second and publishes a line through both: time =
//! base + (counter − counter at base) × factor. Each new line begins where the old one is, so that time does
//! not jump, and is steered to meet the clock a second later. Readings of different cores are not ordered to
//! better than some tens of nanoseconds, which is what `rdtsc` without a barrier gives.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use super::clock::BootClock;

/// A line through the clock, behind a sequence lock.
pub(crate) struct TscClock {
    /// Odd while the line is being changed.
    sequence: AtomicU32,
    counter: AtomicU64,
    nanoseconds: AtomicU64,
    /// Nanoseconds a tick, in 2⁻⁶⁰.
    factor: AtomicU64,
    last: Mutex<Measured>,
}

/// Both at one moment.
#[derive(Clone, Copy)]
struct Measured {
    counter: u64,
    nanoseconds: u64,
}

impl Measured {
    fn now() -> Self {
        // The closest of a few: an interrupt between the readings shows as a long one.
        let readings = (0..8).map(|_| {
            let before = counter();
            let nanoseconds = BootClock.now();
            let after = counter();
            (
                after.wrapping_sub(before),
                Self { counter: before.wrapping_add(after.wrapping_sub(before) / 2), nanoseconds },
            )
        });
        match readings.min_by_key(|(width, _)| *width) {
            Some((_, measured)) => measured,
            None => Self { counter: counter(), nanoseconds: BootClock.now() },
        }
    }

    /// Nanoseconds a tick since an earlier moment, in 2⁻⁶⁰.
    fn factor_since(&self, before: &Self) -> u64 {
        let ticks = u128::from(self.counter.wrapping_sub(before.counter)).max(1);
        let nanoseconds = u128::from(self.nanoseconds.saturating_sub(before.nanoseconds));
        u64::try_from((nanoseconds << 60) / ticks).unwrap_or(u64::MAX)
    }
}

/// Times between two comparisons.
const PERIOD: u64 = 1_000_000_000;

impl TscClock {
    /// The process's one; `None` where the counter does not run steadily. The first call takes 5 ms.
    pub(crate) fn get() -> Option<&'static Self> {
        static CLOCK: OnceLock<Option<TscClock>> = OnceLock::new();
        CLOCK.get_or_init(|| is_steady().then(Self::calibrated)).as_ref()
    }

    fn calibrated() -> Self {
        let first = Measured::now();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let now = Measured::now();
        Self {
            sequence: AtomicU32::new(0),
            counter: AtomicU64::new(now.counter),
            nanoseconds: AtomicU64::new(now.nanoseconds),
            factor: AtomicU64::new(now.factor_since(&first)),
            last: Mutex::new(now),
        }
    }

    /// Compares counter and clock, if a second has passed since the last time.
    pub(crate) fn steer(&self) {
        let base = self.nanoseconds.load(Ordering::Relaxed);
        if self.now().saturating_sub(base) < PERIOD {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Measured::now();
        if now.nanoseconds.saturating_sub(last.nanoseconds) < PERIOD {
            return;
        }
        // The rate over the second that has passed, and a correction that meets the clock in the next.
        let rate = now.factor_since(&last);
        let shown = self.at(now.counter);
        let target = now.nanoseconds.saturating_add(PERIOD).saturating_sub(shown);
        // Where the line is far ahead of the clock it goes on at half its pace, never back.
        let target = target.clamp(PERIOD / 2, PERIOD * 2);
        let factor = (u128::from(rate) * u128::from(target) / u128::from(PERIOD)) as u64;
        *last = now;
        self.sequence.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.counter.store(now.counter, Ordering::Relaxed);
        self.nanoseconds.store(shown, Ordering::Relaxed);
        self.factor.store(factor, Ordering::Relaxed);
        self.sequence.fetch_add(1, Ordering::Release);
    }

    /// The time at a value of the counter.
    #[inline]
    fn at(&self, counter: u64) -> u64 {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let base = self.counter.load(Ordering::Relaxed);
            let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
            let factor = self.factor.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.sequence.load(Ordering::Relaxed) == before {
                // A counter read before the base was published may lie before it: time stands still.
                let ticks = counter.saturating_sub(base);
                // The upper half of a product, which needs no shift: events wait for this.
                let passed = (u128::from(ticks << 4) * u128::from(factor)) >> 64;
                return nanoseconds.wrapping_add(passed as u64);
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.at(counter())
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction is part of every x86-64 processor, touches no memory, and is forbidden to
    // programs only where an operator set CR4.TSD, under which the vDSO's clock would not work either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

/// Whether the counter runs at one pace, on all cores, in all power states.
fn is_steady() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        // The kernel has compared the cores' counters; where it found them wanting it uses another clock.
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(source).is_ok_and(|source| source.trim() == "tsc")
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_s_time_is_boot_time_and_stays_it() {
        let Some(clock) = TscClock::get() else { return };
        let error = || {
            let before = BootClock.now();
            let now = clock.now();
            let after = BootClock.now();
            (now as i64 - before as i64).min(0) + (now as i64 - after as i64).max(0)
        };
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(100));
            clock.steer();
            let error = (0..5).map(|_| error().abs()).min().unwrap_or(0);
            assert!(error < 100_000, "{error} ns away");
        }
    }

    #[test]
    fn time_does_not_go_back_while_it_is_steered() {
        let Some(clock) = TscClock::get() else { return };
        let (start, mut last) = (Instant::now(), clock.now());
        while start.elapsed() < Duration::from_millis(1100) {
            clock.steer();
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
