//! What packets that have left still mean for those that stay: [`CarryOver`].
//!
//! Times of a writer's events are distances, names and tracks are referred to by number, and the end of a slice says
//! nothing of its begin. So when the first packets of a sequence leave, because a ring overwrites them, a window leaves
//! them out or another file has them, the others need a state in their place, and slices need their begins.

mod by_use;
mod clock;
mod descriptions;
mod event;
mod in_file;
mod kept;
mod limits;
mod named;
mod names;
mod noted;
mod packets_out;
mod passing;
mod ring;
mod seen;
mod sequence;
mod slices;

use std::collections::HashMap;

use tracebuf::buffer::SequenceInfo;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::number;
use tracebuf::proto::{PacketView, SequenceId, TracePackets};
use tracebuf::service::sequence_id;

use event::{Event, Kind};
use kept::Kept;
pub use kept::KeptStats;
pub(crate) use kept::memory as kept_memory;
use seen::{BegunRoom, Seen, slice_event};
use sequence::Sequence;
use slices::{Mix, Tracks};

use crate::shared_vms::SharedVms;

/// A sequence as a trace numbers it.
type Id = u32;
type Sequences = HashMap<Id, Box<Sequence>, Mix>;

/// What packets that have left still mean: for each sequence its clock, names, defaults and descriptions of tracks, and
/// for each track the slices that are open.
///
/// Packets are given to it in each sequence's order: those that leave to [`fold`](Self::fold), or by a ring whose
/// observer it is; those that stay to [`pass`](Self::pass), which writes what they need before them. A state in which
/// something is missing is never used: until a writer begins the next, its packets stay as they are.
///
/// Memory is bounded, for each sequence and in all, whatever producers write. Of slices within each other the outermost
/// are kept; [`left_out`](Self::left_out) tells how many are not.
///
/// ```
/// use tracebuf_session::CarryOver;
///
/// # let (first_file, second_file) = (&[][..], &[][..]);
/// let mut carried = CarryOver::default();
/// carried.fold(first_file); // whole packets, as they lie in a trace
/// let mut file = Vec::new();
/// let mut packets = carried.begin_file(&mut file);
/// packets += carried.pass(second_file, None, &mut file); // can be read without the first
/// # assert_eq!((packets, file), (0, vec![]));
/// ```
#[derive(Clone, Default)]
pub struct CarryOver {
    is_on: bool,
    sequences: Sequences,
    tracks: Tracks,
    /// Some sequence has counters whose values count from one to the next.
    has_counters: bool,
    /// Descriptions and counters' values of all sequences, if they are kept.
    kept: Option<Kept>,
    /// Machines that programs of data sources have.
    vms: SharedVms,
    /// Whether packets left that nobody can read, because something is missing before them, or their state is too long.
    lacks_states: bool,
    /// Whether nothing comes after the trace that is being written, so that its packets need not be taken in.
    pub(crate) is_lean: bool,
    /// Packets added to traces.
    added: u64,
    /// Memory to be used again.
    begun: BegunRoom,
    whole: Vec<u8>,
}

debug_fields!(CarryOver, is_on);

/// What is being done with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It leaves.
    Leaves,
    /// It stays, in the trace that is being written.
    Stays,
}

/// Who has written a packet.
#[derive(Clone, Copy)]
struct Writer {
    id: Id,
    uid: u32,
    pid: Option<i32>,
}

impl CarryOver {
    /// One that looks at what a ring overwrites: [`TraceBuffer::observed_by`](tracebuf::buffer::TraceBuffer::observed_by).
    pub fn of_ring() -> Self {
        Self { is_on: true, ..Self::default() }
    }

    /// How many slices are open of which no begin is kept.
    pub fn left_out(&self) -> u64 {
        self.tracks.left_out()
    }

    /// How many packets it has added to traces.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Takes in whole packets of a trace that leave: they are in another file, or in none.
    pub fn fold(&mut self, packets: &[u8]) {
        for bytes in TracePackets::new(packets).map_while(Result::ok) {
            let packet = PacketView::of(bytes);
            let id = self.writer_of(&packet);
            if id <= 1 {
                continue;
            }
            if packet.loss != 0 {
                self.lose(id, packets);
            }
            self.due(id, packet.loss);
            self.see(id, &packet, packets, Way::Leaves);
        }
        self.settle(packets);
    }

    /// A new file begins, without what came before: it gets all begins of open slices, and each sequence's state before
    /// the first of its packets that [stays](Self::pass). Returns the number of packets.
    pub fn begin_file(&mut self, out: &mut Vec<u8>) -> u64 {
        for track in self.tracks.all_mut() {
            track.is_described = false;
            track.slices.iter_mut().for_each(|slice| slice.is_written = false);
        }
        self.sequences.values_mut().for_each(|sequence| sequence.is_due = true);
        self.write_kept(out) + self.write_open(out)
    }

    /// Before a ring is read whose observer this is: what was lost that nobody could see.
    pub fn begin_read(&mut self, sequences: impl Iterator<Item = SequenceInfo>) {
        for info in sequences.filter(|info| !info.pending_since_folded.is_empty()) {
            let id = sequence_id(info.producer_id, info.writer_id).get();
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.is_readable = false;
            }
        }
    }

    /// Whether there are sequences that cannot be read until writers begin another state.
    pub(crate) fn lacks_states(&self) -> bool {
        self.lacks_states || self.kept.as_ref().is_some_and(|kept| kept.lacks_room)
    }

    /// Writers will do that.
    pub(crate) fn wait_for_states(&mut self) {
        self.lacks_states = false;
        self.kept.iter_mut().for_each(|kept| kept.lacks_room = false);
    }

    /// Whether a sequence's next packet needs something before it.
    pub(crate) fn is_due(&self, id: SequenceId) -> bool {
        self.sequences.get(&id.get()).is_some_and(|sequence| sequence.is_due || sequence.is_overwritten)
    }

    /// Whether ends have left whose begins may still come: then no packet can be passed over.
    pub(crate) fn waits_for_begins(&self) -> bool {
        self.tracks.waits_for_begins()
    }

    /// Appends the descriptions of tracks and the counters' sums of sequences of which a window has left out all.
    /// Returns their number.
    pub(crate) fn write_descriptions(&mut self, out: &mut Vec<u8>) -> u64 {
        let is_left_out = |sequence: &&mut Box<Sequence>| sequence.is_of_trace && !sequence.has_stayed;
        let written = self
            .sequences
            .iter_mut()
            .filter(|(_, sequence)| is_left_out(sequence))
            .map(|(id, sequence)| {
                packets_out::descriptions(*id, sequence, out) + packets_out::counters(*id, sequence, out)
            })
            .sum();
        self.added += written;
        written
    }

    /// Appends the begins of all slices that are still open and that the trace does not have. Returns their number,
    /// with that of the tracks' descriptions.
    pub fn write_open(&mut self, out: &mut Vec<u8>) -> u64 {
        let Self { tracks, sequences, .. } = self;
        let written = tracks.all_mut().map(|track| packets_out::begins(track, sequences, out)).sum();
        self.added += written;
        written
    }

    /// The sequence that a packet of a trace is of, which is known from then on.
    fn writer_of(&mut self, packet: &PacketView<'_>) -> Id {
        let id = packet.sequence_id as Id;
        if id > 1 && !self.sequences.contains_key(&id) {
            let uid = number(packet.content, trace_packet::TRUSTED_UID).map_or(u32::MAX, |uid| uid as u32);
            self.sequence(Writer { id, uid, pid: packet.pid });
        }
        id
    }

    fn sequence(&mut self, writer: Writer) -> &mut Sequence {
        if self.sequences.len() >= limits::SEQUENCES && !self.sequences.contains_key(&writer.id) {
            // Any will do: it goes on with its next state.
            let other = self.sequences.keys().next().copied();
            if let Some(gone) = other.and_then(|id| self.sequences.remove(&id)) {
                self.tracks.let_go(gone.place);
            }
        }
        let new = || Box::new(Sequence::new(writer.uid, writer.pid));
        let sequence = self.sequences.entry(writer.id).or_insert_with(new);
        if (sequence.uid, sequence.pid) != (writer.uid, writer.pid) {
            // Another process has the number now.
            (sequence.uid, sequence.pid, sequence.is_readable) = (writer.uid, writer.pid, false);
        }
        sequence
    }

    /// Something is missing: the state is not known until the next begins.
    fn lose(&mut self, id: Id, base: &[u8]) {
        self.settle(base);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.is_readable = false;
        }
    }

    fn due(&mut self, id: Id, loss: u64) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.is_due = true;
            sequence.loss |= loss;
        }
    }

    /// Takes in a packet: what it says of the state, and its event. Returns what an end or a begin leads to.
    fn see(&mut self, id: Id, packet: &PacketView<'_>, base: &[u8], way: Way) -> Seen {
        if packet.begins_state() {
            // Before their names are gone.
            self.settle(base);
        }
        let Self { sequences, tracks, has_counters, kept, lacks_states, .. } = self;
        let mut kept = kept.as_mut().filter(|kept| kept.takes_all || way == Way::Leaves);
        let Some(sequence) = sequences.get_mut(&id) else { return Seen::Nothing };
        sequence.has_stayed |= way == Way::Stays;
        if packet.begins_state() {
            sequence.begin(id, packet, tracks);
        } else if packet.needs_state() && !sequence.is_readable {
            *lacks_states |= way == Way::Leaves;
            if packet.event.is_some() && !std::mem::replace(&mut sequence.is_forgotten, true) {
                tracks.forget(id, None);
            }
            return Seen::Nothing;
        } else {
            sequence.learn(packet, tracks);
        }
        *lacks_states |= way == Way::Leaves && packet.has_names && !sequence.is_readable;
        let pid = sequence.pid;
        let mut describe = |field: u32, content: &[u8], is_of_sequence: bool| {
            if is_of_sequence {
                let Some((uuid, is_incremental)) = sequence.descriptions.add(content) else { return };
                sequence.see_counter(uuid, is_incremental);
                *has_counters |= is_incremental;
            }
            if let Some(kept) = &mut kept {
                let moment = sequence.clock.moment(packet).map(|(moment, _)| moment);
                let moment = moment.or(sequence.clock.now()).or(sequence.last);
                kept.describe(sequence.writer(id), moment, field, content);
            }
        };
        if !packet.track.is_empty() {
            describe(trace_packet::TRACK_DESCRIPTOR, packet.track, true);
        } else if packet.event.is_none() {
            named::each(packet, pid, describe);
        }
        let Some((moment, distance)) = sequence.clock.moment(packet) else { return Seen::Nothing };
        if !packet.begins_state() {
            sequence.clock.pass(distance);
        }
        sequence.last = Some(moment);
        let Some(event) = packet.event.and_then(Event::of) else { return Seen::Nothing };
        match event.kind {
            Kind::Other => Seen::Nothing,
            Kind::Counter => {
                if (*has_counters || kept.is_some())
                    && let Some(uuid) = event.track.or(sequence.track)
                    && let Some(value) = event.counter_value()
                {
                    let value = sequence.count(uuid, value);
                    if let Some(kept) = kept {
                        kept.count(sequence.writer(id), uuid, moment, value);
                        if kept.is_due() {
                            kept.settle(sequences);
                        }
                    }
                }
                Seen::Nothing
            }
            Kind::Begin | Kind::End => {
                let place = sequence.place_of(&event, tracks);
                slice_event(tracks, &event, place, id, moment, base, way)
            }
        }
    }

    /// Keeps the begins of slices that are still open after the packets in `base`.
    fn settle(&mut self, base: &[u8]) {
        let Self { sequences, tracks, kept, .. } = self;
        kept.iter_mut().for_each(|kept| kept.settle(sequences));
        tracks.settle(|track, id, (at, len)| {
            let sequence = sequences.get(&id)?;
            let event = base.get(at as usize..)?.get(..len as usize)?;
            if track.description.is_none() {
                let all = sequence.descriptions.up_from(track.uuid);
                let all: Vec<_> = all.map(|described| described.content.clone()).collect();
                track.description = Some(all).filter(|all| !all.is_empty());
            }
            Some(sequence.names.spell_out(event).into())
        });
    }
}

#[cfg(test)]
mod tests;
