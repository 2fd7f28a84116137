//! The processor's time stamp counter as boot time: what the vDSO does, without its barriers.
//!
//! The drain thread compares counter and clock about once a second and publishes a line through both: time = base +
//! (counter − counter at base) × factor. Each line begins where the one before is, and meets the clock a second later,
//! so that time does not jump. Cores agree to some tens of nanoseconds, as `rdtsc` without a barrier does.
//!
//! While a machine sleeps the counter may stand still, or begin anew. Then, and after a time without sessions, the next
//! line begins at the clock, never before the old one.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tracebuf::producer::track_event::Clock;

use super::BootClock;
use tracebuf_std::fork;

/// A line through the clock, behind a sequence lock.
pub(crate) struct TscClock {
    /// Odd while the line is being changed.
    sequence: AtomicU32,
    counter: AtomicU64,
    nanoseconds: AtomicU64,
    /// Nanoseconds per tick, in 2⁻⁶⁰.
    factor: AtomicU64,
    steering: Mutex<Steering>,
}

struct Steering {
    last: Measured,
    /// Nanoseconds per tick, in 2⁻⁶⁰, without the correction that the line has.
    rate: u64,
    /// Whether line and clock were far apart at the last comparison.
    was_off: bool,
}

#[derive(Clone, Copy)]
struct Line {
    counter: u64,
    nanoseconds: u64,
    factor: u64,
}

impl Line {
    /// The time at a value of the counter; before the line's start time stands still.
    #[inline]
    fn at(&self, counter: u64) -> u64 {
        let ticks = counter.saturating_sub(self.counter);
        // The upper half of a product, which needs no shift: events wait for this.
        let passed = (u128::from(ticks << 4) * u128::from(self.factor)) >> 64;
        self.nanoseconds.wrapping_add(passed as u64)
    }

    /// Whether the counter began anew, as it does while a machine sleeps: cores do not differ by that much.
    fn is_past(&self, counter: u64) -> bool {
        self.counter.saturating_sub(counter) > SKEW
    }
}

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
            let width = counter().wrapping_sub(before);
            (width, Self { counter: before.wrapping_add(width / 2), nanoseconds })
        });
        match readings.min_by_key(|(width, _)| *width) {
            Some((_, measured)) => measured,
            None => Self { counter: counter(), nanoseconds: BootClock.now() },
        }
    }

    /// Nanoseconds per tick since an earlier moment, in 2⁻⁶⁰.
    fn factor_since(&self, before: &Self) -> u64 {
        let ticks = u128::from(self.counter.wrapping_sub(before.counter)).max(1);
        let nanoseconds = u128::from(self.nanoseconds.saturating_sub(before.nanoseconds));
        u64::try_from((nanoseconds << 60) / ticks).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds between two comparisons.
const PERIOD: u64 = 1_000_000_000;
/// Nanoseconds. If a line is that far from the clock, its rate is not the cause: the counter stood still or jumped.
const OFF: u64 = 10_000_000;
/// Ticks that the counters of two cores may differ by; some 100 µs.
const SKEW: u64 = 1 << 18;
/// More nanoseconds than a comparison of clock and counter may be wrong by.
const ERROR: u64 = 1_000;

impl TscClock {
    /// The process's clock; `None` if the counter does not run steadily, and in a child of a process that has one,
    /// where a thread that was changing it does not exist. The first call takes 5 ms.
    pub(crate) fn get() -> Option<&'static Self> {
        static CLOCK: OnceLock<Option<TscClock>> = OnceLock::new();
        // The number of forks when it was made, plus one; 0 until then.
        static MADE: AtomicU64 = AtomicU64::new(0);
        fork::watch();
        let here = u64::from(fork::forks()) + 1;
        let _ = MADE.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
        if MADE.load(Ordering::Relaxed) != here {
            return None;
        }
        CLOCK
            .get_or_init(|| {
                (cfg!(target_arch = "x86_64") && Self::counter_is_steady()).then(Self::calibrated)
            })
            .as_ref()
    }

    /// Returns true if Linux uses the processor's time stamp counter, having compared those of all cores.
    fn counter_is_steady() -> bool {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(source).is_ok_and(|source| source.trim() == "tsc")
    }

    fn calibrated() -> Self {
        let first = Measured::now();
        std::thread::sleep(Duration::from_millis(5));
        Self::new(&first, Measured::now())
    }

    fn new(first: &Measured, now: Measured) -> Self {
        let rate = now.factor_since(first);
        Self {
            sequence: AtomicU32::new(0),
            counter: AtomicU64::new(now.counter),
            nanoseconds: AtomicU64::new(now.nanoseconds),
            factor: AtomicU64::new(rate),
            steering: Mutex::new(Steering { last: now, rate, was_off: false }),
        }
    }

    /// Compares counter and clock, if a second has passed since the last time, or the line no longer holds.
    pub(crate) fn steer(&self) {
        let (line, counter) = self.line(counter);
        let (shown, clock) = (line.at(counter), BootClock.now());
        let passed = shown.saturating_sub(line.nanoseconds);
        if passed >= PERIOD || clock.saturating_sub(shown) > OFF || line.is_past(counter) {
            let mut steering = self.steering.lock().unwrap_or_else(PoisonError::into_inner);
            self.follow(&mut steering, Measured::now());
        }
    }

    /// For a session that starts: begins anew at the clock, if no other session steers it.
    pub(crate) fn resume(&self) {
        let mut steering = self.steering.lock().unwrap_or_else(PoisonError::into_inner);
        self.resume_at(&mut steering, Measured::now());
    }

    fn resume_at(&self, steering: &mut Steering, now: Measured) {
        if now.nanoseconds.saturating_sub(steering.last.nanoseconds) > 2 * PERIOD {
            (steering.last, steering.was_off) = (now, false);
            self.publish(&Line { counter: now.counter, nanoseconds: now.nanoseconds, factor: steering.rate });
        }
    }

    /// Makes the line that goes on from here.
    fn follow(&self, steering: &mut Steering, now: Measured) {
        let (line, counter) = self.line(|| now.counter);
        let shown = line.at(counter);
        let jumps = line.is_past(counter) || now.nanoseconds.saturating_sub(shown) > OFF;
        if !jumps && now.nanoseconds.saturating_sub(steering.last.nanoseconds) < PERIOD {
            return;
        }
        // The rate over the time that passed. Not over a sleep; but if it is far off twice in a row, the rate is wrong.
        let is_off = jumps || shown.abs_diff(now.nanoseconds) > OFF;
        if !is_off || (steering.was_off && !line.is_past(counter)) {
            steering.rate = now.factor_since(&steering.last);
        }
        (steering.last, steering.was_off) = (now, is_off);
        self.publish(&if jumps {
            // A thread that found the counter restarted has read the clock itself, and must not see an earlier time.
            let nanoseconds = shown.max(now.nanoseconds.saturating_add(ERROR));
            Line { counter, nanoseconds, factor: steering.rate }
        } else {
            // A correction that meets the clock in a second; a line far ahead goes on at half its pace, never back.
            let target = now.nanoseconds.saturating_add(PERIOD).saturating_sub(shown).max(PERIOD / 2);
            let factor = (u128::from(steering.rate) * u128::from(target) / u128::from(PERIOD)) as u64;
            Line { counter, nanoseconds: shown, factor }
        });
    }

    /// The caller holds the lock of `steering`.
    fn publish(&self, line: &Line) {
        self.sequence.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.counter.store(line.counter, Ordering::Relaxed);
        self.nanoseconds.store(line.nanoseconds, Ordering::Relaxed);
        self.factor.store(line.factor, Ordering::Relaxed);
        self.sequence.fetch_add(1, Ordering::Release);
    }

    /// The line, and what the counter showed while this was the line.
    #[inline]
    fn line(&self, counter: impl Fn() -> u64) -> (Line, u64) {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let line = Line {
                counter: self.counter.load(Ordering::Relaxed),
                nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
                factor: self.factor.load(Ordering::Relaxed),
            };
            let counter = counter();
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.sequence.load(Ordering::Relaxed) == before {
                return (line, counter);
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        let (line, counter) = self.line(counter);
        if counter < line.counter { self.before() } else { line.at(counter) }
    }

    /// The time if the counter is before the line's start: another core's, or restarted with no new line yet.
    #[cold]
    #[inline(never)]
    fn before(&self) -> u64 {
        let (line, counter) = self.line(counter);
        if line.is_past(counter) { BootClock.now().max(line.nanoseconds) } else { line.at(counter) }
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

#[cfg(test)]
mod tests;
