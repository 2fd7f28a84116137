//! The table of clock pairs in the first page of a region file, each with a check.
//!
//! A kill in between two stores leaves an entry that does not agree with its check: it counts as empty.

use std::sync::Arc;

use super::memory::Control;
use super::{PAGE, number};
use crate::clock::ClockReading;

/// Where the table begins.
const TABLE: usize = 1024;
const ENTRY: usize = 32;

/// Pairs that a session keeps.
pub(crate) const PAIRS_MAX: usize = (PAGE as usize - TABLE) / ENTRY;

/// The table of one file; it keeps the file locked.
pub(crate) struct ClockTable(pub(super) Arc<Control>);

impl ClockTable {
    /// Puts a pair into a place, instead of what is there.
    pub(crate) fn set(&self, place: usize, reading: &ClockReading) {
        if place < PAIRS_MAX {
            let words = [reading.boottime, reading.monotonic, reading.realtime, check(reading)];
            let at = TABLE + ENTRY * place;
            (at..).step_by(8).zip(words).for_each(|(at, word)| self.0.set(at, word));
        }
    }
}

/// The pairs that a first page has, the oldest first.
pub(super) fn read(page: &[u8]) -> Vec<ClockReading> {
    let entries = (TABLE..PAGE as usize).step_by(ENTRY).filter_map(|at| {
        let [boottime, monotonic, realtime] = [at, at + 8, at + 16].map(|at| number(page, at));
        let reading = ClockReading { boottime: boottime?, monotonic: monotonic?, realtime: realtime? };
        (number(page, at + 24)? == check(&reading)).then_some(reading)
    });
    let mut pairs: Vec<_> = entries.collect();
    pairs.sort_unstable_by_key(|reading| reading.boottime);
    pairs
}

/// Never 0 for three zeros, which is what an empty place has.
fn check(reading: &ClockReading) -> u64 {
    let words = [reading.boottime, reading.monotonic, reading.realtime];
    words.iter().fold(1, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 29
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with these pairs, put there as the table does.
    fn page(pairs: &[ClockReading]) -> Vec<u8> {
        let mut page = vec![0; PAGE as usize];
        for (at, pair) in (TABLE..).step_by(ENTRY).zip(pairs) {
            let words = [pair.boottime, pair.monotonic, pair.realtime, check(pair)];
            page[at..at + ENTRY].copy_from_slice(&words.map(u64::to_le_bytes).concat());
        }
        page
    }

    #[test]
    fn of_pairs_those_that_are_whole_are_read_in_the_order_of_time() {
        let pair = |n: u64| ClockReading { boottime: 5 + n, monotonic: 3 + n, realtime: 1 << 60 | n };
        let pairs: Vec<_> = (0..PAIRS_MAX as u64).map(|n| pair(n.wrapping_mul(37) % 96)).collect();
        let whole = page(&pairs);
        assert_eq!(read(&whole), Vec::from_iter((0..96).map(pair)));
        assert_eq!(read(&page(&[])), []);
        // A kill between two stores, or a page that was not written back.
        for word in 0..ENTRY / 8 {
            let mut torn = whole.clone();
            torn[TABLE + ENTRY + 8 * word] ^= 1;
            assert_eq!(read(&torn).len(), PAIRS_MAX - 1);
        }
        assert_eq!(read(&whole[..PAGE as usize - 1]).len(), PAIRS_MAX - 1);
    }
}
