//! The time of a sequence's packets.

use tracebuf::proto::fields::{builtin_clock, clock, clock_snapshot, trace_packet_defaults};
use tracebuf::proto::reader::{FieldValue, Fields, number};
use tracebuf::proto::{PacketView, Sink};

use super::limits;

/// A moment by a clock that needs no state, in its nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) time: u64,
    pub(super) clock: u64,
}

impl Moment {
    pub(super) fn of_boot_time(time: u64) -> Self {
        Self { time, clock: builtin_clock::BOOTTIME }
    }

    /// Whether one is known to come before another.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.clock == other.clock && self.time < other.time
    }
}

/// The time of a sequence whose times are distances.
pub(super) struct Time {
    unit: u64,
    reference: u64,
    start: u64,
    /// How many units have passed since.
    units: u64,
}

impl Time {
    #[inline(always)]
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// The time of a packet so many units after the last one, in units since the start.
    #[inline(always)]
    pub(super) fn after(&self, units: u64) -> u64 {
        self.units.wrapping_add(units)
    }

    /// It is so many units since the start.
    #[inline(always)]
    pub(super) fn set(&mut self, units: u64) {
        self.units = units;
    }

    pub(super) fn moment(&self) -> Moment {
        self.at(self.units)
    }

    pub(super) fn at(&self, units: u64) -> Moment {
        let time = self.start.wrapping_add(units.wrapping_mul(self.unit));
        Moment { time, clock: self.reference }
    }
}

#[derive(Clone, Default)]
pub(super) struct SequenceClock {
    /// The default clock.
    id: Option<u64>,
    /// Nanoseconds per unit if times are distances, otherwise 0.
    unit: u64,
    /// The clock that they can be told in, and its time at the snapshot and at the last packet.
    reference: u64,
    start: u64,
    now: u64,
    snapshot: Vec<u8>,
}

impl SequenceClock {
    /// From the packet that begins a state.
    pub(super) fn of(packet: &PacketView<'_>) -> Self {
        let mut begun = Self::default();
        begun.read(packet);
        begun
    }

    /// Takes over what a packet says of clocks.
    pub(super) fn read(&mut self, packet: &PacketView<'_>) {
        let id = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        if packet.snapshot.is_empty() {
            if id.is_some() && id != self.id {
                // Nothing here says what its times count from.
                *self = Self { id, snapshot: std::mem::take(&mut self.snapshot), ..Self::default() };
            }
            return;
        }
        self.id = id.or(self.id);
        let own = self.id.unwrap_or(builtin_clock::BOOTTIME);
        self.snapshot.clear();
        if packet.snapshot.len() <= limits::STATE {
            self.snapshot.extend_from_slice(packet.snapshot);
        }
        let of = |id: u64| packet.clocks().find(|clock| number(clock, clock::CLOCK_ID) == Some(id));
        let is_builtin = |clock: &&[u8]| {
            number(clock, clock::CLOCK_ID).is_some_and(|id| (1..=builtin_clock::MAX_ID).contains(&id))
        };
        let reference = of(builtin_clock::BOOTTIME).or_else(|| packet.clocks().find(is_builtin));
        let counts = of(own).filter(|clock| number(clock, clock::IS_INCREMENTAL) == Some(1));
        self.unit = 0;
        if let (Some(reference), Some(counts)) = (reference, counts)
            && let Some(time) = number(reference, clock::TIMESTAMP)
        {
            self.reference = number(reference, clock::CLOCK_ID).unwrap_or(builtin_clock::BOOTTIME);
            self.unit = number(counts, clock::UNIT_MULTIPLIER_NS).unwrap_or(1).max(1);
            (self.start, self.now) = (time, time);
        }
    }

    /// Whether times of the default clock are distances from a known time.
    #[inline(always)]
    pub(super) fn counts(&self) -> bool {
        self.unit > 0
    }

    /// The time alone, for many packets in a row.
    #[inline(always)]
    pub(super) fn clone_of_time(&self) -> Time {
        Time { unit: self.unit, reference: self.reference, start: self.now, units: 0 }
    }

    #[inline(always)]
    pub(super) fn set_time(&mut self, time: &Time) {
        self.now = time.moment().time;
    }

    /// The moment of a packet whose state is known, if it can be told without that, and how far it moves this clock.
    pub(super) fn moment(&self, packet: &PacketView<'_>) -> Option<(Moment, u64)> {
        let time = packet.time?;
        let clock = packet.clock.or(self.id);
        let clock = match clock {
            Some(clock) if self.unit > 0 && Some(clock) == self.id => {
                let distance = time.wrapping_mul(self.unit);
                let time = self.now.wrapping_add(distance);
                return Some((Moment { time, clock: self.reference }, distance));
            }
            Some(clock) => clock,
            None => builtin_clock::BOOTTIME,
        };
        (clock <= builtin_clock::MAX_ID).then_some((Moment { time, clock }, 0))
    }

    /// The time of the last packet where times are distances, in nanoseconds by whichever clock they are told in.
    pub(super) fn time(&self) -> u64 {
        self.now
    }

    /// It is this time now.
    pub(super) fn go_to(&mut self, time: u64) {
        self.now = time;
    }

    /// As it was written.
    pub(super) fn snapshot(&self) -> &[u8] {
        &self.snapshot
    }

    pub(super) fn pass(&mut self, distance: u64) {
        self.now = self.now.wrapping_add(distance);
    }

    /// The moment of the last packet, if it can be told.
    pub(super) fn now(&self) -> Option<Moment> {
        (self.unit > 0).then_some(Moment { time: self.now, clock: self.reference })
    }

    /// Writes the snapshot as of now, and returns the moment that it is of, if there is one.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Option<Moment> {
        if self.unit == 0 {
            out.extend_from_slice(&self.snapshot);
            return None;
        }
        let passed = self.now.wrapping_sub(self.start);
        for field in Fields::of(&self.snapshot) {
            let (clock_snapshot::CLOCKS, FieldValue::Bytes(bytes)) = (field.number, field.value) else {
                out.extend_from_slice(field.whole);
                continue;
            };
            let unit = number(bytes, clock::UNIT_MULTIPLIER_NS).unwrap_or(1).max(1);
            let mut moved = Vec::with_capacity(bytes.len() + 10);
            for field in Fields::of(bytes) {
                match (field.number, field.value) {
                    (clock::TIMESTAMP, FieldValue::Number(time)) => {
                        let Ok(()) = moved.varint(clock::TIMESTAMP, time.wrapping_add(passed / unit));
                    }
                    _ => moved.extend_from_slice(field.whole),
                }
            }
            let Ok(()) = out.bytes(clock_snapshot::CLOCKS, &moved);
        }
        self.now()
    }

    pub(super) fn size(&self) -> usize {
        self.snapshot.len()
    }
}
