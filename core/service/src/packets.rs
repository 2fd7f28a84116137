//! Packets that the service itself writes into a trace.

use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::{
    concurrent_session_event, received_trigger, slow_data_source, slow_data_sources, trace_uuid,
};
use tracebuf::proto::fields::{builtin_clock, clock, clock_snapshot, system_info, trace_packet, utsname};
use tracebuf::proto::{Message, SequenceId, TrustedFields};

use crate::host::{Clocks, Machine};
use crate::sessions::{FiredTrigger, Moment, OtherSession};
use crate::wire::ProtoBuilder;
use crate::wire::answers::{VERSION, signed};

const MARKER: [u8; 16] =
    [0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79];

/// A packet of the service's, which is complete but for its fields.
fn packet(uid: u32) -> ProtoBuilder {
    let mut fields = Vec::new();
    let Ok::<_, core::convert::Infallible>(()) =
        TrustedFields::new(uid, SequenceId::SERVICE).encode(&mut fields);
    ProtoBuilder::new().fields(&fields)
}

fn at(uid: u32, time: u64) -> ProtoBuilder {
    packet(uid)
        .number(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME)
        .number(trace_packet::TIMESTAMP, time)
}

pub(crate) fn clocks(uid: u32, clocks: &Clocks, primary: u64) -> ProtoBuilder {
    let all = [
        (builtin_clock::BOOTTIME, clocks.boottime),
        (builtin_clock::REALTIME_COARSE, clocks.realtime_coarse),
        (builtin_clock::MONOTONIC_COARSE, clocks.monotonic_coarse),
        (builtin_clock::REALTIME, clocks.realtime),
        (builtin_clock::MONOTONIC, clocks.monotonic),
        (builtin_clock::MONOTONIC_RAW, clocks.monotonic_raw),
        (builtin_clock::TSC, clocks.tsc),
    ];
    let is_there = |(id, time): &(u64, u64)| *id != builtin_clock::TSC || *time != 0;
    let snapshot = ProtoBuilder::new().each(all.into_iter().filter(is_there), |snapshot, (id, time)| {
        let one = ProtoBuilder::new().number(clock::CLOCK_ID, id).number(clock::TIMESTAMP, time);
        snapshot.message(clock_snapshot::CLOCKS, &one)
    });
    let snapshot = snapshot.number(clock_snapshot::PRIMARY_TRACE_CLOCK, primary);
    at(uid, clocks.boottime).message(trace_packet::CLOCK_SNAPSHOT, &snapshot)
}

/// What readers of a damaged trace look for.
pub(crate) fn marker(uid: u32) -> ProtoBuilder {
    packet(uid).bytes(trace_packet::SYNCHRONIZATION_MARKER, &MARKER)
}

pub(crate) fn config(uid: u32, config: &[u8], now: u64) -> ProtoBuilder {
    at(uid, now).bytes(trace_packet::TRACE_CONFIG, config)
}

/// The packet that says what a trace is called in the world: a number of 128 bits, `now` as boot time. `uid` is the
/// service's user.
#[must_use]
pub fn uuid(uid: u32, [msb, lsb]: [u64; 2], now: u64) -> ProtoBuilder {
    let uuid = ProtoBuilder::new().number(trace_uuid::MSB, msb).number(trace_uuid::LSB, lsb);
    at(uid, now).message(trace_packet::TRACE_UUID, &uuid)
}

pub(crate) fn system(machine: &Machine, now: u64) -> ProtoBuilder {
    let kernel = ProtoBuilder::new()
        .bytes(utsname::SYSNAME, machine.sysname.as_bytes())
        .bytes(utsname::VERSION, machine.version.as_bytes())
        .bytes(utsname::RELEASE, machine.release.as_bytes())
        .bytes(utsname::MACHINE, machine.machine.as_bytes());
    let info = ProtoBuilder::new()
        .message(system_info::UTSNAME, &kernel)
        .bytes(system_info::TRACING_SERVICE_VERSION, VERSION.as_bytes())
        .number(system_info::PAGE_SIZE, machine.page_size)
        .each(machine.timezone_minutes, |info, minutes| {
            info.number(system_info::TIMEZONE_OFF_MINS, signed(minutes))
        })
        .number(system_info::NUM_CPUS, machine.cpus)
        .number(system_info::SYSTEM_RAM_BYTES, machine.ram);
    at(machine.uid, now).message(trace_packet::SYSTEM_INFO, &info)
}

pub(crate) fn moment(uid: u32, moment: &Moment) -> ProtoBuilder {
    let event = if moment.sources.is_empty() {
        ProtoBuilder::new().number(moment.kind, moment.value)
    } else {
        let sources = ProtoBuilder::new().each(&moment.sources, |all, (producer, source)| {
            let one = ProtoBuilder::new()
                .bytes(slow_data_source::PRODUCER_NAME, producer.as_bytes())
                .bytes(slow_data_source::DATA_SOURCE_NAME, source.as_bytes());
            all.message(slow_data_sources::DATA_SOURCE, &one)
        });
        ProtoBuilder::new().message(moment.kind, &sources)
    };
    at(uid, moment.time).message(trace_packet::SERVICE_EVENT, &event)
}

/// What another session became.
pub(crate) fn other(uid: u32, other: &OtherSession) -> ProtoBuilder {
    use concurrent_session_event as fields;
    let event = ProtoBuilder::new()
        .number(fields::STATE, other.state.number())
        .bytes(fields::SESSION_NAME, other.name.as_bytes())
        .number(fields::SESSION_ID, other.id)
        .number(fields::CONSUMER_UID, signed(other.uid as i32))
        .number(fields::NUM_DATA_SOURCES, other.sources as u64);
    at(uid, other.time).message(trace_packet::CONCURRENT_SESSION_EVENT, &event)
}

/// A trigger, as that field of a packet.
pub(crate) fn trigger(uid: u32, field: u32, fired: &FiredTrigger) -> ProtoBuilder {
    let told = ProtoBuilder::new()
        .bytes(received_trigger::TRIGGER_NAME, fired.name.as_bytes())
        .bytes(received_trigger::PRODUCER_NAME, fired.producer.as_bytes())
        .number(received_trigger::TRUSTED_PRODUCER_UID, signed(fired.uid as i32))
        .number(received_trigger::STOP_DELAY_MS, fired.stop_delay_ms);
    at(uid, fired.time).message(field, &told)
}

pub(crate) fn stats(uid: u32, stats: &[u8], now: u64) -> ProtoBuilder {
    at(uid, now).bytes(trace_packet::TRACE_STATS, stats)
}

/// Whose sequences buffers have.
pub(crate) fn provenance(uid: u32, provenance: &ProtoBuilder, now: u64) -> ProtoBuilder {
    at(uid, now).message(trace_packet::TRACE_PROVENANCE, provenance)
}

/// Whose packets are patches, and programs with their states: `TraceProvenance` and `ProtoVms`.
pub(crate) fn programs(uid: u32, provenance: &[u8], vms: &[u8], now: u64) -> [ProtoBuilder; 2] {
    let told = [(trace_packet::TRACE_PROVENANCE, provenance), (trace_packet::PROTOVMS, vms)];
    told.map(|(field, message)| at(uid, now).bytes(field, message))
}
