//! The tracks of a recording, and how their values become packets.

use std::collections::HashMap;

use tracebuf::producer::Message;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, trace_packet, track_descriptor, track_event,
    track_event_type,
};

use crate::session::PacketWriter;

/// What a counter's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Percent,
    Count,
    Bytes,
    BytesPerSecond,
    PerSecond,
}

#[derive(Clone, Debug)]
enum What {
    Group,
    Process(u32),
    Counter(Kind),
}

#[derive(Clone, Debug)]
struct Entry {
    uuid: u64,
    parent: Option<u64>,
    name: String,
    what: What,
}

/// A track of the recording: where it is in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackId(usize);

/// Writes counters, and describes their tracks before their first value and again every so often.
///
/// A ring that overwrites its oldest takes descriptions with it; what is left must be readable.
pub(super) struct Tracks {
    writer: PacketWriter,
    entries: Vec<Entry>,
    named: HashMap<(Option<u64>, String), TrackId>,
    /// How many entries are described.
    described: usize,
    written: u64,
    describe_every: u64,
    events: u64,
}

impl Tracks {
    /// Describes again after every `describe_every` bytes.
    pub(super) fn new(writer: PacketWriter, describe_every: u64) -> Self {
        Self {
            writer,
            entries: Vec::new(),
            named: HashMap::new(),
            described: 0,
            written: 0,
            describe_every,
            events: 0,
        }
    }

    /// Values written.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Packets that shared memory had no room for.
    pub(super) fn dropped(&self) -> u64 {
        self.writer.stats().dropped
    }

    /// A heading, with other tracks under it.
    pub(super) fn group(&mut self, name: &str) -> TrackId {
        self.find(None, name, Track::custom(name), What::Group)
    }

    /// A process. Of a pid used again it is the same track under a new name.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> TrackId {
        let track = Track::process(pid, name);
        let key = format!("{pid} {name}");
        let id = self.find(None, &key, track, What::Process(pid));
        if let Some(entry) = self.entries.get_mut(id.0) {
            name.clone_into(&mut entry.name);
        }
        id
    }

    /// A counter under a group or a process.
    pub(super) fn counter(&mut self, parent: TrackId, name: &str, kind: Kind) -> TrackId {
        let parent = self.entries.get(parent.0).map(|entry| entry.uuid);
        // The name under the parent's number: a track of its own for each parent.
        let key = format!("{} {name}", parent.unwrap_or(0));
        self.find(parent, name, Track::counter(&key, Unit::Unspecified), What::Counter(kind))
    }

    fn find(&mut self, parent: Option<u64>, name: &str, track: Track<'_>, what: What) -> TrackId {
        if let Some(id) = self.named.get(&(parent, name.to_owned())) {
            return *id;
        }
        let id = TrackId(self.entries.len());
        self.entries.push(Entry { uuid: track.uuid(), parent, name: name.to_owned(), what });
        self.named.insert((parent, name.to_owned()), id);
        id
    }

    /// A counter's value from `time` on, in nanoseconds of boot time.
    pub(super) fn value(&mut self, counter: TrackId, time: u64, value: f64) {
        if self.written >= self.describe_every {
            self.written = 0;
            self.described = 0;
        }
        while let Some(entry) = self.entries.get(self.described) {
            self.writer.packet(|packet| describe(entry, &mut packet.message(trace_packet::TRACK_DESCRIPTOR)));
            self.described += 1;
            self.written += 64;
        }
        let Some(Entry { uuid, what: What::Counter(kind), .. }) = self.entries.get(counter.0) else { return };
        self.writer.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, time);
            let mut event = packet.message(trace_packet::TRACK_EVENT);
            event.varint(track_event::TYPE, track_event_type::COUNTER);
            event.varint(track_event::TRACK_UUID, *uuid);
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
        self.events += 1;
    }
}

fn describe(entry: &Entry, descriptor: &mut Message<'_, '_>) {
    descriptor.varint(track_descriptor::UUID, entry.uuid);
    if let Some(parent) = entry.parent {
        descriptor.varint(track_descriptor::PARENT_UUID, parent);
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
