//! Pairs of clocks: what boot time, the steady clock and the time of day showed, again and again while a session runs.
//!
//! Readers know the time of day of an event from the newest pair before it. So every file of a session begins with the
//! pair of its start, has those from while it ran, and one that is newer than its events. The drain thread looks at the
//! clocks ([`ClockPairs::look`]), and keeps a pair every ten seconds. When a clock has moved against boot time, as after
//! a sleep of the machine or when somebody sets the time of day, it keeps two: what it saw last before, and what it
//! sees now. In between, at most [a second](crate::waits::MAX_SLEEP), it is not known which of them holds.
//!
//! **To write a file**, call [`Piece::clocks`] with `ClocksWritten::default()` before anything else goes into it: that
//! writes them all, in order. For what is appended to the same file later, call it with what it returned the last time.
//!
//! However long the session runs there are at most [`PAIRS_MAX`]: the first, those of the last ten minutes, those on both
//! sides of a change, and of the rest the fewer the older. They lie in the [files of buffers](crate::region_file) too.

use std::io;

use crate::clock::{BootClock, ClockReading};
use crate::export::Piece;
use crate::region_file::{ClockTable, PAIRS_MAX};
use tracebuf::producer::track_event::Clock;

/// Nanoseconds between two looks, at least.
const LOOK: u64 = 100_000_000;
/// Nanoseconds between two pairs that are kept.
const PERIOD: u64 = 10_000_000_000;
/// Nanoseconds by which clocks have moved against each other if the reason is not how they were read.
const MOVED: u64 = 1_000_000;
/// The newest pairs, which stay.
const NEWEST: usize = 60;

/// The pairs of a session, the oldest first.
#[derive(Default)]
pub(crate) struct ClockPairs {
    kept: Vec<Kept>,
    last: ClockReading,
    next_look: u64,
    /// Where they are kept for the case of a kill.
    tables: Vec<ClockTable>,
}

struct Kept {
    reading: ClockReading,
    /// Its place in the tables.
    place: usize,
}

/// How much of them a file has: the boot time of the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClocksWritten(u64);

impl ClocksWritten {
    /// Of a file that begins with these.
    pub(crate) fn of(start: &ClockReading) -> Self {
        Self(start.boottime)
    }

    /// The boot time of the newest.
    pub(crate) fn boottime(self) -> u64 {
        self.0
    }
}

impl ClockPairs {
    /// Begins with the pair of a session's start.
    pub(crate) fn new(start: ClockReading, tables: Vec<ClockTable>) -> Self {
        let mut pairs = Self { tables, ..Self::default() };
        pairs.see(start);
        pairs
    }

    /// Looks at the clocks, if it is time.
    pub(crate) fn look(&mut self) {
        if BootClock.now() >= self.next_look {
            self.see(ClockReading::now());
        }
    }

    fn see(&mut self, now: ClockReading) {
        let last = std::mem::replace(&mut self.last, now);
        self.next_look = now.boottime.saturating_add(LOOK);
        let Some(newest) = self.kept.last().map(|kept| kept.reading) else { return self.keep(now) };
        if has_moved(&last, &now) {
            if last.boottime > newest.boottime {
                self.keep(last);
            }
            self.keep(now);
        } else if now.boottime.saturating_sub(newest.boottime) >= PERIOD {
            self.keep(now);
        }
    }

    fn keep(&mut self, reading: ClockReading) {
        let place = if self.kept.len() < PAIRS_MAX { self.kept.len() } else { self.forget_one() };
        self.tables.iter().for_each(|table| table.set(place, &reading));
        self.kept.push(Kept { reading, place });
    }

    /// Makes room: forgets the pair that tells least, and returns its place.
    fn forget_one(&mut self) -> usize {
        let age = |kept: &Kept| self.last.boottime.saturating_sub(kept.reading.boottime);
        let old = self.kept.windows(3).zip(1..).take(self.kept.len().saturating_sub(1 + NEWEST));
        let value = |around: &[Kept]| {
            let [before, this, after] = around else { return (true, u64::MAX) };
            let is_change =
                [(before, this), (this, after)].map(|(one, other)| has_moved(&one.reading, &other.reading));
            // The gap that it would leave, measured by how long ago that is.
            let gap = u128::from(age(before).saturating_sub(age(after)));
            let share = (gap << 32) / u128::from(age(this).max(1));
            (is_change.contains(&true), u64::try_from(share).unwrap_or(u64::MAX))
        };
        let least = old.min_by_key(|(around, _)| value(around)).map_or(1, |(_, at)| at);
        self.kept.remove(least).place
    }
}

/// Whether a clock has moved against boot time from one reading to the other.
fn has_moved(one: &ClockReading, other: &ClockReading) -> bool {
    one.offsets().into_iter().zip(other.offsets()).any(|(one, other)| one.abs_diff(other) > MOVED)
}

impl Piece {
    /// Adds the pairs that are newer than what a file has, those of this moment the last. Call it when the events that
    /// come into the file have been recorded.
    pub(crate) fn clocks(
        &mut self,
        pairs: &mut ClockPairs,
        since: ClocksWritten,
    ) -> io::Result<ClocksWritten> {
        let now = ClockReading::now();
        pairs.see(now);
        let kept = pairs.kept.iter().map(|kept| kept.reading).filter(|kept| kept.boottime < now.boottime);
        for reading in kept.chain([now]).filter(|reading| reading.boottime > since.0) {
            self.clock_reading(&reading)?;
        }
        Ok(ClocksWritten(now.boottime.max(since.0)))
    }

    /// Adds a packet with a reading of the clocks.
    pub fn clock_reading(&mut self, reading: &ClockReading) -> io::Result<()> {
        self.service(reading)
    }
}

#[cfg(test)]
mod tests;
