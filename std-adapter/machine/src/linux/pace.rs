//! The times of looks at the machine.

use std::time::{Duration, Instant};

/// Looks come at even times, and leave the machine to others in between.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    next_look: Instant,
}

impl Pace {
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_look: now }
    }

    /// Notes that a look has ended, and returns the time until the next: at least as long as this one took.
    pub(super) fn looked(&mut self, begun: Instant, now: Instant) -> Duration {
        let due = self.next_look;
        // One that came late by more than the interval is not followed by another to make up for it.
        let due = if begun >= due + self.interval { begun } else { due };
        self.next_look = (due + self.interval).max(now + (now - begun));
        self.next_look - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_take_longer_than_the_interval_leave_time_for_others() {
        let start = Instant::now();
        let at = |time: u64| start + Duration::from_millis(time);
        let mut pace = Pace::new(Duration::from_millis(10), start);
        let mut looked = |begun, now| pace.looked(at(begun), at(now)).as_millis();
        assert_eq!(looked(0, 40), 40);
        assert_eq!(looked(80, 600), 520);
        // The thread did not run for a long time.
        assert_eq!(looked(6000, 6001), 9);
        // Short looks come at even times.
        assert_eq!(looked(6013, 6014), 6);
        assert_eq!(looked(6020, 6021), 9);
    }
}
