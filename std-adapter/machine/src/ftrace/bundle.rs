//! Events of one processor on their way into a packet: `FtraceEventBundle`.

use tracebuf::proto::fields::{ftrace_error, ftrace_event_bundle as field};
use tracebuf::proto::{Message, Sink};

use super::compact::CompactSched;
use super::event::Event;
use super::page::ParseStatus;
use super::source::ClockPair;

/// Bytes at which a bundle ends, so that a ring that overwrites packets loses few events with each. With the last event and
/// the description of its kind it stays below 16 KiB, on pages of 4 KiB.
const FULL: usize = 12 << 10;

/// The buffer's clock, if it is not the trace's: a value of `FtraceClock`, and a moment of both if it is known.
pub(super) type OtherClock = Option<(u64, Option<ClockPair>)>;

/// The bundle that is being filled.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    /// The processor; `None` while no bundle is open.
    cpu: Option<u32>,
    /// All but what is in the next three.
    bytes: Vec<u8>,
    pub(super) compact: CompactSched,
    descriptors: Vec<u8>,
    described: Vec<u16>,
    /// The time of the last event.
    end: Option<u64>,
}

impl Bundle {
    /// Whether a bundle of another processor is open.
    pub(super) fn is_of_another(&self, cpu: u32) -> bool {
        self.cpu.is_some_and(|open| open != cpu)
    }

    /// Begins a bundle, unless one is open. `previous_end` is the time of the last event in the processor's bundles before.
    pub(super) fn begin(&mut self, cpu: u32, has_lost: bool, previous_end: u64, clock: OtherClock) {
        if self.cpu.is_some() {
            return;
        }
        self.cpu = Some(cpu);
        let out = &mut self.bytes;
        let Ok(()) = out.varint(field::CPU, cpu.into());
        if has_lost {
            let Ok(()) = out.bool(field::LOST_EVENTS, true);
        }
        let Ok(()) = out.varint(field::PREVIOUS_BUNDLE_END_TIMESTAMP, previous_end);
        if let Some((clock, moment)) = clock {
            let Ok(()) = out.varint(field::FTRACE_CLOCK, clock);
            if let Some(ClockPair { ftrace, boot }) = moment {
                let Ok(()) = out.int(field::FTRACE_TIMESTAMP, ftrace as i64);
                let Ok(()) = out.int(field::BOOT_TIMESTAMP, boot as i64);
            }
        }
    }

    /// Adds an event in its own message. `descriptor` describes it if Perfetto does not know it by its `id`.
    pub(super) fn event(&mut self, event: &Event<'_>, id: u16, descriptor: Option<&[u8]>) {
        let Ok(()) = self.bytes.message(field::EVENT, event);
        if let Some(descriptor) = descriptor.filter(|_| !self.described.contains(&id)) {
            self.described.push(id);
            let Ok(()) = self.descriptors.bytes(field::GENERIC_EVENT_DESCRIPTORS, descriptor);
        }
    }

    /// Notes the time of an event that was added. Returns true if the bundle is full.
    pub(super) fn added(&mut self, timestamp: u64) -> bool {
        self.end = self.end.max(Some(timestamp));
        self.is_full()
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.compact.len() + self.descriptors.len() >= FULL
    }

    /// Adds the fault of a page. Returns true if the bundle is full.
    pub(super) fn error(&mut self, page_timestamp: Option<u64>, status: ParseStatus) -> bool {
        let mut error = Vec::new();
        if let Some(timestamp) = page_timestamp {
            let Ok(()) = error.varint(ftrace_error::TIMESTAMP, timestamp);
        }
        let Ok(()) = error.varint(ftrace_error::STATUS, status as u64);
        let Ok(()) = self.bytes.bytes(field::ERROR, &error);
        self.is_full()
    }

    /// Ends the bundle, if one is open: appends it to `out` as the field of this number, and returns its processor and its
    /// last event's time.
    pub(super) fn end(&mut self, number: u32, out: &mut Vec<u8>) -> Option<(u32, Option<u64>)> {
        let cpu = self.cpu.take()?;
        let Ok(()) = out.message(number, self);
        self.bytes.clear();
        self.compact.clear();
        self.descriptors.clear();
        self.described.clear();
        Some((cpu, self.end.take()))
    }
}

impl Message for Bundle {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.put(&self.bytes)?;
        if !self.compact.is_empty() {
            out.message(field::COMPACT_SCHED, &self.compact)?;
        }
        out.put(&self.descriptors)
    }
}
