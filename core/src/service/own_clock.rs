//! Clocks of packets that are not boot time, and whether the trace relates them to it.

use crate::proto::fields::{builtin_clock, trace_packet};
use crate::proto::{WireType, tag, varint};

/// The clocks that a trace relates to boot time: a bit for each number of a builtin clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelatedClocks(u64);

impl RelatedClocks {
    /// Those of a trace in which nothing tells of clocks yet.
    pub(super) const NONE: Self = Self(1 << builtin_clock::BOOTTIME);
    /// Those of a trace that tells of all clocks that its packets have.
    pub(super) const ALL: Self = Self(u64::MAX);

    /// Adds one; false if it was there.
    pub(super) fn add(&mut self, id: u64) -> bool {
        let bit = 1u64.checked_shl(u32::try_from(id).unwrap_or(u32::MAX)).unwrap_or(0);
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }

    /// Whether there is no other.
    pub(super) const fn are_all(self) -> bool {
        self.0 == u64::MAX
    }
}

/// Bytes of what comes before it in the first packet of a sequence, of two tags, a time and a clock's number.
const HEAD: usize = 3 + 1 + varint::MAX_LEN + 2 + 1;

/// The builtin clock and the time with which a packet begins, as each state of a
/// [`Tracer`](crate::producer::track_event::Tracer) does.
pub(super) fn own_clock<'a>(slices: impl Iterator<Item = &'a [u8]>) -> Option<(u64, u64)> {
    let (mut head, mut len) = ([0; HEAD], 0);
    for slice in slices {
        let room = head.get_mut(len..).unwrap_or_default();
        let part = slice.len().min(room.len());
        if let (Some(room), Some(slice)) = (room.get_mut(..part), slice.get(..part)) {
            room.copy_from_slice(slice);
        }
        len += part;
        if len == HEAD {
            break;
        }
    }
    const FIRST: u64 = tag(trace_packet::FIRST_PACKET_ON_SEQUENCE, WireType::Varint) as u64;
    const TIME: u64 = tag(trace_packet::TIMESTAMP, WireType::Varint) as u64;
    const CLOCK: u64 = tag(trace_packet::TIMESTAMP_CLOCK_ID, WireType::Varint) as u64;
    let (mut rest, mut time) = (head.get(..len)?, None);
    loop {
        let (field, value) = varint::split(rest)?;
        let (value, after) = varint::split(value)?;
        match field {
            FIRST => {}
            TIME => time = Some(value),
            CLOCK => return Some((value, time?)).filter(|(id, _)| (1..=builtin_clock::MAX_ID).contains(id)),
            _ => return None,
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_found_wherever_the_packet_is_cut_and_only_at_its_begin() {
        let packet = [0x40, 0x80, 0x01, 0xD0, 0x03, 3, 0x68, 1];
        for cut in 0..=packet.len() {
            let (one, other) = packet.split_at(cut);
            assert_eq!(own_clock([one, other].into_iter()), Some((3, 128)));
        }
        let longest = [&[0xB8, 5, 1, 0x40][..], &[0xFF; 9], &[1, 0xD0, 0x03, 63]].concat();
        assert_eq!(longest.len(), HEAD);
        assert_eq!(own_clock(longest.chunks(1)), Some((63, u64::MAX)));
        for other in [
            &[0x40, 5][..],
            &[],
            &[0x40, 5, 0x68, 1],
            &[0x40, 5, 0xD0, 0x03],
            &[0x40, 5, 0xD0, 0x03, 64],
            &[0x40, 5, 0xD0, 0x03, 0],
            &[0xD0, 0x03, 3, 0x40, 5],
        ] {
            assert_eq!(own_clock([other].into_iter()), None, "{other:?}");
        }
    }

    #[test]
    fn a_clock_is_new_once() {
        let mut clocks = RelatedClocks::NONE;
        let found = [6, 3, 3, 1, 63, 1].map(|id| clocks.add(id));
        assert_eq!(found, [false, true, false, true, true, false]);
        assert!(!clocks.are_all() && RelatedClocks::ALL.are_all());
    }
}
