//! The packet that tells what clocks showed at one moment: [`ClockTimes`].

use super::fields::{builtin_clock, clock, clock_snapshot, trace_packet};
use super::{Message, Sink};

/// What clocks showed at one moment, as a packet of the service: a `ClockSnapshot`. From it readers know an event's time
/// of day, and when the events were whose own clock is not boot time.
///
/// Each clock is a number of [`builtin_clock`] and its time in nanoseconds. Later packets of a trace must tell of the
/// same clocks in the same order, with later boot times.
///
/// ```
/// use tracebuf::proto::{ClockTimes, SequenceId, TraceFileWriter, TrustedFields};
/// use tracebuf::proto::fields::builtin_clock::{BOOTTIME, REALTIME};
///
/// let now = ClockTimes(&[(BOOTTIME, 5_000_000_000), (REALTIME, 1_700_000_000_000_000_000)]);
/// let mut file = [0; 128];
/// let mut writer = TraceFileWriter::new(&mut file[..]);
/// writer.message(&now, &TrustedFields::new(0, SequenceId::SERVICE)).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTimes<'t>(pub &'t [(u64, u64)]);

impl Message for ClockTimes<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        if let Some((_, time)) = self.0.iter().find(|(id, _)| *id == builtin_clock::BOOTTIME) {
            out.varint(trace_packet::TIMESTAMP, *time)?;
            out.varint(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME)?;
        }
        out.message(trace_packet::CLOCK_SNAPSHOT, &Snapshot(self.0))
    }
}

struct Snapshot<'t>(&'t [(u64, u64)]);

impl Message for Snapshot<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        self.0.iter().try_for_each(|(id, time)| out.message(clock_snapshot::CLOCKS, &Clock(*id, *time)))?;
        out.varint(clock_snapshot::PRIMARY_TRACE_CLOCK, builtin_clock::BOOTTIME)
    }
}

struct Clock(u64, u64);

impl Message for Clock {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(clock::CLOCK_ID, self.0)?;
        out.varint(clock::TIMESTAMP, self.1)
    }
}
