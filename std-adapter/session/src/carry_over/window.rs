//! What a window leaves out, and what stays though it is older.

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::Fields;

use super::event::{Event, Kind};
use super::sequence::Sequence;
use super::{CarryOver, Id, clock};

impl CarryOver {
    /// Whether a packet is left out of a window: an event of before, or what only later ones need.
    pub(super) fn goes(&self, id: Id, packet: &PacketView<'_>, from: u64) -> bool {
        let Some(sequence) = self.sequences.get(&id) else { return false };
        let clock = if packet.begins_state() { &clock::SequenceClock::of(packet) } else { &sequence.clock };
        // If its state is gone, and with it what its time counts from, it is older than the next.
        let is_unreadable = packet.needs_state() && !packet.begins_state() && !sequence.is_readable;
        let is_old = match (packet.time, clock.moment(packet)) {
            _ if is_unreadable => true,
            (_, Some((moment, _))) => moment.is_before(clock::Moment::of_boot_time(from)),
            // In nobody's time, as long as all of its sequence is.
            (None, None) => sequence.is_due || !sequence.has_stayed,
            (Some(_), None) => false,
        };
        match packet.event {
            Some(event) => is_old && !self.ends_one_that_is_written(sequence, event),
            None => is_old && is_of_state(packet),
        }
    }

    /// Whether an event ends a slice whose begin the trace has: then it stays whatever its time.
    pub(super) fn ends_one_that_is_written(&self, sequence: &Sequence, event: &[u8]) -> bool {
        let Some(event) = Event::of(event).filter(|event| event.kind == Kind::End) else { return false };
        let place = event.track.map_or(Some(sequence.place), |uuid| self.tracks.find(uuid));
        let track = place.and_then(|place| self.tracks.get(place));
        track.and_then(|track| track.slices.last()).is_some_and(|slice| slice.is_written)
    }
}

/// Whether a packet without an event tells of nothing but its sequence's state and tracks.
fn is_of_state(packet: &PacketView<'_>) -> bool {
    use trace_packet as field;
    Fields::of(packet.content).all(|part| {
        matches!(
            part.number,
            field::TIMESTAMP
                | field::TIMESTAMP_CLOCK_ID
                | field::SEQUENCE_FLAGS
                | field::INCREMENTAL_STATE_CLEARED
                | field::CLOCK_SNAPSHOT
                | field::TRACE_PACKET_DEFAULTS
                | field::INTERNED_DATA
                | field::TRACK_DESCRIPTOR
                | field::PREVIOUS_PACKET_DROPPED
                | field::FIRST_PACKET_ON_SEQUENCE
                | field::TRUSTED_UID
                | field::TRUSTED_PACKET_SEQUENCE_ID
                | field::TRUSTED_PID
        )
    })
}
