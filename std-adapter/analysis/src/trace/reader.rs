//! Packets of a trace, read in their order: each sequence's state, clocks, tracks, and events as they were told.

use std::collections::HashMap;

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, messages};

use super::clocks::{ClockId, Clocks};
use super::fault::{Fault, FaultKind, TraceError};
use super::record::{Kind, Record, is_legacy};
use super::sequence::Sequence;
use super::tracks::Tracks;

#[derive(Debug, Default)]
pub(super) struct Reader {
    sequences: HashMap<u64, Sequence>,
    pub(super) clocks: Clocks,
    pub(super) tracks: Tracks,
    /// Events whose times are known.
    pub(super) events: Vec<Record>,
    /// Events whose clock is not: a snapshot may come later.
    waiting: Vec<(ClockId, i64, Record)>,
    pub(super) faults: Vec<Fault>,
    /// Sums of counters whose values are distances.
    sums: HashMap<u64, f64>,
}

impl Reader {
    pub(super) fn read(&mut self, at: u64, content: &[u8]) -> Result<(), TraceError> {
        let packet = PacketView::of(content);
        if !packet.is_well_formed {
            return Err(TraceError::Malformed { at });
        }
        let sequence = self.sequences.entry(packet.sequence_id).or_default();
        let mut fault = |kind| self.faults.push(Fault { at, kind });
        let names = if packet.has_names { message(content, trace_packet::INTERNED_DATA) } else { None };
        if packet.sequence_id == 0 {
            if packet.begins_state() || packet.needs_state() || names.is_some() || !packet.defaults.is_empty()
            {
                fault(FaultKind::NoSequence);
                return Ok(());
            }
        } else if packet.begins_state() {
            *sequence = Sequence::begun();
        } else if packet.loss != 0 {
            sequence.is_valid = false;
        }
        if !packet.defaults.is_empty() {
            sequence.set_defaults(packet.defaults);
        }
        if let Some(names) = names.filter(|_| sequence.is_valid) {
            sequence.intern(names);
        }
        if !packet.snapshot.is_empty() {
            if self.clocks.add(&packet).is_none() {
                fault(FaultKind::InvalidClocks);
            }
            // No reader looks for more in it.
            return Ok(());
        }
        // How many are skipped, the report of losses says.
        if packet.needs_state() && !sequence.is_valid {
            return Ok(());
        }
        // Also of a packet without events: the times of some clocks count from the time before.
        let clock = match packet.clock.filter(|clock| *clock != 0).or(sequence.clock) {
            Some(clock) => ClockId::of(packet.sequence_id, clock),
            None => self.clocks.default,
        };
        let time = match (packet.time, clock) {
            (Some(ticks), Some(clock)) => self.clocks.convert(clock, ticks as i64),
            (ticks, _) => ticks.map(|ticks| ticks as i64),
        };
        if !packet.track.is_empty() {
            self.tracks.describe(packet.track, packet.pid).unwrap_or_else(&mut fault);
        }
        for tree in messages(content, trace_packet::PROCESS_TREE) {
            self.tracks.list(tree);
        }
        let Some(event) = packet.event else { return Ok(()) };
        let ticks = match (packet.sequence_id, packet.time) {
            (1.., Some(ticks)) if !is_legacy(event) => ticks as i64,
            (sequence, time) => {
                fault(match time {
                    _ if sequence == 0 => FaultKind::NoSequence,
                    None => FaultKind::NoTime,
                    Some(_) => FaultKind::Unsupported,
                });
                return Ok(());
            }
        };
        let Some(mut record) = Record::of(event, at, sequence, &mut fault) else { return Ok(()) };
        if record.kind == Kind::Counter {
            let Some(value) = self.value_of(event, record.track) else {
                self.faults.push(Fault { at, kind: FaultKind::NoCounter });
                return Ok(());
            };
            record.value = value;
        }
        match (time, clock) {
            (Some(time), _) => self.take(record, time),
            (None, Some(clock)) => self.waiting.push((clock, ticks, record)),
            (None, None) => self.faults.push(Fault { at, kind: FaultKind::UnrelatedClock }),
        }
        Ok(())
    }

    fn take(&mut self, record: Record, time: i64) {
        if time < 0 {
            self.faults.push(Fault { at: record.at, kind: FaultKind::TimeBeforeZero });
        } else {
            self.events.push(Record { time, ..record });
        }
    }

    /// A counter's value, in its unit and from zero.
    fn value_of(&mut self, event: &[u8], track: u64) -> Option<f64> {
        let counter = self.tracks.counter(track)?;
        let value = Record::value_in(event)? * counter.multiplier as f64;
        if !counter.is_incremental {
            return Some(value);
        }
        let sum = self.sums.entry(track).or_insert(0.0);
        *sum += value;
        Some(*sum)
    }

    /// Converts what waited for its clock, and brings all events in the order of their times.
    pub(super) fn finish(&mut self) {
        for (clock, ticks, record) in std::mem::take(&mut self.waiting) {
            match self.clocks.convert(clock, ticks) {
                Some(time) => self.take(record, time),
                None => self.faults.push(Fault { at: record.at, kind: FaultKind::UnrelatedClock }),
            }
        }
        // Of the same time, in the order in which they lie there.
        self.events.sort_by_key(|record| record.time);
    }
}
