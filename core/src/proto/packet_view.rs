//! Fields of a trace's packet, found in one pass: [`PacketView`].

use super::fields::{clock_snapshot, data_loss_reason, sequence_flags, trace, trace_packet as field};
use super::reader::FieldValue::{Bytes, Number};
use super::reader::{Field, Fields, messages};
use super::{Sink, TracePackets, WireType, tag, varint};
use crate::debug::debug_fields;
use core::fmt;

/// A packet of a trace: its sequence and process, its time, what was lost before it, and its messages, not looked into.
///
/// If a field occurs twice, the last one counts; a message that is missing is empty.
///
/// ```
/// use tracebuf::proto::PacketView;
///
/// let packet = PacketView::of(&[0x40, 5, 0x50, 2, 0x5A, 2, 0x48, 1]);
/// assert_eq!((packet.time, packet.sequence_id), (Some(5), 2));
/// assert_eq!(packet.event, Some(&[0x48, 1][..]));
/// ```
#[derive(Clone, Copy, Default)]
pub struct PacketView<'p> {
    /// The packet without the file's tag and length.
    pub content: &'p [u8],
    /// Whether it consists of fields and nothing else. If not, the others are those up to the first malformed one.
    pub is_well_formed: bool,
    /// Its sequence, 0 if it has none.
    pub sequence_id: u64,
    /// The process that the service has found it to be of.
    pub pid: Option<i32>,
    /// Its timestamp, in what its clock counts.
    pub time: Option<u64>,
    /// Its clock, if it is not the sequence's default.
    pub clock: Option<u64>,
    /// Bits of [`sequence_flags`]; older writers have a separate field for one of them.
    pub flags: u64,
    /// What was lost before it: bits of [`data_loss_reason`].
    pub loss: u64,
    /// Whether its writer wrote none before.
    pub is_first: bool,
    /// `ClockSnapshot`.
    pub snapshot: &'p [u8],
    /// `TracePacketDefaults`.
    pub defaults: &'p [u8],
    /// `TrackDescriptor`.
    pub track: &'p [u8],
    /// `TrackEvent`.
    pub event: Option<&'p [u8]>,
    /// Whether it has `InternedData`.
    pub has_names: bool,
    /// `TraceStats`.
    pub statistics: Option<&'p [u8]>,
    /// `FtraceEventBundle`.
    pub ftrace_events: &'p [u8],
    /// `FtraceStats`.
    pub ftrace_stats: &'p [u8],
    /// Whether it contains others, compressed.
    pub is_compressed: bool,
}

impl<'p> PacketView<'p> {
    /// Reads a packet without the file's tag and length.
    // Inlined, so that what the caller does not use is not even computed.
    #[inline(always)]
    pub fn of(content: &'p [u8]) -> Self {
        let mut packet = Self { content, ..Self::default() };
        let mut begins_state = false;
        let mut parts = Fields::of(content);
        for Field { number, value, .. } in &mut parts {
            match (number, value) {
                (field::TRUSTED_PACKET_SEQUENCE_ID, Number(id)) => packet.sequence_id = id,
                (field::TRUSTED_PID, Number(pid)) => packet.pid = Some(pid as i32),
                (field::TIMESTAMP, Number(time)) => packet.time = Some(time),
                (field::TIMESTAMP_CLOCK_ID, Number(clock)) => packet.clock = Some(clock),
                (field::SEQUENCE_FLAGS, Number(flags)) => packet.flags = flags,
                (field::INCREMENTAL_STATE_CLEARED, Number(is_so)) => begins_state = is_so != 0,
                (field::PREVIOUS_PACKET_DROPPED, Number(loss)) => packet.loss = loss,
                (field::FIRST_PACKET_ON_SEQUENCE, Number(is_so)) => packet.is_first = is_so != 0,
                (field::CLOCK_SNAPSHOT, Bytes(snapshot)) => packet.snapshot = snapshot,
                (field::TRACE_PACKET_DEFAULTS, Bytes(defaults)) => packet.defaults = defaults,
                (field::TRACK_DESCRIPTOR, Bytes(track)) => packet.track = track,
                (field::TRACK_EVENT, Bytes(event)) => packet.event = Some(event),
                (field::INTERNED_DATA, _) => packet.has_names = true,
                (field::TRACE_STATS, Bytes(statistics)) => packet.statistics = Some(statistics),
                (field::FTRACE_EVENTS, Bytes(bundle)) => packet.ftrace_events = bundle,
                (field::FTRACE_STATS, Bytes(stats)) => packet.ftrace_stats = stats,
                (field::COMPRESSED_PACKETS | field::ZSTD_COMPRESSED_PACKETS, _) => {
                    packet.is_compressed = true
                }
                _ => {}
            }
        }
        packet.flags |= if begins_state { sequence_flags::INCREMENTAL_STATE_CLEARED } else { 0 };
        packet.is_well_formed = parts.is_at_end();
        packet
    }

    /// Reads a packet with the file's tag and length; `None` unless `bytes` are one well-formed packet.
    #[inline(always)]
    pub fn of_file(bytes: &'p [u8]) -> Option<Self> {
        let mut packets = TracePackets::new(bytes);
        let packet = Self::of(packets.next()?.ok()?);
        (packets.offset() == bytes.len() && packet.is_well_formed).then_some(packet)
    }

    /// Whether the sequence's state begins anew with it.
    pub const fn begins_state(&self) -> bool {
        self.flags & sequence_flags::INCREMENTAL_STATE_CLEARED != 0
    }

    /// Whether it cannot be read without the sequence's state.
    pub const fn needs_state(&self) -> bool {
        self.flags & sequence_flags::NEEDS_INCREMENTAL_STATE != 0
    }

    /// Whether readers can read it, by their rules: after a loss, a packet that needs names, a clock or a track is
    /// skipped until its sequence tells them again. `has_state` is the sequence's, false at first.
    pub const fn can_be_read(&self, has_state: &mut bool) -> bool {
        *has_state = self.begins_state() || *has_state && self.loss == 0;
        *has_state || !self.needs_state()
    }

    /// The clocks of its snapshot: `ClockSnapshot.Clock`.
    pub fn clocks(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        messages(self.snapshot, clock_snapshot::CLOCKS)
    }

    /// Writes it with the file's tag and length. If something was `lost` before it, it says so besides what it said
    /// already.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_to<S: Sink>(&self, lost: bool, out: &mut S) -> Result<(), S::Error> {
        const DROPPED: u32 = tag(field::PREVIOUS_PACKET_DROPPED, WireType::Varint);
        let loss = self.loss | u64::from(data_loss_reason::PRESENT);
        let suffix = if lost { varint::len(DROPPED.into()) + varint::len(loss) } else { 0 };
        out.length(trace::PACKET, self.content.len().saturating_add(suffix))?;
        out.put(self.content)?;
        if lost { out.head(DROPPED, loss) } else { Ok(()) }
    }
}

impl fmt::Debug for PacketView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields!(self, f, "PacketView", sequence_id, pid, time, clock, flags, loss, is_first, content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn of_a_field_that_occurs_twice_the_last_counts() {
        // Sequence 2 and then 3; statistics of 1 byte and of none; a state begins, and then none does.
        let content = [0x50, 2, 0x50, 3, 0x9A, 0x02, 1, 0, 0x9A, 0x02, 0, 0xC8, 2, 1, 0xC8, 2, 0];
        let packet = PacketView::of(&content);
        assert_eq!((packet.sequence_id, packet.statistics), (3, Some(&[][..])));
        assert!(!packet.begins_state() && packet.is_well_formed);
    }

    #[test]
    fn a_packet_of_a_file_is_whole_and_alone() {
        let file = [0x0A, 2, 0x40, 5];
        assert_eq!(PacketView::of_file(&file).and_then(|packet| packet.time), Some(5));
        for other in [&file[..3], &[0x0A, 2, 0x40, 5, 0x0A, 0], &[0x0A, 1, 0x40], &[]] {
            assert!(PacketView::of_file(other).is_none(), "{other:x?}");
        }
    }

    #[test]
    fn what_was_lost_is_said_besides_what_a_packet_said_already() {
        let written = |content, lost| {
            let mut file = Vec::new();
            let Ok(()) = PacketView::of(content).write_to(lost, &mut file);
            file
        };
        assert_eq!(written(&[0x40, 5], false), [0x0A, 2, 0x40, 5]);
        assert_eq!(written(&[0x40, 5], true), [0x0A, 5, 0x40, 5, 0xD0, 2, 1]);
        assert_eq!(written(&[0xD0, 2, 64], true), [0x0A, 6, 0xD0, 2, 64, 0xD0, 2, 65]);
    }

    #[cfg(feature = "std")]
    #[test]
    fn every_field_that_is_looked_for_is_told() {
        use crate::proto::{Sink, fields::trace_packet as packet};
        let mut content = Vec::new();
        let numbers = [
            (packet::TRUSTED_PACKET_SEQUENCE_ID, 2),
            (packet::TRUSTED_PID, 7),
            (packet::TIMESTAMP, 300),
            (packet::TIMESTAMP_CLOCK_ID, 64),
            (packet::SEQUENCE_FLAGS, 2),
            (packet::PREVIOUS_PACKET_DROPPED, 5),
            (packet::FIRST_PACKET_ON_SEQUENCE, 1),
        ];
        numbers.iter().for_each(|(field, value)| content.varint(*field, *value).unwrap());
        let texts = [
            (packet::CLOCK_SNAPSHOT, "\x0A\x02\x08\x06"),
            (packet::TRACE_PACKET_DEFAULTS, "defaults"),
            (packet::TRACK_DESCRIPTOR, "track"),
            (packet::TRACK_EVENT, "event"),
            (packet::INTERNED_DATA, "names"),
            (packet::FTRACE_EVENTS, "bundle"),
            (packet::COMPRESSED_PACKETS, "others"),
            (packet::FOR_TESTING, "nothing"),
        ];
        texts.iter().for_each(|(field, text)| content.string(*field, text).unwrap());
        let view = PacketView::of(&content);
        assert_eq!((view.sequence_id, view.pid, view.time, view.clock), (2, Some(7), Some(300), Some(64)));
        assert_eq!(
            (view.needs_state(), view.begins_state(), view.loss, view.is_first),
            (true, false, 5, true)
        );
        assert_eq!(view.clocks().collect::<Vec<_>>(), [b"\x08\x06"]);
        assert_eq!(
            (view.defaults, view.track, view.event),
            (&b"defaults"[..], &b"track"[..], Some(&b"event"[..]))
        );
        assert_eq!((view.has_names, view.ftrace_events, view.is_compressed), (true, &b"bundle"[..], true));
        assert!(
            view.is_well_formed
                && std::format!("{view:?}").starts_with("PacketView { sequence_id: 2, pid: Some(7)")
        );
    }
}
