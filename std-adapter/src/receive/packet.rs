//! A received packet: whose it is, and what it says of losses.

use tracebuf::proto::{WireType, fields, tag, varint};

/// A packet of a trace file taken apart.
pub(super) struct Parsed<'p> {
    /// The packet without the file's tag and length.
    content: &'p [u8],
    pub(super) sequence_id: u64,
    dropped: u64,
}

impl<'p> Parsed<'p> {
    /// `None` unless it is one well-formed packet with tag and length.
    pub(super) fn of(bytes: &'p [u8]) -> Option<Self> {
        let (first, rest) = take(bytes)?;
        let (length, content) = take(rest)?;
        let ours = u64::from(tag(fields::trace::PACKET, WireType::Length));
        if first != ours || length != content.len() as u64 {
            return None;
        }
        let mut packet = Self { content, sequence_id: 0, dropped: 0 };
        let mut rest = content;
        while !rest.is_empty() {
            let (tag, after) = take(rest)?;
            let (number, mut value) = (u32::try_from(tag >> 3).ok()?, 0);
            rest = match tag & 7 {
                0 => {
                    let (found, after) = take(after)?;
                    value = found;
                    after
                }
                1 => after.get(8..)?,
                2 => {
                    let (length, after) = take(after)?;
                    after.get(usize::try_from(length).ok()?..)?
                }
                5 => after.get(4..)?,
                _ => return None,
            };
            match number {
                fields::trace_packet::TRUSTED_PACKET_SEQUENCE_ID => packet.sequence_id = value,
                fields::trace_packet::PREVIOUS_PACKET_DROPPED => packet.dropped = value,
                _ => {}
            }
        }
        Some(packet)
    }

    /// The packet for the file; if something was `lost` before it, it says so beside what it said before.
    pub(super) fn bytes(&self, lost: bool) -> Vec<u8> {
        let mut suffix = Vec::new();
        if lost {
            let field = tag(fields::trace_packet::PREVIOUS_PACKET_DROPPED, WireType::Varint);
            push(&mut suffix, field.into());
            push(&mut suffix, self.dropped | u64::from(fields::data_loss_reason::PRESENT));
        }
        let mut bytes = Vec::with_capacity(self.content.len() + suffix.len() + 8);
        push(&mut bytes, tag(fields::trace::PACKET, WireType::Length).into());
        push(&mut bytes, (self.content.len() + suffix.len()) as u64);
        bytes.extend_from_slice(self.content);
        bytes.append(&mut suffix);
        bytes
    }
}

/// A varint, and what follows it.
fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, size) = varint::decode(bytes)?;
    Some((value, bytes.get(size..)?))
}

fn push(bytes: &mut Vec<u8>, value: u64) {
    let mut room = [0; varint::MAX_LEN];
    let size = varint::encode(value, &mut room).unwrap_or(0);
    bytes.extend_from_slice(room.get(..size).unwrap_or_default());
}
