//! Packets of a trace, made field by field.

use tracebuf::proto::Sink;
use tracebuf::proto::fields::*;

/// A message of what `fill` writes.
pub(super) fn message(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    fill(&mut bytes);
    bytes
}

pub(super) fn put(bytes: &mut Vec<u8>, field: u32, value: impl Into<u64>) {
    let Ok(()) = bytes.varint(field, value.into());
}

pub(super) fn put_bytes(bytes: &mut Vec<u8>, field: u32, value: &[u8]) {
    let Ok(()) = bytes.bytes(field, value);
}

/// A packet of a sequence, in a file.
pub(super) fn packet(sequence: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let content = message(|content| {
        fill(content);
        put(content, trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
    });
    message(|file| put_bytes(file, trace::PACKET, &content))
}

/// Clocks read at one moment: number, time, and nanoseconds in a tick of one that counts from the time before.
pub(super) fn snapshot(sequence: u64, clocks: &[(u64, u64, Option<u64>)]) -> Vec<u8> {
    packet(sequence, |content| {
        put(content, trace_packet::SEQUENCE_FLAGS, sequence_flags::INCREMENTAL_STATE_CLEARED);
        let defaults = message(|defaults| {
            put(defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID, 64u64);
            let event = message(|event| put(event, track_event_defaults::TRACK_UUID, 7u64));
            put_bytes(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS, &event);
        });
        put_bytes(content, trace_packet::TRACE_PACKET_DEFAULTS, &defaults);
        let snapshot = message(|snapshot| {
            for (id, time, unit) in clocks {
                let told = message(|told| {
                    put(told, clock::CLOCK_ID, *id);
                    put(told, clock::TIMESTAMP, *time);
                    if let Some(unit) = unit {
                        put(told, clock::IS_INCREMENTAL, 1u64);
                        put(told, clock::UNIT_MULTIPLIER_NS, *unit);
                    }
                });
                put_bytes(snapshot, clock_snapshot::CLOCKS, &told);
            }
            put(snapshot, clock_snapshot::PRIMARY_TRACE_CLOCK, builtin_clock::BOOTTIME);
        });
        put_bytes(content, trace_packet::CLOCK_SNAPSHOT, &snapshot);
    })
}

/// An event that needs a state.
pub(super) fn event(sequence: u64, time: u64, kind: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    packet(sequence, |content| {
        put(content, trace_packet::TIMESTAMP, time);
        put(content, trace_packet::SEQUENCE_FLAGS, sequence_flags::NEEDS_INCREMENTAL_STATE);
        let event = message(|event| {
            put(event, track_event::TYPE, kind);
            fill(event);
        });
        put_bytes(content, trace_packet::TRACK_EVENT, &event);
    })
}

pub(super) fn named(name: &'static str) -> impl FnOnce(&mut Vec<u8>) {
    move |event| put_bytes(event, track_event::NAME, name.as_bytes())
}

pub(super) fn track(uuid: u64, parent: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    packet(9, |content| {
        let track = message(|track| {
            put(track, track_descriptor::UUID, uuid);
            put(track, track_descriptor::PARENT_UUID, parent);
            fill(track);
        });
        put_bytes(content, trace_packet::TRACK_DESCRIPTOR, &track);
    })
}
