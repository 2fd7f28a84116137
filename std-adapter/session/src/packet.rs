//! A packet of a trace: whose it is, its time, its losses, and the messages that readers look into.

use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{clock_snapshot, data_loss_reason, sequence_flags, trace_packet};

use crate::fields::{Fields, Value, messages, push_number, push_packet};

/// What is in a packet. If a field occurs twice, the last one counts; a message that is missing is empty.
#[derive(Debug, Default)]
pub struct Packet<'p> {
    /// The packet without the file's tag and length.
    content: &'p [u8],
    /// Whether it consists of fields and nothing else. If not, the others are those up to the first malformed one.
    is_well_formed: bool,
    pub sequence_id: u64,
    pub pid: Option<i32>,
    pub time: Option<u64>,
    pub clock: Option<u64>,
    /// Bits of `sequence_flags`; older writers have a separate field for one of them.
    pub flags: u64,
    /// What was lost before it: bits of `DataLoss`.
    pub loss: u64,
    /// Whether its writer wrote none before.
    pub is_first: bool,
    snapshot: &'p [u8],
    pub defaults: &'p [u8],
    pub track: &'p [u8],
    pub event: Option<&'p [u8]>,
    pub has_names: bool,
    pub statistics: Option<&'p [u8]>,
    pub ftrace_events: &'p [u8],
    /// Whether it contains others, compressed.
    pub is_compressed: bool,
}

impl<'p> Packet<'p> {
    /// Of a packet without the file's tag and length.
    // Inlined, so that what the caller does not use is not even computed.
    #[inline(always)]
    pub fn of(content: &'p [u8]) -> Self {
        let mut packet = Self { content, ..Self::default() };
        let mut begins_state = false;
        let mut parts = Fields::of(content);
        for field in &mut parts {
            match (field.number, field.value) {
                (trace_packet::TRUSTED_PACKET_SEQUENCE_ID, Value::Number(id)) => packet.sequence_id = id,
                (trace_packet::TRUSTED_PID, Value::Number(pid)) => packet.pid = Some(pid as i32),
                (trace_packet::TIMESTAMP, Value::Number(time)) => packet.time = Some(time),
                (trace_packet::TIMESTAMP_CLOCK_ID, Value::Number(clock)) => packet.clock = Some(clock),
                (trace_packet::SEQUENCE_FLAGS, Value::Number(flags)) => packet.flags = flags,
                (trace_packet::INCREMENTAL_STATE_CLEARED, Value::Number(is_so)) => begins_state = is_so != 0,
                (trace_packet::PREVIOUS_PACKET_DROPPED, Value::Number(loss)) => packet.loss = loss,
                (trace_packet::FIRST_PACKET_ON_SEQUENCE, Value::Number(is_so)) => {
                    packet.is_first = is_so != 0
                }
                (trace_packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => packet.snapshot = snapshot,
                (trace_packet::TRACE_PACKET_DEFAULTS, Value::Bytes(defaults)) => packet.defaults = defaults,
                (trace_packet::TRACK_DESCRIPTOR, Value::Bytes(track)) => packet.track = track,
                (trace_packet::TRACK_EVENT, Value::Bytes(event)) => packet.event = Some(event),
                (trace_packet::INTERNED_DATA, _) => packet.has_names = true,
                (trace_packet::TRACE_STATS, Value::Bytes(statistics)) => packet.statistics = Some(statistics),
                (trace_packet::FTRACE_EVENTS, Value::Bytes(bundle)) => packet.ftrace_events = bundle,
                (trace_packet::COMPRESSED_PACKETS | trace_packet::ZSTD_COMPRESSED_PACKETS, _) => {
                    packet.is_compressed = true;
                }
                _ => {}
            }
        }
        packet.flags |= if begins_state { sequence_flags::INCREMENTAL_STATE_CLEARED } else { 0 };
        packet.is_well_formed = parts.is_at_end();
        packet
    }

    /// `None` unless it is one well-formed packet with tag and length.
    #[inline(always)]
    pub fn of_file(bytes: &'p [u8]) -> Option<Self> {
        let mut packets = TracePackets::new(bytes);
        let packet = Self::of(packets.next()?.ok()?);
        (packets.offset() == bytes.len() && packet.is_well_formed).then_some(packet)
    }

    pub fn begins_state(&self) -> bool {
        self.flags & sequence_flags::INCREMENTAL_STATE_CLEARED != 0
    }

    pub fn needs_state(&self) -> bool {
        self.flags & sequence_flags::NEEDS_INCREMENTAL_STATE != 0
    }

    /// The clocks of its snapshot.
    pub fn clocks(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        messages(self.snapshot, clock_snapshot::CLOCKS)
    }

    /// The packet for the file; if something was `lost` before it, it says so besides what it said already.
    pub fn bytes(&self, lost: bool) -> Vec<u8> {
        let mut suffix = Vec::new();
        if lost {
            let loss = self.loss | u64::from(data_loss_reason::PRESENT);
            push_number(&mut suffix, trace_packet::PREVIOUS_PACKET_DROPPED, loss);
        }
        let mut bytes = Vec::with_capacity(self.content.len() + suffix.len() + 8);
        push_packet(&mut bytes, &[self.content, &suffix]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_field_that_occurs_twice_the_last_counts() {
        // Sequence 2 and then 3; statistics of 1 byte and of none; a state begins, and then none does.
        let content = [0x50, 2, 0x50, 3, 0x9A, 0x02, 1, 0, 0x9A, 0x02, 0, 0xC8, 2, 1, 0xC8, 2, 0];
        let packet = Packet::of(&content);
        assert_eq!((packet.sequence_id, packet.statistics), (3, Some(&[][..])));
        assert!(!packet.begins_state() && packet.is_well_formed);
    }
}
