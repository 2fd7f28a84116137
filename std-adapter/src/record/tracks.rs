//! The tracks of a recording, and how their values become packets.

use std::collections::HashMap;

use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, trace_packet, track_descriptor, track_event,
    track_event_type,
};
use tracebuf::proto::{Message, Sink};

use crate::session::{Descriptions, PacketWriter};
use crate::this_process::PidNamespace;

/// What a counter's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Percent,
    Count,
    Bytes,
    BytesPerSecond,
    PerSecond,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Group,
    Process(u32),
    Counter(Kind),
}

struct Entry {
    parent: Option<TrackId>,
    name: String,
    what: What,
    /// The number of its description, once it has values.
    description: Option<u64>,
    /// What was written, at least, when it was asked for last.
    last: u64,
}

/// A track of the recording, by its number in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrackId(u64);

/// Bytes of a ring that a value takes, at least: its length, a time of six bytes, a track of seven, the type, the value
/// and the tags of these and of the event. Mostly it is some 30.
const VALUE: u64 = 20;

/// Writes counters, and describes a track before its first value.
///
/// Descriptions lie beside the ring, which would overwrite them, for as long as it may have values of theirs.
pub(super) struct Tracks {
    writer: PacketWriter,
    descriptions: Descriptions,
    /// That of all processes it hears of.
    namespace: PidNamespace,
    /// Those with values of late: of processes that come and go there is no end.
    entries: HashMap<TrackId, Entry>,
    /// Values written, without those that were dropped.
    events: u64,
    ring: u64,
    /// How much is to be written when it is looked next which are over.
    next_look: u64,
}

impl Tracks {
    /// For a ring of so many bytes.
    pub(super) fn new(writer: PacketWriter, descriptions: Descriptions, ring: u64) -> Self {
        Self {
            writer,
            descriptions,
            namespace: PidNamespace::here(),
            entries: HashMap::new(),
            events: 0,
            ring,
            next_look: ring / 8,
        }
    }

    /// Values written, without those that were dropped.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Packets that shared memory had no room for.
    pub(super) fn dropped(&self) -> u64 {
        self.writer.stats().dropped
    }

    /// Packets that went into shared memory.
    fn recorded(&self) -> u64 {
        let stats = self.writer.stats();
        stats.packets.saturating_sub(stats.dropped)
    }

    /// A heading, with other tracks under it.
    pub(super) fn group(&mut self, name: &str) -> TrackId {
        self.find(Track::custom(name), None, name, What::Group)
    }

    /// A process.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> TrackId {
        self.find(self.namespace.process(pid, name), None, name, What::Process(pid))
    }

    /// A counter under a group or a process.
    pub(super) fn counter(&mut self, parent: TrackId, name: &str, kind: Kind) -> TrackId {
        // The name under the parent's number: a track of its own for each parent.
        let key = format!("{} {name}", parent.0);
        self.find(Track::counter(&key, Unit::Unspecified), Some(parent), name, What::Counter(kind))
    }

    /// The first name stays, as readers keep it.
    fn find(&mut self, track: Track<'_>, parent: Option<TrackId>, name: &str, what: What) -> TrackId {
        let (id, last) = (TrackId(track.uuid()), self.written());
        let new = || Entry { parent, name: name.to_owned(), what, description: None, last };
        self.entries.entry(id).or_insert_with(new).last = last;
        id
    }

    /// Bytes, at least.
    fn written(&self) -> u64 {
        self.events * VALUE
    }

    /// A counter's value from `time` on, in nanoseconds of boot time.
    pub(super) fn value(&mut self, counter: TrackId, time: u64, value: f64) {
        let Some(&Entry { parent, what: What::Counter(kind), .. }) = self.entries.get(&counter) else {
            return;
        };
        for track in parent.into_iter().chain([counter]) {
            self.describe(track);
        }
        let before = self.recorded();
        self.writer.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, time);
            let mut event = packet.message(trace_packet::TRACK_EVENT);
            event.varint(track_event::TYPE, track_event_type::COUNTER);
            event.varint(track_event::TRACK_UUID, counter.0);
            match kind {
                Kind::Percent | Kind::BytesPerSecond | Kind::PerSecond => {
                    event.double(track_event::DOUBLE_COUNTER_VALUE, value);
                }
                Kind::Count | Kind::Bytes if value.fract() != 0.0 => {
                    event.double(track_event::DOUBLE_COUNTER_VALUE, value);
                }
                Kind::Count | Kind::Bytes => event.varint(track_event::COUNTER_VALUE, value as i64 as u64),
            }
        });
        self.events += self.recorded().saturating_sub(before);
        if self.written() >= self.next_look {
            self.forget();
            self.next_look = self.written() + self.ring / 8;
        }
    }

    /// Describes a track unless that was done.
    fn describe(&mut self, track: TrackId) {
        let last = self.written();
        let Some(entry) = self.entries.get_mut(&track) else { return };
        entry.last = last;
        if entry.description.is_none() {
            entry.description = Some(self.descriptions.add(&Description { track, entry }));
        }
    }

    /// Tracks of which the ring has no value any more, as it has gone round since.
    fn forget(&mut self) {
        let (written, ring) = (self.written(), self.ring);
        for (_, entry) in self.entries.extract_if(|_, entry| written - entry.last > ring) {
            entry.description.inspect(|number| self.descriptions.remove(*number));
        }
    }
}

/// The packet of a track's description.
struct Description<'e> {
    track: TrackId,
    entry: &'e Entry,
}

impl Message for Description<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.message(trace_packet::TRACK_DESCRIPTOR, &Descriptor(self))
    }
}

struct Descriptor<'d>(&'d Description<'d>);

impl Message for Descriptor<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Description { track, entry } = self.0;
        out.varint(track_descriptor::UUID, track.0)?;
        if let Some(parent) = entry.parent {
            out.varint(track_descriptor::PARENT_UUID, parent.0)?;
        }
        match entry.what {
            What::Group => out.string(track_descriptor::NAME, &entry.name),
            What::Process(pid) => out.message(track_descriptor::PROCESS, &Process(pid, &entry.name)),
            What::Counter(kind) => {
                out.string(track_descriptor::NAME, &entry.name)?;
                out.message(track_descriptor::COUNTER, &kind)
            }
        }
    }
}

struct Process<'e>(u32, &'e str);

impl Message for Process<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(process_descriptor::PID, self.0.into())?;
        out.string(process_descriptor::PROCESS_NAME, self.1)
    }
}

impl Message for Kind {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        match self {
            Kind::Count => out.varint(counter_descriptor::UNIT, counter_unit::COUNT),
            Kind::Bytes => out.varint(counter_descriptor::UNIT, counter_unit::SIZE_BYTES),
            Kind::Percent => out.string(counter_descriptor::UNIT_NAME, "%"),
            Kind::BytesPerSecond => out.string(counter_descriptor::UNIT_NAME, "B/s"),
            Kind::PerSecond => out.string(counter_descriptor::UNIT_NAME, "1/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use tracebuf::producer::Exhaustion;
    use tracebuf::proto::{TracePackets, varint};

    use super::*;
    use crate::fields::Fields;
    use crate::session::Session;

    const RING: u64 = 64 << 10;

    fn start() -> (Session, Tracks) {
        let session = Session::builder().ring(RING).exhaustion(Exhaustion::Stall).start().expect("a session");
        let writer = session.recorder().packet_writer().expect("a writer");
        let tracks = Tracks::new(writer, session.descriptions(), RING);
        (session, tracks)
    }

    #[test]
    fn nothing_but_values_takes_room_in_the_ring() {
        let (session, mut tracks) = start();
        for time in 0..20 {
            for number in 0..400 {
                let group = tracks.group(&format!("group {}", number / 50));
                let counter = tracks.counter(group, &format!("counter {number}"), Kind::Count);
                tracks.value(counter, time, 1.0);
            }
        }
        assert_eq!((tracks.writer.stats().packets, tracks.events()), (8000, 8000));
        // It has gone round, and holds fewer than there are.
        assert_eq!(session.descriptions().len(), 408);
        drop((tracks, session));
    }

    #[test]
    fn values_that_were_dropped_are_not_counted() {
        const RING: u64 = 16 << 20;
        // Two chunks, which are full before anybody takes them.
        let session = Session::builder().ring(RING).shared_memory(4096).start().expect("a session");
        let writer = session.recorder().packet_writer().expect("a writer");
        let mut tracks = Tracks::new(writer, session.descriptions(), RING);
        let group = tracks.group("group");
        let counter = tracks.counter(group, "counter", Kind::Count);
        let mut time = 0;
        while tracks.dropped() < 100 {
            tracks.value(counter, time, 1.0);
            time += 1;
        }
        let events = tracks.events();
        assert!(events < time, "{events} of {time}");
        drop(tracks);
        session.flush(Duration::from_secs(5)).expect("a flush");
        let mut trace = Vec::new();
        session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
        let is_value =
            |packet: &&[u8]| Fields::of(packet).any(|field| field.number == trace_packet::TRACK_EVENT);
        let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
        assert_eq!(packets.filter(is_value).count() as u64, events);
    }

    #[test]
    fn tracks_that_end_are_described_as_long_as_values_of_theirs_are_left_and_then_forgotten() {
        let (session, mut tracks) = start();
        let mut counters = Vec::new();
        for time in 0..200 {
            // Each of them has ten values.
            for pid in 4 * time..4 * time + 40 {
                let process = tracks.process(pid, "process");
                let counter = tracks.counter(process, "memory", Kind::Bytes);
                tracks.value(counter, time.into(), 1.0);
                counters.push(counter);
            }
        }
        // Of some 1,700.
        assert!(tracks.entries.len() < 1000, "{} tracks", tracks.entries.len());
        assert_eq!(tracks.entries.len(), session.descriptions().len());
        drop(tracks);
        session.flush(Duration::from_secs(5)).expect("a flush");
        let mut trace = Vec::new();
        session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
        let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
        // A tag and a number of 49 bits, which is nowhere by chance.
        let parts: HashSet<&[u8]> = packets.flat_map(|packet| packet.windows(8)).collect();
        let is_there = |field: u32, track: &TrackId| {
            let mut part = [(field << 3) as u8; 8];
            assert_eq!(varint::encode(track.0, &mut part[1..]), Some(7));
            parts.contains(&part[..])
        };
        counters.sort_by_key(|track| track.0);
        counters.dedup();
        let left: Vec<_> = counters.iter().filter(|track| is_there(track_event::TRACK_UUID, track)).collect();
        assert!(left.len() > 40 && left.len() < counters.len() / 2, "{} of {}", left.len(), counters.len());
        assert!(left.iter().all(|track| is_there(track_descriptor::UUID, track)));
    }
}
