//! The removal from a trace of what happened before a moment.
//!
//! Times of a thread's events are distances, and names and tracks are referred to by number. So an event that is left
//! out must leave its distance to the next one, and its names to all. Only events are left out: a packet that also
//! holds names or defaults, or reports a loss, stays without its event.
//! Values of incremental counters stay as well: later values count from them.

use std::collections::{HashMap, HashSet};

use tracebuf::proto::fields::{
    builtin_clock, clock, counter_descriptor, trace, trace_packet, trace_packet_defaults, track_descriptor,
    track_event, track_event_defaults, track_event_type,
};
use tracebuf::proto::reader::{Fields, message, number};
use tracebuf::proto::{PacketView, Sink, TracePackets};

#[derive(Clone, Copy, Default)]
struct Sequence {
    /// Its default clock, once a state was seen.
    clock: Option<u64>,
    /// Nanoseconds per unit of that clock if its times are distances, otherwise 0.
    unit: u64,
    /// Boot time of its last packet, in nanoseconds.
    now: u64,
    /// Units of the packets left out since the last one kept.
    owed: u64,
    /// The track of events that name none.
    track: Option<u64>,
}

pub(crate) struct Trim {
    /// Boot time, in nanoseconds, of the first moment to keep.
    from: u64,
    sequences: HashMap<u64, Sequence>,
    /// The tracks of incremental counters, as far as they were described.
    incremental: HashSet<u64>,
}

/// The track of the counter that a packet's event, if that is a value of one, changes.
fn counter(packet: &PacketView<'_>, sequence: &Sequence) -> Option<u64> {
    let event = packet.event?;
    let is_value = number(event, track_event::TYPE) == Some(track_event_type::COUNTER);
    if is_value { number(event, track_event::TRACK_UUID).or(sequence.track) } else { None }
}

impl Sequence {
    /// From the packet that begins a state.
    fn begin(packet: &PacketView<'_>) -> Self {
        let id = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID)
            .unwrap_or(builtin_clock::BOOTTIME);
        let of = |id: u64| packet.clocks().find(|clock| number(clock, clock::CLOCK_ID) == Some(id));
        let now = of(builtin_clock::BOOTTIME).and_then(|clock| number(clock, clock::TIMESTAMP));
        let own = of(id).filter(|clock| number(clock, clock::IS_INCREMENTAL) == Some(1));
        match (now, own) {
            (Some(now), Some(own)) => {
                let unit = number(own, clock::UNIT_MULTIPLIER_NS).unwrap_or(1).max(1);
                Self { clock: Some(id), unit, now, ..Self::default() }
            }
            _ => Self { clock: Some(id), ..Self::default() },
        }
    }

    /// Another default clock, set after the state's beginning: nothing here says what its times count from.
    fn change_defaults(&mut self, packet: &PacketView<'_>) {
        let id = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        if id.is_some() && id != self.clock {
            *self = Self { clock: id, track: self.track, ..Self::default() };
        }
        self.track = message(packet.defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS)
            .and_then(|defaults| number(defaults, track_event_defaults::TRACK_UUID))
            .or(self.track);
    }
}

impl Trim {
    pub(crate) fn new(from: u64) -> Self {
        Self { from, sequences: HashMap::new(), incremental: HashSet::new() }
    }

    /// Appends what stays of whole packets to `out`; returns how many packets that is.
    pub(crate) fn apply(&mut self, packets: &[u8], out: &mut Vec<u8>) -> u64 {
        let mut kept = 0;
        for bytes in TracePackets::new(packets).map_while(Result::ok) {
            kept += u64::from(self.packet(bytes, out));
        }
        kept
    }

    /// False if nothing of the packet stays.
    fn packet(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let packet = PacketView::of(bytes);
        if let (Some(track), Some(counter)) = (
            number(packet.track, track_descriptor::UUID),
            message(packet.track, track_descriptor::COUNTER).filter(|counter| !counter.is_empty()),
        ) {
            match number(counter, counter_descriptor::IS_INCREMENTAL) {
                Some(1..) => self.incremental.insert(track),
                _ => self.incremental.remove(&track),
            };
        }
        let sequence = self.sequences.entry(packet.sequence_id).or_default();
        if packet.begins_state() {
            *sequence = Sequence::begin(&packet);
            sequence.change_defaults(&packet);
            return put(out, bytes, None, false);
        }
        sequence.change_defaults(&packet);
        // Nearly always there are no such counters, and no event need be looked into.
        let is_increment = !self.incremental.is_empty()
            && counter(&packet, sequence).is_some_and(|track| self.incremental.contains(&track));
        let tells_more = packet.has_names || packet.loss != 0 || !packet.defaults.is_empty();
        let may_go = packet.event.is_some() && !is_increment;
        let Some(time) = packet.time else { return put(out, bytes, None, false) };
        // The default clock is also that of packets that need nothing else of the state.
        let of_sequence = packet.clock.is_none() || packet.clock == sequence.clock;
        if sequence.unit > 0 && of_sequence {
            sequence.now = sequence.now.saturating_add(time.saturating_mul(sequence.unit));
            if sequence.now >= self.from || !may_go {
                let owed = std::mem::take(&mut sequence.owed);
                return put(out, bytes, (owed > 0).then(|| time.saturating_add(owed)), false);
            }
            sequence.owed = sequence.owed.saturating_add(time);
            return tells_more && put(out, bytes, None, true);
        }
        let clock = match (packet.clock, sequence.clock) {
            (Some(clock), _) | (None, Some(clock)) => clock,
            // Its state is gone, and with it what its time counts from; it is older than the next state.
            (None, None) if packet.needs_state() => return packet.loss != 0 && put(out, bytes, None, true),
            (None, _) => builtin_clock::BOOTTIME,
        };
        let is_old = clock == builtin_clock::BOOTTIME && time < self.from;
        if is_old && may_go {
            return tells_more && put(out, bytes, None, true);
        }
        put(out, bytes, None, false)
    }
}

/// Appends a packet, with another time, or without time and event.
fn put(out: &mut Vec<u8>, bytes: &[u8], time: Option<u64>, without_event: bool) -> bool {
    let mut changed = Vec::new();
    let bytes = if time.is_none() && !without_event {
        bytes
    } else {
        for field in Fields::of(bytes) {
            match (field.number, time) {
                (trace_packet::TIMESTAMP, Some(time)) => {
                    let Ok(()) = changed.varint(trace_packet::TIMESTAMP, time);
                }
                (
                    trace_packet::TIMESTAMP | trace_packet::TIMESTAMP_CLOCK_ID | trace_packet::TRACK_EVENT,
                    None,
                ) => {}
                _ => changed.extend_from_slice(field.whole),
            }
        }
        &changed
    };
    let Ok(()) = out.bytes(trace::PACKET, bytes);
    true
}

#[cfg(test)]
mod tests;
