//! What the service says around a packet.

use tracebuf::buffer::Packet;
use tracebuf::proto::{PacketValidator, TrustedFields, TrustedSuffix, WireType, fields, tag, varint};
use tracebuf::service::sequence_id;

/// What precedes and follows a packet in the file.
pub(super) struct Around {
    head: [u8; 6],
    pub(super) head_len: usize,
    pub(super) trusted: TrustedSuffix,
}

impl Around {
    pub(super) fn new(len: usize, trusted: &TrustedFields) -> Self {
        let trusted = trusted.suffix();
        let mut head = [tag(fields::trace::PACKET, WireType::Length) as u8; 6];
        let whole = len.saturating_add(trusted.as_bytes().len()) as u64;
        let length = head.get_mut(1..).and_then(|room| varint::encode(whole, room)).unwrap_or(0);
        Self { head, head_len: 1 + length, trusted }
    }

    pub(super) fn head(&self) -> &[u8] {
        self.head.get(..self.head_len).unwrap_or_default()
    }
}

/// What goes around a packet; `None` if no reader could read it.
pub(super) fn around(packet: Packet<'_>) -> Option<Around> {
    let valid = PacketValidator::check(packet.slices()).ok()?;
    let id = sequence_id(packet.producer_id(), packet.writer_id());
    let trusted = TrustedFields {
        previous_packet_dropped: u32::from(packet.loss().bits()) | valid.previous_packet_dropped,
        ..TrustedFields::new(packet.uid(), id)
    };
    Some(Around::new(packet.len(), &trusted))
}
