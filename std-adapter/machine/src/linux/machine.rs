//! A machine of files, for tests, and what a recording says about it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{process_descriptor, trace_packet, track_descriptor, track_event};

use super::proc::Proc;
use super::tracks::Tracks;
use tracebuf_session::Session;
use tracebuf_session::fields::{Field, Fields, Value};

/// Folders that say what `/proc` and `/sys/block` would; gone when dropped.
pub(super) struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// An empty machine, for the test of this name.
    pub(super) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracebuf-machine-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for part in ["proc/net", "block"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        Self { folder }
    }

    pub(super) fn proc(&self) -> Proc {
        Proc::at(self.folder.join("proc"), self.folder.join("block"))
    }

    /// Makes a file of `/proc` say this.
    pub(super) fn says(&self, file: &str, text: &str) {
        self.has_no(file);
        fs::write(self.folder.join("proc").join(file), text).expect("a file");
    }

    /// Takes a file or a folder out of `/proc`.
    pub(super) fn has_no(&self, file: &str) {
        let path = self.folder.join("proc").join(file);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }

    /// Makes a file of `/proc` that is there but cannot be read.
    pub(super) fn cannot_say(&self, file: &str) {
        self.has_no(file);
        // A folder, which root cannot read as a file either.
        fs::create_dir(self.folder.join("proc").join(file)).expect("a folder");
    }

    /// Adds a process with this many ticks of CPU time, which started at a tick. It has a page of memory.
    pub(super) fn process(&self, pid: u32, name: &str, ticks: u64, started: u64) {
        let _ = fs::create_dir(self.folder.join("proc").join(pid.to_string()));
        let text = format!("{pid} ({name}) S 1 2 3 0 -1 4 5 6 7 8 {ticks} 0 0 0 20 0 1 0 {started} 9 1");
        self.says(&format!("{pid}/stat"), &text);
    }

    /// Makes a file beside all these.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub(super) fn disk(&self, name: &str) {
        fs::create_dir(self.folder.join("block").join(name)).expect("a folder");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(super) const SECOND: u64 = 1_000_000_000;

/// What was recorded.
pub(super) struct Values {
    /// For each counter, by its name under that of its parent: "Memory/used", "7 sh/memory".
    counters: BTreeMap<String, Vec<(u64, f64)>>,
    /// The times of each sequence, as they were written.
    times: BTreeMap<u64, Vec<u64>>,
}

impl Values {
    /// Seconds and values, rounded.
    pub(super) fn of(&self, counter: &str) -> Vec<(u64, u64)> {
        let values = self.counters.get(counter).into_iter().flatten();
        values.map(|(time, value)| (time / SECOND, value.round() as u64)).collect()
    }

    /// Whether times only grow in each sequence.
    pub(super) fn are_in_order(&self) -> bool {
        self.times.values().all(|times| times.is_sorted())
    }
}

/// A session in which nothing is lost.
pub(super) struct Recording(Session);

impl Recording {
    pub(super) fn start() -> (Self, Tracks) {
        const RING: u64 = 4 << 20;
        let session = Session::builder().ring(RING).exhaustion(Exhaustion::Stall).start().expect("a session");
        let tracks = Tracks::new(&session.recorder(), session.side_packets(), RING).expect("two writers");
        (Self(session), tracks)
    }

    /// The values of each counter. The tracks that wrote them were dropped.
    pub(super) fn values(&self) -> Values {
        self.0.flush(Duration::from_secs(5)).expect("a flush");
        let mut trace = Vec::new();
        self.0.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
        let packets = TracePackets::new(&trace).map(|packet| Message::of(packet.expect("a packet")));
        let packets: Vec<_> = packets.collect();

        let descriptors = packets.iter().filter_map(|packet| packet.message(trace_packet::TRACK_DESCRIPTOR));
        let tracks: HashMap<u64, _> = descriptors
            .map(|track| (track.number(track_descriptor::UUID).expect("a number"), track))
            .collect();
        let name = |uuid: u64| -> String {
            let track = tracks.get(&uuid).expect("a track that is described");
            let Some(process) = track.message(track_descriptor::PROCESS) else {
                return track.text(track_descriptor::NAME);
            };
            let pid = process.number(process_descriptor::PID).expect("a pid");
            format!("{pid} {}", process.text(process_descriptor::PROCESS_NAME))
        };
        let (mut counters, mut times) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for packet in &packets {
            let Some(event) = packet.message(trace_packet::TRACK_EVENT) else { continue };
            let whole = event.number(track_event::COUNTER_VALUE).map(|value| value as f64);
            let value = whole.or(event.number(track_event::DOUBLE_COUNTER_VALUE).map(f64::from_bits));
            let (Some(value), Some(uuid)) = (value, event.number(track_event::TRACK_UUID)) else { continue };
            let parent = tracks.get(&uuid).and_then(|track| track.number(track_descriptor::PARENT_UUID));
            let counter = format!("{}/{}", name(parent.expect("a parent")), name(uuid));
            let time = packet.number(trace_packet::TIMESTAMP).expect("a time");
            counters.entry(counter).or_default().push((time, value));
            let sequence = packet.number(trace_packet::TRUSTED_PACKET_SEQUENCE_ID).expect("a sequence");
            times.entry(sequence).or_default().push(time);
        }
        Values { counters, times }
    }
}

/// A message's fields.
struct Message<'m>(Vec<Field<'m>>);

impl<'m> Message<'m> {
    fn of(bytes: &'m [u8]) -> Self {
        let mut fields = Fields::of(bytes);
        let message = Self(fields.by_ref().collect());
        assert!(fields.is_at_end(), "a message is whole");
        message
    }

    fn find(&self, number: u32) -> Option<&Field<'m>> {
        self.0.iter().find(|field| field.number == number)
    }

    /// A number, or the bits of a `double`.
    fn number(&self, number: u32) -> Option<u64> {
        let field = self.find(number)?;
        Some(match field.value {
            Value::Number(number) => number,
            _ => u64::from_le_bytes(*field.whole.last_chunk().expect("eight bytes")),
        })
    }

    fn bytes(&self, number: u32) -> Option<&'m [u8]> {
        let Value::Bytes(bytes) = self.find(number)?.value else { panic!("field {number} is a number") };
        Some(bytes)
    }

    fn message(&self, number: u32) -> Option<Message<'m>> {
        self.bytes(number).map(Message::of)
    }

    fn text(&self, number: u32) -> String {
        self.bytes(number).map(|text| String::from_utf8_lossy(text).into_owned()).expect("a text")
    }
}
