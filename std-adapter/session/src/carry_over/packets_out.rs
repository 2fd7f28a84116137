//! The packets that a carry-over adds to a trace.

use tracebuf::proto::fields::{sequence_flags, trace, trace_packet, track_event, track_event_type};
use tracebuf::proto::reader::Fields;
use tracebuf::proto::{PacketView, SequenceId, Sink, TrustedFields};

use super::clock::Moment;
use super::event::CounterValue;
use super::seen::Seen;
use super::sequence::Sequence;
use super::slices::{Begin, End, Slice, Track};
use super::{CarryOver, Id, Sequences, Writer};

/// Says whose packet it is.
pub(super) fn trust(writer: Writer, packet: &mut Vec<u8>) {
    let id = SequenceId::new(writer.id).unwrap_or(SequenceId::FIRST_WRITER);
    let trusted = TrustedFields { pid: writer.pid, ..TrustedFields::new(writer.uid, id) };
    packet.extend_from_slice(trusted.suffix().as_bytes());
}

/// Appends a packet of a sequence.
fn put(content: &[u8], id: Id, sequence: Option<&Sequence>, loss: u64, out: &mut Vec<u8>) {
    let (uid, pid) = sequence.map_or((u32::MAX, None), |sequence| (sequence.uid, sequence.pid));
    let id = SequenceId::new(id).unwrap_or(SequenceId::FIRST_WRITER);
    let trusted = TrustedFields { pid, previous_packet_dropped: loss as u32, ..TrustedFields::new(uid, id) };
    let suffix = trusted.suffix();
    let Ok(()) = out.length(trace::PACKET, content.len() + suffix.as_bytes().len());
    out.extend_from_slice(content);
    out.extend_from_slice(suffix.as_bytes());
}

/// Appends a sequence's descriptions of tracks, the first of which tells what was lost before. Returns their number.
pub(super) fn descriptions(id: Id, sequence: &mut Sequence, out: &mut Vec<u8>) -> u64 {
    let mut loss = sequence.untold();
    let mut content = Vec::new();
    let mut written = 0;
    for described in sequence.descriptions.all() {
        content.clear();
        let Ok(()) = content.bytes(trace_packet::TRACK_DESCRIPTOR, &described.content);
        put(&content, id, Some(sequence), std::mem::take(&mut loss), out);
        written += 1;
    }
    written
}

/// Appends the sums of counters whose values count from one to the next: a new state starts them at 0.
pub(super) fn counters(id: Id, sequence: &Sequence, out: &mut Vec<u8>) -> u64 {
    let mut written = 0;
    for sum in sequence.counters.iter().filter(|counter| counter.sum != 0 || counter.fraction != 0.0) {
        let mut content = Vec::new();
        if let Some(now) = sequence.clock.now().or(sequence.last) {
            moment(now, &mut content);
        }
        counter(sum.uuid, sum.value(), &mut content);
        put(&content, id, Some(sequence), 0, out);
        written += 1;
    }
    written
}

/// Adds the event with a counter's value.
pub(super) fn counter(uuid: u64, value: CounterValue, content: &mut Vec<u8>) {
    let mut event = Vec::with_capacity(32);
    let Ok(()) = event.varint(track_event::TYPE, track_event_type::COUNTER);
    let Ok(()) = event.varint(track_event::TRACK_UUID, uuid);
    let Ok(()) = match value {
        CounterValue::Whole(value) => event.varint(track_event::COUNTER_VALUE, value as u64),
        CounterValue::Fraction(value) => event.double(track_event::DOUBLE_COUNTER_VALUE, value),
    };
    let Ok(()) = content.bytes(trace_packet::TRACK_EVENT, &event);
}

/// Appends a packet as it was, except that it tells of other losses.
pub(super) fn copy(bytes: &[u8], loss: u64, out: &mut Vec<u8>) {
    let mut changed = Vec::with_capacity(bytes.len() + 4);
    for field in Fields::of(bytes) {
        if field.number != trace_packet::PREVIOUS_PACKET_DROPPED {
            changed.extend_from_slice(field.whole);
        }
    }
    if loss != 0 {
        let Ok(()) = changed.varint(trace_packet::PREVIOUS_PACKET_DROPPED, loss);
    }
    let Ok(()) = out.bytes(trace::PACKET, &changed);
}

pub(super) fn moment(moment: Moment, content: &mut Vec<u8>) {
    let Ok(()) = content.varint(trace_packet::TIMESTAMP, moment.time);
    let Ok(()) = content.varint(trace_packet::TIMESTAMP_CLOCK_ID, moment.clock);
}

/// Appends a packet that needs no state. If it is the first of its sequence, it tells what was lost before: readers
/// expect that of the first packet of a ring, and count it as a loss in any other.
fn put_first(content: &[u8], id: Id, sequences: &mut Sequences, out: &mut Vec<u8>) {
    match sequences.get_mut(&id) {
        Some(sequence) => {
            let loss = sequence.untold();
            put(content, id, Some(sequence), loss, out);
        }
        None => put(content, id, None, 0, out),
    }
}

/// Appends the begins of a track's slices that are not in the trace.
pub(super) fn begins(track: &mut Track, sequences: &mut Sequences, out: &mut Vec<u8>) -> u64 {
    let mut slices = std::mem::take(&mut track.slices);
    let unwritten = slices.iter_mut().filter(|slice| !slice.is_written);
    let written = unwritten.map(|slice| begin(track, slice, sequences, out)).sum();
    track.slices = slices;
    written
}

fn begin(track: &mut Track, slice: &mut Slice, sequences: &mut Sequences, out: &mut Vec<u8>) -> u64 {
    let Begin::Kept(event) = &slice.begin else { return 0 };
    slice.is_written = true;
    let mut written = 1;
    let mut content = Vec::with_capacity(event.len() + 32);
    if !std::mem::replace(&mut track.is_described, true) {
        for description in track.description.iter().flatten() {
            content.clear();
            let Ok(()) = content.bytes(trace_packet::TRACK_DESCRIPTOR, description);
            put_first(&content, slice.sequence, sequences, out);
            written += 1;
        }
    }
    content.clear();
    moment(slice.moment, &mut content);
    let mut whole = Vec::with_capacity(event.len() + 12);
    whole.extend_from_slice(event);
    let Ok(()) = whole.varint(track_event::TRACK_UUID, track.uuid);
    let Ok(()) = content.bytes(trace_packet::TRACK_EVENT, &whole);
    put_first(&content, slice.sequence, sequences, out);
    written
}

impl CarryOver {
    /// Appends what a sequence's next packet needs, unless that begins a state itself. Returns the number of packets,
    /// and the losses that this packet has to tell.
    pub(super) fn write_due(&mut self, id: Id, next: &PacketView<'_>, out: &mut Vec<u8>) -> (u64, u64) {
        let Some(sequence) = self.sequences.get_mut(&id) else { return (0, 0) };
        let loss = sequence.untold();
        if !std::mem::take(&mut sequence.is_due) || !sequence.is_readable || next.begins_state() {
            return (0, loss);
        }
        let mut content = Vec::with_capacity(256 + sequence.names.bytes().len());
        let mut snapshot = Vec::new();
        if let Some(now) = sequence.clock.write(&mut snapshot) {
            moment(now, &mut content);
        }
        const FLAGS: u64 =
            sequence_flags::INCREMENTAL_STATE_CLEARED | sequence_flags::NEEDS_INCREMENTAL_STATE;
        let Ok(()) = content.varint(trace_packet::SEQUENCE_FLAGS, FLAGS);
        for (field, bytes) in [
            (trace_packet::CLOCK_SNAPSHOT, &snapshot[..]),
            (trace_packet::TRACE_PACKET_DEFAULTS, &sequence.defaults),
            (trace_packet::INTERNED_DATA, sequence.names.bytes()),
        ] {
            if !bytes.is_empty() {
                let Ok(()) = content.bytes(field, bytes);
            }
        }
        put(&content, id, Some(sequence), loss, out);
        let written = 1 + descriptions(id, sequence, out) + counters(id, sequence, out);
        (written, 0)
    }

    /// Appends the begin of a slice whose end stays.
    pub(super) fn write_begin_of(&mut self, seen: &Seen, out: &mut Vec<u8>) -> u64 {
        let Seen::EndOf(place, slice) = seen else { return 0 };
        let Self { tracks, sequences, .. } = self;
        let mut slice = slice.clone();
        let written = tracks.get_mut(*place).map_or(0, |track| begin(track, &mut slice, sequences, out));
        tracks.release(*place);
        written
    }

    /// Appends the end of a slice whose begin stays.
    pub(super) fn write_end_of(&mut self, seen: &Seen, out: &mut Vec<u8>) -> u64 {
        let Seen::BeginOf(End { uuid, moment: at, sequence }) = seen else { return 0 };
        let (mut content, mut event) = (Vec::new(), Vec::new());
        moment(*at, &mut content);
        let Ok(()) = event.varint(track_event::TYPE, track_event_type::SLICE_END);
        let Ok(()) = event.varint(track_event::TRACK_UUID, *uuid);
        let Ok(()) = content.bytes(trace_packet::TRACK_EVENT, &event);
        put_first(&content, *sequence, &mut self.sequences, out);
        1
    }
}
