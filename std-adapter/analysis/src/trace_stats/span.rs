//! How long a trace is: the first and the last time of its events.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::{builtin_clock, clock, trace_packet_defaults};
use tracebuf::proto::reader::number;

/// The time over which the events of a trace extend, in nanoseconds of boot time.
///
/// ```
/// use tracebuf_session::Session;
/// use tracebuf_analysis::trace_stats::TraceReport;
///
/// let session = Session::builder().start()?;
/// session.recorder().slice("work", || ());
/// let mut trace = Vec::new();
/// session.snapshot()?.write(&mut trace)?;
/// let span = TraceReport::of(&trace).span.expect("it has events");
/// assert!(span.events == 2 && !span.stands_still());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSpan {
    /// The time of the first event.
    pub first: u64,
    /// The time of the last event.
    pub last: u64,
    /// The events whose time is known: packets of writers that have one.
    pub events: u64,
}

impl TimeSpan {
    /// Returns how long it is.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.last - self.first)
    }

    /// Returns true if several events have all the same time: their clock stands still, or reads always the same.
    pub fn stands_still(&self) -> bool {
        self.events > 1 && self.first == self.last
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stands_still() {
            let (events, at) = (self.events, self.first as f64 / 1e9);
            return write!(f, "all {events} events have the same time, {at:.3} s: their clock stands still");
        }
        let seconds = self.duration().as_secs_f64();
        match seconds {
            1.0.. => write!(f, "{seconds:.1} s from the first event to the last"),
            0.001.. => write!(f, "{:.1} ms from the first event to the last", seconds * 1e3),
            _ => write!(f, "{:.1} µs from the first event to the last", seconds * 1e6),
        }
    }
}

/// What is known of clocks while a trace is looked through.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    /// By how much boot time is ahead of a builtin clock, modulo 2⁶⁴, as the service has told first.
    ahead: BTreeMap<u64, u64>,
}

/// The default clock of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceClock {
    /// Its number; 0 until a state has told.
    id: u64,
    /// The builtin clock that it counts from, nanoseconds per unit, and what it shows; for one that counts distances.
    own: Option<(u64, u64, u64)>,
}

/// The time of each clock in a packet, and its description.
fn clocks<'p>(packet: &PacketView<'p>) -> impl Iterator<Item = (u64, u64, &'p [u8])> + use<'p> {
    packet.clocks().filter_map(|told| {
        Some((number(told, clock::CLOCK_ID)?, number(told, clock::TIMESTAMP).unwrap_or(0), told))
    })
}

impl Clocks {
    /// Notes what a packet of the service tells.
    pub(super) fn add(&mut self, packet: &PacketView<'_>) {
        let boottime = clocks(packet).find(|(id, ..)| *id == builtin_clock::BOOTTIME);
        let Some((_, boottime, _)) = boottime else { return };
        for (id, time, _) in clocks(packet).filter(|(id, ..)| *id <= builtin_clock::MAX_ID) {
            self.ahead.entry(id).or_insert(boottime.wrapping_sub(time));
        }
    }

    /// The boot time of an event, from a packet of a sequence whose state is known.
    pub(super) fn time(&self, sequence: &mut SequenceClock, packet: &PacketView<'_>) -> Option<u64> {
        let default = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        if packet.begins_state() {
            *sequence = SequenceClock::default();
            let id = default.unwrap_or(builtin_clock::BOOTTIME);
            let base = clocks(packet).find(|(id, ..)| *id <= builtin_clock::MAX_ID);
            let own = clocks(packet).find(|(of, ..)| *of == id && id > builtin_clock::MAX_ID);
            sequence.own = base.zip(own).and_then(|((base, time, _), (.., own))| {
                let unit = number(own, clock::UNIT_MULTIPLIER_NS).unwrap_or(1).max(1);
                (number(own, clock::IS_INCREMENTAL) == Some(1)).then_some((base, unit, time))
            });
        }
        sequence.id = default.unwrap_or(sequence.id);
        let time = packet.time?;
        let id = packet.clock.unwrap_or(sequence.id);
        let (base, time) = match &mut sequence.own {
            // The state itself says what the clock shows.
            Some(_) if packet.begins_state() => return None,
            Some((base, unit, now)) if id == sequence.id => {
                *now = now.saturating_add(time.saturating_mul(*unit));
                (*base, *now)
            }
            // A clock of its own of which nothing is known.
            _ if id > builtin_clock::MAX_ID => return None,
            _ => (if id == 0 { builtin_clock::BOOTTIME } else { id }, time),
        };
        match (base, self.ahead.get(&base)) {
            (builtin_clock::BOOTTIME, _) => Some(time),
            (_, ahead) => Some(time.wrapping_add(*ahead?)),
        }
    }
}

/// The span with one more event.
pub(super) fn with_event(span: Option<TimeSpan>, time: u64) -> TimeSpan {
    match span {
        None => TimeSpan { first: time, last: time, events: 1 },
        Some(span) => {
            TimeSpan { first: span.first.min(time), last: span.last.max(time), events: span.events + 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use tracebuf_session::Session;

    use super::*;
    use crate::trace_stats::TraceReport;

    fn trace(packets: &[&[u8]]) -> Vec<u8> {
        packets.iter().flat_map(|packet| [&[0x0A, packet.len() as u8], *packet].concat()).collect()
    }

    #[test]
    fn a_trace_is_as_long_as_its_events_are_apart() {
        let session = Session::builder().start().expect("a session");
        session.recorder().instant("first");
        sleep(Duration::from_millis(50));
        // In another thread, with a clock of its own.
        std::thread::scope(|scope| {
            scope.spawn(|| session.recorder().instant("last"));
        });
        sleep(Duration::from_millis(50));
        let mut trace = Vec::new();
        session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
        let report = TraceReport::of(&trace);
        let span = report.span.expect("events");
        let late = span.duration().checked_sub(Duration::from_millis(50));
        assert!(span.events == 2 && late.is_some_and(|late| late < Duration::from_secs(5)), "{span:?}");
        assert!(report.to_string().contains(" from the first event to the last\n"), "{report}");
    }

    #[test]
    fn a_clock_that_stands_still_is_told() {
        let still: &[u8] = &[0x40, 5, 0x50, 2, 0x5A, 0];
        let report = TraceReport::of(&trace(&[still, still, still]));
        assert_eq!(report.span.map(|span| (span.events, span.stands_still())), Some((3, true)));
        assert!(
            report
                .to_string()
                .contains("all 3 events have the same time, 0.000 s: their clock stands still\n")
        );
        let one = TraceReport::of(&trace(&[still])).span.expect("an event");
        assert!(!one.stands_still() && one.duration().is_zero());
        assert_eq!(TraceReport::of(&trace(&[&[0x50, 2, 0x5A, 0]])).span, None);
    }

    #[test]
    fn times_of_all_clocks_are_boot_times_if_the_trace_tells_how_they_relate() {
        // The service tells 100 of boot time and 40 of clock 3, then 8 of clock 1, of which nobody says more.
        let pair: &[u8] = &[0x50, 1, 0x32, 12, 0x0A, 4, 8, 6, 16, 100, 0x0A, 4, 8, 3, 16, 40];
        // A state of clock 64, in units of 10 ns from clock 3's 50 on; then two events, 1 and 2 units later.
        let state: &[u8] = &[
            0x40, 50, 0xD0, 3, 3, 0x50, 2, 0x68, 3, 0x32, 16, 0x0A, 4, 8, 3, 16, 50, 0x0A, 8, 8, 64, 16, 5,
            24, 1, 32, 10, 0xDA, 3, 3, 0xD0, 3, 64,
        ];
        let event = |delta: u8| [0x40, delta, 0x50, 2, 0x68, 2];
        let unknown: &[u8] = &[0x40, 1, 0xD0, 3, 1, 0x50, 3];
        let packets = [pair, state, &event(1), &event(2), unknown];
        let span = TraceReport::of(&trace(&packets)).span.expect("events");
        assert_eq!((span.first, span.last, span.events), (120, 140, 2));
    }

    #[test]
    fn spans_are_told_in_a_unit_that_shows_them() {
        let said = |last| TimeSpan { first: 0, last, events: 2 }.to_string();
        let said = [1_500, 2_500_000, 90_000_000_000].map(said);
        let units =
            ["1.5 µs", "2.5 ms", "90.0 s"].map(|span| format!("{span} from the first event to the last"));
        assert_eq!(said, units);
    }
}
