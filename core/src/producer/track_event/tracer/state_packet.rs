//! The packet that starts an incremental state.

use crate::proto::fields::{
    builtin_clock, clock, clock_snapshot, sequence_flags, trace_packet, trace_packet_defaults,
};

/// The trace's incremental clock: the first of those that a sequence has for itself.
const INCREMENTAL: u64 = builtin_clock::MAX_ID + 1;

/// Fields of the packet that starts a state: a number and its value, or which of the values in `start_state`,
/// or a message.
const fn number(field: u32, value: u64) -> (u8, u8) {
    // From there on, it would be taken for an index or for a message.
    assert!(value < VALUE as u64);
    (byte(field), value as u8)
}

const fn value(field: u32, index: u8) -> (u8, u8) {
    (byte(field), VALUE | index)
}

const fn message(field: u32) -> (u8, u8) {
    (byte(field), u8::MAX)
}

const fn byte(field: u32) -> u8 {
    assert!(field != END.0 as u32 && field <= u8::MAX as u32);
    field as u8
}

pub(super) const VALUE: u8 = 0x80;
const END: (u8, u8) = (0, 0);
const FLAGS: u64 = sequence_flags::INCREMENTAL_STATE_CLEARED | sequence_flags::NEEDS_INCREMENTAL_STATE;

pub(super) static STATE: &[(u8, u8)] = &[
    value(trace_packet::TIMESTAMP, 0),
    value(trace_packet::TIMESTAMP_CLOCK_ID, 1),
    number(trace_packet::SEQUENCE_FLAGS, FLAGS),
    message(trace_packet::CLOCK_SNAPSHOT),
    message(clock_snapshot::CLOCKS),
    value(clock::CLOCK_ID, 1),
    value(clock::TIMESTAMP, 0),
    END,
    message(clock_snapshot::CLOCKS),
    number(clock::CLOCK_ID, INCREMENTAL),
    value(clock::TIMESTAMP, 2),
    number(clock::IS_INCREMENTAL, 1),
    value(clock::UNIT_MULTIPLIER_NS, 3),
    END,
    value(clock_snapshot::PRIMARY_TRACE_CLOCK, 1),
    END,
    message(trace_packet::TRACE_PACKET_DEFAULTS),
    number(trace_packet_defaults::TIMESTAMP_CLOCK_ID, INCREMENTAL),
    message(trace_packet_defaults::TRACK_EVENT_DEFAULTS),
];
