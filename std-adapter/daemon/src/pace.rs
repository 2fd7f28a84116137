//! Pauses, so that what comes in small pieces, one soon after another, is taken together: [`Pace`].

use std::time::{Duration, Instant};

/// Bytes that are worth to be woken for: some messages of a producer that sends each page as soon as it is full.
const WORTH: f64 = 512.0;
/// Bytes that came at once beyond which nothing is gained by more.
const PLENTY: usize = 4 * WORTH as usize;
/// The longest pause. A producer goes on meanwhile in the rest of its shared memory.
const LONGEST: Duration = Duration::from_micros(500);

/// Microseconds without anything after which what came before says nothing any more.
const REST: f64 = 10_000.0;

/// How much comes in a time, and so how long to wait for enough.
///
/// To be woken costs more than to take in a page. A program that records without a pause wakes its service for each, some
/// ten thousand times a second.
#[derive(Debug)]
pub(crate) struct Pace {
    last: Instant,
    /// Bytes in a microsecond, of late.
    rate: f64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), rate: 0.0 }
    }

    /// How long to pause, now that so many bytes have come; nothing if little comes, or much at once.
    pub(crate) fn pause(&mut self, now: Instant, bytes: usize) -> Option<Duration> {
        let micros = now.saturating_duration_since(self.last).as_secs_f64() * 1e6;
        self.last = now;
        // After a rest nothing is known of what comes.
        let weight = if micros > REST { 1.0 } else { 0.125 };
        self.rate += (bytes as f64 / micros.max(1.0) - self.rate) * weight;
        let pause = Duration::try_from_secs_f64(WORTH / self.rate / 1e6).ok()?;
        (pause < 4 * LONGEST && bytes < PLENTY).then(|| pause.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last pause of many, when so many bytes come after each so many microseconds.
    fn after(bytes: usize, micros: u64) -> Option<Duration> {
        let mut pace = Pace::new();
        let start = Instant::now();
        (1..100)
            .map(|number| pace.pause(start + Duration::from_micros(number * micros), bytes))
            .last()
            .flatten()
    }

    #[test]
    fn pauses_are_as_long_as_it_takes_for_enough_to_come_and_none_where_that_is_long() {
        let pause = after(64, 20).expect("soon");
        assert!((Duration::from_micros(150)..Duration::from_micros(170)).contains(&pause), "{pause:?}");
        assert_eq!([100, 200].map(|micros| after(64, micros)), [Some(LONGEST); 2], "not longer");
        assert_eq!((after(64, 300), after(5000, 20)), (None, None));
    }

    #[test]
    fn the_first_after_a_rest_is_taken_at_once() {
        let mut pace = Pace::new();
        let start = Instant::now();
        (1..100).for_each(|number| _ = pace.pause(start + Duration::from_micros(number * 20), 64));
        let mut later = start;
        let rests = (0..20).filter(|_| {
            later += Duration::from_millis(100);
            pace.pause(later, 64).is_some()
        });
        assert_eq!(rests.count(), 0);
    }
}
