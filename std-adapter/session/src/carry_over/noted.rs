//! The form of what is noted of sequences beside a ring in a file: packets in lists of their own, each with a checksum.

use tracebuf::proto::Sink;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{FieldValue, Fields};
use tracebuf::vm::Keep;

/// Field of a packet for the number of its state; numbers are never used again.
pub(super) const STATE: u32 = 2000;
/// Field of a packet for a place.
pub(super) const PLACE: u32 = 2001;
/// Field of a packet for its checksum, at its end.
const CHECK: u32 = 2002;

/// The kinds of packets with which states and places are kept.
pub(super) const KINDS: [Keep<'static>; 2] = [
    Keep { list: STATE, with: &[STATE], by: &[trace_packet::TRUSTED_PACKET_SEQUENCE_ID] },
    Keep { list: PLACE, with: &[PLACE], by: &[trace_packet::TRUSTED_PACKET_SEQUENCE_ID] },
];

pub(super) mod place {
    pub(in crate::carry_over) const STATE: u32 = 1;
    pub(in crate::carry_over) const CHUNK: u32 = 2;
    /// Where in the chunk it was gone on with.
    pub(in crate::carry_over) const FROM: u32 = 3;
    /// Only if the state was the same before the chunk.
    pub(in crate::carry_over) const BEFORE: u32 = 4;
    pub(in crate::carry_over) const AFTER: u32 = 5;
    /// Sums of incremental counters after the chunk.
    pub(in crate::carry_over) const COUNTERS: u32 = 6;
    pub(in crate::carry_over) const UUID: u32 = 1;
    pub(in crate::carry_over) const SUM: u32 = 2;
    pub(in crate::carry_over) const FRACTION: u32 = 3;
}

/// The place of a sequence.
#[derive(Clone, Default)]
pub(super) struct Noted {
    pub(super) chunk_id: u32,
    pub(super) from: u16,
    pub(super) before: Option<u64>,
    /// The number of its state; 0: it is not known.
    pub(super) state: u64,
}

/// The packets of a list that are whole.
pub(super) fn noted(state: &[u8], list: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(state).filter_map(move |field| match field.value {
        FieldValue::Bytes(packet) if field.number == list => unsealed(packet),
        _ => None,
    })
}

/// Whether a list of the state is one of these, and not of packets for traces.
pub(super) fn is_noted(list: u32) -> bool {
    list == STATE || list == PLACE
}

const SEAL: usize = 10;

/// Appends a packet's checksum.
pub(super) fn seal(packet: &mut Vec<u8>) {
    let check = check(packet);
    let Ok(()) = packet.fixed64(CHECK, check);
}

/// The packet without its checksum, if that is right.
pub(super) fn unsealed(packet: &[u8]) -> Option<&[u8]> {
    let (content, seal) = packet.split_at_checked(packet.len().checked_sub(SEAL)?)?;
    let check = check(content).to_le_bytes();
    (seal.get(SEAL - check.len()..) == Some(&check)).then_some(content)
}

/// FNV-1a: against accidents.
fn check(bytes: &[u8]) -> u64 {
    let mixed = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, mixed)
}
