//! The tracks of a recording, and how their values become packets.

use std::collections::HashMap;

use tracebuf::producer::Message;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, trace_packet, track_descriptor, track_event,
    track_event_type,
};

use crate::session::PacketWriter;
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
    /// The period that it was described in last.
    described: Option<u64>,
}

/// A track of the recording, by its number in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrackId(u64);

/// For how many periods a track without values is kept. With the one of its last values and the one in which it is
/// forgotten they are fewer than the eight of a ring: its last description comes before any of those is overwritten.
const KEPT: u64 = 4;

/// Writes counters, and describes a track before its first value of each period.
///
/// A ring that overwrites its oldest takes descriptions with it; what is left must be readable.
pub(super) struct Tracks {
    writer: PacketWriter,
    /// That of all processes it hears of.
    namespace: PidNamespace,
    /// Those with values of late: of processes that come and go there is no end.
    entries: HashMap<TrackId, Entry>,
    period: u64,
    /// Bytes of this period, more or less.
    written: u64,
    bytes_a_period: u64,
    events: u64,
}

impl Tracks {
    /// For a ring of so many bytes.
    pub(super) fn new(writer: PacketWriter, ring: u64) -> Self {
        Self {
            writer,
            namespace: PidNamespace::here(),
            entries: HashMap::new(),
            period: 0,
            written: 0,
            bytes_a_period: ring / 8,
            events: 0,
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

    /// A process. Of a pid used again it is the same track under a new name.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> TrackId {
        self.find(self.namespace.process(pid, name), None, name, What::Process(pid))
    }

    /// A counter under a group or a process.
    pub(super) fn counter(&mut self, parent: TrackId, name: &str, kind: Kind) -> TrackId {
        // The name under the parent's number: a track of its own for each parent.
        let key = format!("{} {name}", parent.0);
        self.find(Track::counter(&key, Unit::Unspecified), Some(parent), name, What::Counter(kind))
    }

    fn find(&mut self, track: Track<'_>, parent: Option<TrackId>, name: &str, what: What) -> TrackId {
        let id = TrackId(track.uuid());
        let new = || Entry { parent, name: name.to_owned(), what, described: None };
        let entry = self.entries.entry(id).or_insert_with(new);
        if entry.name != name {
            name.clone_into(&mut entry.name);
            entry.described = None;
        }
        id
    }

    /// A counter's value from `time` on, in nanoseconds of boot time.
    pub(super) fn value(&mut self, counter: TrackId, time: u64, value: f64) {
        let Some(&Entry { parent, what: What::Counter(kind), .. }) = self.entries.get(&counter) else {
            return;
        };
        for track in parent.into_iter().chain([counter]) {
            self.describe_once(track);
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
        self.written += 40;
        self.events += self.recorded().saturating_sub(before);
        // Only now: a track that was just found is not forgotten before its value.
        if self.written >= self.bytes_a_period {
            self.next_period();
        }
    }

    /// Describes a track unless that was done in this period.
    fn describe_once(&mut self, track: TrackId) {
        let Some(entry) = self.entries.get_mut(&track) else { return };
        if entry.described.replace(self.period) != Some(self.period) {
            describe(&mut self.writer, track, entry);
            self.written += 64;
        }
    }

    /// Tracks without values of late are described a last time, behind all their values, and forgotten.
    fn next_period(&mut self) {
        (self.period, self.written) = (self.period + 1, 0);
        let is_over = |entry: &Entry| entry.described.is_some_and(|period| period + KEPT < self.period);
        for (track, entry) in self.entries.extract_if(|_, entry| is_over(entry)) {
            describe(&mut self.writer, track, &entry);
            self.written += 64;
        }
    }
}

fn describe(writer: &mut PacketWriter, track: TrackId, entry: &Entry) {
    writer.packet(|packet| fill(track, entry, &mut packet.message(trace_packet::TRACK_DESCRIPTOR)));
}

fn fill(track: TrackId, entry: &Entry, descriptor: &mut Message<'_, '_>) {
    descriptor.varint(track_descriptor::UUID, track.0);
    if let Some(parent) = entry.parent {
        descriptor.varint(track_descriptor::PARENT_UUID, parent.0);
    }
    match entry.what {
        What::Group => descriptor.string(track_descriptor::NAME, &entry.name),
        What::Process(pid) => {
            let mut process = descriptor.message(track_descriptor::PROCESS);
            process.varint(process_descriptor::PID, u64::from(pid));
            process.string(process_descriptor::PROCESS_NAME, &entry.name);
        }
        What::Counter(kind) => {
            descriptor.string(track_descriptor::NAME, &entry.name);
            let mut counter = descriptor.message(track_descriptor::COUNTER);
            match kind {
                Kind::Count => counter.varint(counter_descriptor::UNIT, counter_unit::COUNT),
                Kind::Bytes => counter.varint(counter_descriptor::UNIT, counter_unit::SIZE_BYTES),
                Kind::Percent => counter.string(counter_descriptor::UNIT_NAME, "%"),
                Kind::BytesPerSecond => counter.string(counter_descriptor::UNIT_NAME, "B/s"),
                Kind::PerSecond => counter.string(counter_descriptor::UNIT_NAME, "1/s"),
            }
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
        (session, Tracks::new(writer, RING))
    }

    #[test]
    fn values_of_more_tracks_than_a_period_has_room_for_are_described_once_each() {
        let (session, mut tracks) = start();
        for time in 0..20 {
            for number in 0..400 {
                let group = tracks.group(&format!("group {}", number / 50));
                let counter = tracks.counter(group, &format!("counter {number}"), Kind::Count);
                tracks.value(counter, time, 1.0);
            }
        }
        // A value, the description before it, the last one of a track, and some of the groups.
        let (packets, values) = (tracks.writer.stats().packets, tracks.events());
        assert!(packets * 10 < values * 32, "{packets} packets for {values} values");
        drop((tracks, session));
    }

    #[test]
    fn values_that_were_dropped_are_not_counted() {
        const RING: u64 = 16 << 20;
        // Two chunks, which are full before anybody takes them.
        let session = Session::builder().ring(RING).shared_memory(4096).start().expect("a session");
        let mut tracks = Tracks::new(session.recorder().packet_writer().expect("a writer"), RING);
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
    fn a_process_is_described_again_under_a_new_name_and_its_counters_are_not() {
        let (session, mut tracks) = start();
        for name in ["sh", "sh", "ls"] {
            let process = tracks.process(7, name);
            let counter = tracks.counter(process, "memory", Kind::Bytes);
            tracks.value(counter, 0, 1.0);
        }
        assert_eq!(tracks.writer.stats().packets, 3 + 2 + 1);
        drop((tracks, session));
    }

    #[test]
    fn tracks_that_end_are_forgotten_and_described_as_long_as_values_of_theirs_are_left() {
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
        assert!(tracks.entries.len() < 200, "{} tracks", tracks.entries.len());
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
