//! Leaves out of a trace what happened before a moment.
//!
//! Times of a thread's events are distances, or those of a clock, as its state says; names and tracks are referred to
//! by number. So what is left out must leave its distance to the next event, and its names to all. Only events are left
//! out; a packet that holds names or defaults beside an event, or says that something before it is lost, stays without
//! the event: what comes after a loss must not be read with the state from before it.

use std::collections::HashMap;

use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{
    builtin_clock, clock, clock_snapshot, sequence_flags, trace_packet, trace_packet_defaults,
};

use crate::fields::{Fields, Value, push_number, push_packet};

/// A writer's time.
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
}

/// Goes over a trace, piece by piece.
pub(crate) struct Trim {
    /// Boot time, in nanoseconds, of the first moment to keep.
    from: u64,
    sequences: HashMap<u64, Sequence>,
}

/// The last number of a field; messages merge, numbers replace each other.
fn number(message: &[u8], wanted: u32) -> Option<u64> {
    let numbers = Fields::of(message).filter_map(|field| match field.value {
        Value::Number(value) if field.number == wanted => Some(value),
        _ => None,
    });
    numbers.last()
}

/// The parts of a packet that concern its time.
#[derive(Default)]
struct Packet<'a> {
    sequence: u64,
    time: Option<u64>,
    clock: Option<u64>,
    flags: u64,
    clears_state: bool,
    snapshot: &'a [u8],
    defaults: &'a [u8],
    is_event: bool,
    has_names: bool,
    is_after_loss: bool,
}

impl<'a> Packet<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut packet = Self::default();
        for field in Fields::of(bytes) {
            match (field.number, field.value) {
                (trace_packet::TIMESTAMP, Value::Number(time)) => packet.time = Some(time),
                (trace_packet::TIMESTAMP_CLOCK_ID, Value::Number(clock)) => packet.clock = Some(clock),
                (trace_packet::SEQUENCE_FLAGS, Value::Number(flags)) => packet.flags = flags,
                (trace_packet::INCREMENTAL_STATE_CLEARED, Value::Number(is_so)) => {
                    packet.clears_state = is_so != 0;
                }
                (trace_packet::TRUSTED_PACKET_SEQUENCE_ID, Value::Number(id)) => packet.sequence = id,
                (trace_packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => packet.snapshot = snapshot,
                (trace_packet::TRACE_PACKET_DEFAULTS, Value::Bytes(defaults)) => packet.defaults = defaults,
                (trace_packet::TRACK_EVENT, _) => packet.is_event = true,
                (trace_packet::INTERNED_DATA, _) => packet.has_names = true,
                (trace_packet::PREVIOUS_PACKET_DROPPED, Value::Number(loss)) => {
                    packet.is_after_loss = loss != 0;
                }
                _ => {}
            }
        }
        packet
    }

    /// Whether it begins a state; older writers have a separate field for that.
    fn begins_state(&self) -> bool {
        self.clears_state || self.flags & sequence_flags::INCREMENTAL_STATE_CLEARED != 0
    }

    /// Whether it holds more than its event.
    fn tells_more(&self) -> bool {
        self.has_names || self.is_after_loss || !self.defaults.is_empty()
    }
}

impl Sequence {
    /// From the packet that begins a state.
    fn begin(packet: &Packet<'_>) -> Self {
        let id = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID)
            .unwrap_or(builtin_clock::BOOTTIME);
        let clocks = || {
            Fields::of(packet.snapshot).filter_map(|field| match field.value {
                Value::Bytes(clock) if field.number == clock_snapshot::CLOCKS => Some(clock),
                _ => None,
            })
        };
        let of = |id: u64| clocks().find(|clock| number(clock, clock::CLOCK_ID) == Some(id));
        let now = of(builtin_clock::BOOTTIME).and_then(|clock| number(clock, clock::TIMESTAMP));
        let own = of(id).filter(|clock| number(clock, clock::IS_INCREMENTAL) == Some(1));
        match (now, own) {
            (Some(now), Some(own)) => {
                let unit = number(own, clock::UNIT_MULTIPLIER_NS).unwrap_or(1).max(1);
                Self { clock: Some(id), unit, now, owed: 0 }
            }
            _ => Self { clock: Some(id), ..Self::default() },
        }
    }

    /// Another default clock, set after the state's beginning: nothing here says what its times count from.
    fn change_defaults(&mut self, packet: &Packet<'_>) {
        let id = number(packet.defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID);
        if id.is_some() && id != self.clock {
            *self = Self { clock: id, ..Self::default() };
        }
    }
}

impl Trim {
    pub(crate) fn new(from: u64) -> Self {
        Self { from, sequences: HashMap::new() }
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
        let packet = Packet::of(bytes);
        let sequence = self.sequences.entry(packet.sequence).or_default();
        if packet.begins_state() {
            *sequence = Sequence::begin(&packet);
            return put(out, bytes, None, false);
        }
        sequence.change_defaults(&packet);
        let Some(time) = packet.time else { return put(out, bytes, None, false) };
        let needs_state = packet.flags & sequence_flags::NEEDS_INCREMENTAL_STATE != 0;
        // The default clock is also that of packets that need nothing else of the state.
        let of_sequence = packet.clock.is_none() || packet.clock == sequence.clock;
        if sequence.unit > 0 && of_sequence {
            sequence.now = sequence.now.saturating_add(time.saturating_mul(sequence.unit));
            if sequence.now >= self.from || !packet.is_event {
                let owed = std::mem::take(&mut sequence.owed);
                return put(out, bytes, (owed > 0).then(|| time.saturating_add(owed)), false);
            }
            sequence.owed = sequence.owed.saturating_add(time);
            return packet.tells_more() && put(out, bytes, None, true);
        }
        let clock = match (packet.clock, sequence.clock) {
            (Some(clock), _) | (None, Some(clock)) => clock,
            // Its state is gone, and with it what its time counts from; it is older than the next state.
            (None, None) if needs_state => return packet.is_after_loss && put(out, bytes, None, true),
            (None, _) => builtin_clock::BOOTTIME,
        };
        let is_old = clock == builtin_clock::BOOTTIME && time < self.from;
        if is_old && packet.is_event {
            return packet.tells_more() && put(out, bytes, None, true);
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
                    push_number(&mut changed, trace_packet::TIMESTAMP, time);
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
    push_packet(out, &[bytes]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(packets: &[&[u8]]) -> Vec<u8> {
        let mut trace = Vec::new();
        packets.iter().for_each(|packet| assert!(put(&mut trace, packet, None, false)));
        trace
    }

    /// Sequence 2 at boot time 1000, in units of 10 ns.
    const STATE: &[u8] = &[
        0x40, 0xE8, 0x07, 0x68, 3, 0x50, 2, // timestamp 1000, sequence_flags 3, sequence 2
        0x32, 17, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, // clock 6 at 1000
        0x0A, 8, 0x08, 64, 0x10, 100, 0x18, 1, 0x20, 10, // clock 64, incremental, by 10
        0xDA, 0x03, 3, 0xD0, 0x03, 64, // defaults: clock 64
    ];

    /// An event `delta` units after the one before, with or without names.
    fn event(delta: u8, names: bool) -> Vec<u8> {
        let mut packet = vec![0x40, delta, 0x68, 2, 0x50, 2, 0x5A, 2, 0x48, 3];
        packet.extend_from_slice(if names { &[0x62, 2, 0x12, 0][..] } else { &[] });
        packet
    }

    fn trimmed(from: u64, packets: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        Trim::new(from).apply(&framed(packets), &mut out);
        TracePackets::new(&out).map(|packet| packet.expect("a packet").to_vec()).collect()
    }

    #[test]
    fn what_is_left_out_leaves_its_time_to_the_next_event_and_its_names_to_all() {
        let (named, plain) = (event(5, true), event(5, false));
        // At 1050, 1100, 1150 and 1200.
        let kept = trimmed(1150, &[STATE, &named, &plain, &plain, &plain]);
        let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
        assert_eq!(kept, [STATE.to_vec(), names, event(15, false), plain]);
    }

    #[test]
    fn a_moment_before_the_state_leaves_everything_as_it_is() {
        let (named, plain) = (event(5, true), event(200, false));
        let packets = [STATE, &named, &plain, &[0x40, 0x80, 0x08, 0x50, 3]];
        assert_eq!(trimmed(1000, &packets), packets);
    }

    #[test]
    fn packets_with_times_of_their_own_and_those_whose_state_is_gone_are_left_out_too() {
        let old: &[u8] = &[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3];
        let timeless: &[u8] = &[0xE2, 0x03, 0, 0x50, 3];
        let other_clock: &[u8] = &[0x40, 100, 0xD0, 0x03, 3, 0x50, 3, 0x5A, 2, 0x48, 3];
        let kept = trimmed(1000, &[&event(5, true), old, timeless, other_clock]);
        assert_eq!(kept, [timeless, other_clock]);
    }

    #[test]
    fn a_loss_is_told_before_what_comes_after_it_also_if_the_event_that_told_is_left_out() {
        let loss = [0xD0, 0x02, 0x81, 0x02];
        let lossy = [&event(5, false)[..], &loss].concat();
        let (told, new) = ([&[0x68, 2, 0x50, 2][..], &loss].concat(), event(100, false));
        // At 1050 and 2050.
        let owing = event(105, false);
        assert_eq!(trimmed(1500, &[STATE, &lossy, &new]), [STATE, &told, &owing]);
        // From a packet whose state is gone.
        assert_eq!(trimmed(1500, &[&lossy, STATE, &new]), [&told, STATE, &new]);
        // From an old event with a time of its own.
        let old = [&[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3][..], &loss].concat();
        assert_eq!(trimmed(1500, &[&old]), [[&[0x50, 3][..], &loss].concat()]);
        // A field that says that nothing is lost.
        assert_eq!(trimmed(1500, &[&[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3, 0xD0, 0x02, 0]]), [[0u8; 0]; 0]);
    }

    #[test]
    fn times_that_are_no_distances_are_compared_as_they_are() {
        let plain = STATE.get(..7).expect("time, flags and sequence");
        let of_boot_time = [plain, &[0xDA, 0x03, 3, 0xD0, 0x03, 6]].concat();
        let of_another = [plain, &[0xDA, 0x03, 3, 0xD0, 0x03, 3]].concat();
        // At 2000 and 5.
        let (new, old) = ([&[0x40, 0xD0, 0x0F][..], &event(0, true)[2..]].concat(), event(5, true));
        let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
        for state in [plain, &of_boot_time] {
            assert_eq!(trimmed(1000, &[state, &old, &new]), [state, &names, &new]);
        }
        // With another clock it is unknown what is old.
        assert_eq!(trimmed(1000, &[&of_another, &old, &new]), [&of_another, &old, &new].map(Vec::as_slice));
    }

    #[test]
    fn an_old_event_that_names_its_clock_leaves_its_names_and_a_track_stays_whatever_its_time() {
        let boot_time = [0xD0, 0x03, 6];
        let (old, named) =
            ([&event(5, false)[..], &boot_time].concat(), [&event(5, true)[..], &boot_time].concat());
        let track = [0x40, 5, 0x68, 2, 0x50, 2, 0xD0, 0x03, 6, 0xE2, 0x03, 2, 0x08, 1];
        let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
        assert_eq!(trimmed(1000, &[STATE, &old, &named, &track]), [STATE, &names, &track]);
    }

    #[test]
    fn a_state_is_one_too_where_the_packet_says_so_as_older_writers_do() {
        // With incremental_state_cleared instead of sequence_flags, and boot time as the clock.
        let state: &[u8] = &[0x40, 0xE8, 0x07, 0xC8, 2, 1, 0x50, 2];
        let (old, new) = (event(5, false), [&[0x40, 0xD0, 0x0F][..], &event(0, false)[2..]].concat());
        assert_eq!(trimmed(1500, &[state, &old, &new]), [state, &new]);
        let distances = [state, STATE.get(7..).expect("clocks and defaults")].concat();
        // At 1050 and 2050.
        assert_eq!(
            trimmed(1500, &[&distances, &event(5, false), &event(100, false)]),
            [&distances[..], &event(105, false)]
        );
        // One that says that no state begins begins none.
        let no_state = [&event(100, false)[..], &[0xC8, 2, 0]].concat();
        assert_eq!(
            trimmed(1500, &[STATE, &no_state, &event(1, false)]),
            [STATE, &no_state, &event(1, false)]
        );
    }

    #[test]
    fn a_packet_that_needs_no_state_is_of_the_sequence_s_clock_too() {
        // At 1050, 1100 and 2100; the second needs no state, and is an event or a track.
        let without = |packet: &[u8]| [&[0x40, 5][..], packet].concat();
        let (event_5, track_5) =
            (without(&[0x50, 2, 0x5A, 2, 0x48, 3]), without(&[0x50, 2, 0xE2, 0x03, 2, 0x08, 1]));
        let (old, new) = (event(5, false), event(100, false));
        assert_eq!(trimmed(1500, &[STATE, &old, &event_5, &new]), [STATE, &event(110, false)]);
        let track_10 = [&[0x40, 10][..], &track_5[2..]].concat();
        assert_eq!(trimmed(1500, &[STATE, &old, &track_5, &new]), [STATE, &track_10, &new]);
        let newer = [&[0x40, 100][..], &event_5[2..]].concat();
        assert_eq!(trimmed(1500, &[STATE, &newer, &newer]), [STATE, &newer, &newer]);
    }

    #[test]
    fn defaults_that_come_behind_the_state_are_the_sequence_s() {
        let state = STATE.get(..7).expect("time, flags and sequence");
        // For clock 65, which is unknown; and then for boot time.
        let defaults = |clock| [0x50, 2, 0xDA, 0x03, 3, 0xD0, 0x03, clock];
        let (unknown, boot_time, old) = (defaults(65), defaults(6), event(5, false));
        for state in [state, STATE] {
            let kept = trimmed(1500, &[state, &unknown, &old, &boot_time, &old]);
            assert_eq!(kept, [state, &unknown, &old, &boot_time]);
        }
        // Beside an event that is left out.
        let (beside, new) = ([&old, &boot_time[2..]].concat(), [0x40, 0xD0, 0x0F, 0x68, 2, 0x50, 2]);
        assert_eq!(
            trimmed(1500, &[state, &beside, &new]),
            [state, &[&[0x68, 2], &boot_time[..]].concat(), &new]
        );
        // As they were.
        let (same, new) = (defaults(64), event(100, false));
        let owing = event(105, false);
        assert_eq!(trimmed(1500, &[STATE, &old, &same, &new]), [STATE, &same, &owing]);
    }
}
