//! Turns of the buffers that are read in a period.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The buffers that have more to read in a period, taking turns: one that is filled as fast as it is read keeps neither
/// the others waiting nor the next period, which begins with a flush.
pub(super) struct Turns {
    buffers: VecDeque<usize>,
    fresh: usize,
    until: Instant,
}

impl Turns {
    /// Each of this many buffers has at least one turn, and more only within this time.
    pub(super) fn new(buffers: usize, time: Duration) -> Self {
        Self { buffers: (0..buffers).collect(), fresh: buffers, until: Instant::now() + time }
    }

    /// The buffer whose turn it is. `None` when there is no more to read, or no more time.
    pub(super) fn next(&self) -> Option<usize> {
        let is_over = self.fresh == 0 && Instant::now() >= self.until;
        self.buffers.front().copied().filter(|_| !is_over)
    }

    /// That buffer's turn has ended; `exhausted`: it has nothing more.
    pub(super) fn end(&mut self, exhausted: bool) {
        let at = self.buffers.pop_front();
        self.buffers.extend(at.filter(|_| !exhausted));
        self.fresh = self.fresh.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_turns_until_nothing_is_left() {
        let mut turns = Turns::new(3, Duration::from_secs(3600));
        let mut order = Vec::new();
        while let Some(at) = turns.next() {
            order.push(at);
            // One has nothing, one is read in two turns, one in three.
            turns.end(at < order.iter().filter(|other| **other == at).count());
        }
        assert_eq!(order, [0, 1, 2, 1, 2, 2]);
        assert!(Turns::new(0, Duration::ZERO).next().is_none());
    }

    #[test]
    fn without_time_each_has_one_turn() {
        let mut turns = Turns::new(2, Duration::ZERO);
        for at in 0..2 {
            assert_eq!(turns.next(), Some(at));
            turns.end(false);
        }
        assert_eq!(turns.next(), None);
    }
}
