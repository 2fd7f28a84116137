//! A packet of a trace: whose it is, when it is of, and what it says of losses.

use tracebuf::proto::fields::{clock, clock_snapshot};
use tracebuf::proto::{TracePackets, fields};

use crate::fields::{Fields, Value, push_number, push_packet};

/// A parsed packet of a trace file.
pub(crate) struct Parsed<'p> {
    /// The packet without the file's tag and length.
    content: &'p [u8],
    pub(crate) sequence_id: u64,
    /// Whether its writer wrote none before.
    pub(crate) is_first: bool,
    snapshot: &'p [u8],
    dropped: u64,
}

impl<'p> Parsed<'p> {
    /// `None` unless it is one well-formed packet with tag and length.
    pub(crate) fn of(bytes: &'p [u8]) -> Option<Self> {
        let mut packets = TracePackets::new(bytes);
        let content = packets.next()?.ok()?;
        if packets.offset() != bytes.len() {
            return None;
        }
        let mut packet = Self { content, sequence_id: 0, is_first: false, snapshot: &[], dropped: 0 };
        let mut parts = Fields::of(content);
        for field in parts.by_ref() {
            match (field.number, field.value) {
                (fields::trace_packet::TRUSTED_PACKET_SEQUENCE_ID, Value::Number(id)) => {
                    packet.sequence_id = id
                }
                (fields::trace_packet::PREVIOUS_PACKET_DROPPED, Value::Number(causes)) => {
                    packet.dropped = causes
                }
                (fields::trace_packet::FIRST_PACKET_ON_SEQUENCE, Value::Number(is_so)) => {
                    packet.is_first = is_so != 0
                }
                (fields::trace_packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => packet.snapshot = snapshot,
                _ => {}
            }
        }
        if !parts.is_at_end() {
            return None;
        }
        Some(packet)
    }

    /// The first clock of its snapshot, if it has one: the clock's number, and its time.
    #[cfg_attr(not(feature = "receive"), expect(dead_code, reason = "starts are told apart by it"))]
    pub(crate) fn clock(&self) -> Option<(u64, u64)> {
        let first = Fields::of(self.snapshot).find_map(|field| match field.value {
            Value::Bytes(clock) if field.number == clock_snapshot::CLOCKS => Some(clock),
            _ => None,
        })?;
        let number = |of| {
            Fields::of(first).find_map(|field| match field.value {
                Value::Number(number) if field.number == of => Some(number),
                _ => None,
            })
        };
        Some((number(clock::CLOCK_ID)?, number(clock::TIMESTAMP)?))
    }

    /// The packet for the file; if something was `lost` before it, it says so besides what it said already.
    pub(crate) fn bytes(&self, lost: bool) -> Vec<u8> {
        let mut suffix = Vec::new();
        if lost {
            let dropped = self.dropped | u64::from(fields::data_loss_reason::PRESENT);
            push_number(&mut suffix, fields::trace_packet::PREVIOUS_PACKET_DROPPED, dropped);
        }
        let mut bytes = Vec::with_capacity(self.content.len() + suffix.len() + 8);
        push_packet(&mut bytes, &[self.content, &suffix]);
        bytes
    }
}
