//! Tracks of a recording, and their values as packets.

use std::collections::{HashMap, HashSet};

use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, trace_packet, track_descriptor, track_event,
    track_event_type,
};
use tracebuf::proto::{Message, Sink};
use tracebuf_session::parts::ProcessNumber;
use tracebuf_session::{PacketWriter, Recorder, SidePackets};

/// The unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterKind {
    Percent,
    Count,
    BytesPerSecond,
    PerSecond,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Group,
    /// A program that records into the session names itself.
    Process {
        pid: u32,
        names_itself: bool,
    },
    Counter(CounterKind),
}

struct Entry {
    parent: Option<TrackId>,
    name: String,
    what: What,
    /// The number of its description and the time of its first value, once it has values.
    description: Option<(u64, u64)>,
    /// Bytes that had been written, at least, when it was last asked for.
    last: u64,
}

/// A track of the recording, by its number in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrackId(u64);

/// Bytes of a ring that a value takes, at least: its length, a time of six bytes, a track of seven, the type, the value
/// and the tags of these and of the event. Mostly it takes about 30.
const VALUE: u64 = 20;

/// The number of the groups' tracks: a program that records on a track with a group's name has another one.
const MACHINE: u64 = u64::from_be_bytes(*b"machine ");

/// Writes counters, and describes a track before its first value.
///
/// Descriptions are kept beside the ring, which would overwrite them, for as long as it may have values of their
/// tracks.
pub(super) struct Tracks {
    /// For the machine's values.
    machine: PacketWriter,
    /// For those of processes, which are looked at less often: their rates are from a time before the machine's last
    /// values, so they have a sequence of their own. Times grow within each sequence, except just after a file that
    /// could not be read, so that readers have less to sort.
    processes: PacketWriter,
    descriptions: SidePackets,
    /// By pid, the start time of the process whose track is made from its number alone, and that number. There are no
    /// more of these than pids.
    plain: HashMap<u32, (u64, ProcessNumber)>,
    /// The program that records, and the name that its session has.
    own: Option<(u32, &'static str)>,
    /// Programs that also record into the session.
    programs: HashSet<u32>,
    /// Tracks with recent values: there is no end of processes that come and go.
    entries: HashMap<TrackId, Entry>,
    /// Values written, without those that were dropped.
    pub(super) events: u64,
    ring: u64,
    /// How much has to be written before the next look for tracks that are over.
    next_look: u64,
}

impl Tracks {
    /// Writes for a ring of this many bytes, if two writers are free.
    pub(super) fn new(recorder: &Recorder, descriptions: SidePackets, ring: u64) -> Option<Self> {
        Some(Self {
            machine: recorder.packet_writer()?,
            processes: recorder.packet_writer()?,
            descriptions,
            plain: HashMap::new(),
            own: None,
            programs: HashSet::new(),
            entries: HashMap::new(),
            events: 0,
            ring,
            next_look: ring / 8,
        })
    }

    /// Calls a process by the name that its own session gives it: readers keep the first of several.
    pub(super) fn named(self, pid: u32, name: &'static str) -> Self {
        Self { own: Some((pid, name)), ..self }
    }

    /// Sets which programs record into the session now. They say themselves what they are called: readers keep the
    /// first of several names. In a long trace, one that was described before it came keeps that name.
    pub(super) fn programs(&mut self, pids: impl Iterator<Item = u32>) {
        let before = std::mem::replace(&mut self.programs, pids.collect());
        let new: Vec<_> = self.programs.difference(&before).copied().collect();
        new.into_iter().for_each(|pid| self.set_names_itself(pid, true));
    }

    /// Names programs that have recorded nothing until the end, and so have not said what they are called. In a long
    /// trace they stay without a name.
    pub(super) fn silent(&mut self, pids: impl Iterator<Item = u32>) {
        pids.for_each(|pid| self.set_names_itself(pid, false));
    }

    fn set_names_itself(&mut self, pid: u32, names_itself: bool) {
        let Some((_, number)) = self.plain.get(&pid) else { return };
        let track = TrackId(number.track("").uuid());
        let Some(entry) = self.entries.get_mut(&track) else { return };
        entry.what = What::Process { pid, names_itself };
        if let Some((number, since)) = entry.description {
            self.descriptions.replace(number, &Description { track, entry, since });
        }
    }

    /// Packets that shared memory had no room for.
    pub(super) fn dropped(&self) -> u64 {
        self.machine.stats().dropped + self.processes.stats().dropped
    }

    /// Packets that went into shared memory.
    fn recorded(&self) -> u64 {
        let stats = [self.machine.stats(), self.processes.stats()];
        stats.map(|stats| stats.packets.saturating_sub(stats.dropped)).iter().sum()
    }

    /// A heading, with other tracks under it.
    pub(super) fn group(&mut self, name: &str) -> TrackId {
        self.find(Track::custom(name).numbered(MACHINE), None, name, What::Group)
    }

    /// A process that started at a tick. If a pid is used again, that is another track, and for readers another
    /// process. A process that runs another program stays the same.
    ///
    /// The first process of a pid, and a program that records into the session, have the track that all sessions know.
    pub(super) fn process(&mut self, pid: u32, started: u64, name: &str) -> TrackId {
        let is_program = self.programs.contains(&pid);
        let (plain, number) = self.plain.entry(pid).or_insert_with(|| (started, ProcessNumber::of(pid)));
        if is_program && *plain != started {
            (*plain, *number) = (started, ProcessNumber::of(pid));
        }
        let mut track = number.track(name);
        if *plain != started {
            track = track.numbered(started);
        }
        let own = self.own.filter(|(own, _)| *own == pid).map(|(_, name)| name);
        let what = What::Process { pid, names_itself: is_program && own.is_none() };
        self.find(track, None, own.unwrap_or(name), what)
    }

    /// A counter under a group or a process.
    pub(super) fn counter(&mut self, parent: TrackId, name: &str, kind: CounterKind) -> TrackId {
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

    /// Bytes that were written, at least.
    fn written(&self) -> u64 {
        self.events * VALUE
    }

    /// Writes the value of a counter under a group.
    pub(super) fn put(&mut self, group: TrackId, name: &str, kind: CounterKind, time: u64, value: f64) {
        let counter = self.counter(group, name, kind);
        self.value(counter, time, value);
    }

    /// Writes a counter's value from `time` on, in nanoseconds of boot time.
    pub(super) fn value(&mut self, counter: TrackId, time: u64, value: f64) {
        let Some(&Entry { parent, what: What::Counter(kind), .. }) = self.entries.get(&counter) else {
            return;
        };
        for track in parent.into_iter().chain([counter]) {
            self.describe(track, time);
        }
        let parent = parent.and_then(|parent| self.entries.get(&parent));
        let is_of_process = parent.is_some_and(|parent| matches!(parent.what, What::Process { .. }));
        let before = self.recorded();
        let writer = if is_of_process { &mut self.processes } else { &mut self.machine };
        writer.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, time);
            let mut event = packet.message(trace_packet::TRACK_EVENT);
            event.varint(track_event::TYPE, track_event_type::COUNTER);
            event.varint(track_event::TRACK_UUID, counter.0);
            if kind == CounterKind::Count && value.fract() == 0.0 {
                event.varint(track_event::COUNTER_VALUE, value as i64 as u64);
            } else {
                event.double(track_event::DOUBLE_COUNTER_VALUE, value);
            }
        });
        self.events += self.recorded().saturating_sub(before);
        if self.written() >= self.next_look {
            self.forget();
            self.next_look = self.written() + self.ring / 8;
        }
    }

    /// Describes a track unless that was done. The description is as old as the first value: readers would take a process
    /// that is named before it begins for one of those that had its number before.
    fn describe(&mut self, track: TrackId, since: u64) {
        let last = self.written();
        let Some(entry) = self.entries.get_mut(&track) else { return };
        entry.last = last;
        if entry.description.is_none() {
            let number = self.descriptions.add(&Description { track, entry, since });
            entry.description = Some((number, since));
        }
    }

    /// Forgets tracks of which the ring has no value any more, as it has gone round since.
    fn forget(&mut self) {
        let (written, ring) = (self.written(), self.ring);
        for (_, entry) in self.entries.extract_if(|_, entry| written - entry.last > ring) {
            entry.description.inspect(|(number, _)| self.descriptions.remove(*number));
        }
    }
}

/// The packet of a track's description.
struct Description<'e> {
    track: TrackId,
    entry: &'e Entry,
    since: u64,
}

impl Message for Description<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.since)?;
        out.message(trace_packet::TRACK_DESCRIPTOR, &Descriptor(self))
    }
}

struct Descriptor<'d>(&'d Description<'d>);

impl Message for Descriptor<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Description { track, entry, .. } = self.0;
        out.varint(track_descriptor::UUID, track.0)?;
        if let Some(parent) = entry.parent {
            out.varint(track_descriptor::PARENT_UUID, parent.0)?;
        }
        match entry.what {
            What::Process { pid, names_itself } => {
                let name = (!names_itself).then_some(entry.name.as_str());
                out.message(track_descriptor::PROCESS, &ProcessDescription(pid, name))
            }
            What::Group => out.string(track_descriptor::NAME, &entry.name),
            What::Counter(kind) => {
                out.string(track_descriptor::NAME, &entry.name)?;
                out.message(track_descriptor::COUNTER, &kind)
            }
        }
    }
}

struct ProcessDescription<'e>(u32, Option<&'e str>);

impl Message for ProcessDescription<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(process_descriptor::PID, self.0.into())?;
        self.1.map_or(Ok(()), |name| out.string(process_descriptor::PROCESS_NAME, name))
    }
}

impl Message for CounterKind {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        match self {
            CounterKind::Count => out.varint(counter_descriptor::UNIT, counter_unit::COUNT),
            CounterKind::Percent => out.string(counter_descriptor::UNIT_NAME, "%"),
            CounterKind::BytesPerSecond => out.string(counter_descriptor::UNIT_NAME, "B/s"),
            CounterKind::PerSecond => out.string(counter_descriptor::UNIT_NAME, "1/s"),
        }
    }
}

#[cfg(test)]
mod tests;
