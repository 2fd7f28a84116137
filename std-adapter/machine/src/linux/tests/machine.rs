//! A machine of files for tests, and the contents of its recordings.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{process_descriptor, trace_packet, track_descriptor, track_event};

use crate::linux::tracks::Tracks;
use crate::proc::Proc;
use crate::sources::SourceOutput;
use tracebuf::proto::reader::{Field, FieldValue, Fields};
use tracebuf_session::{Recorder, Session};

/// Folders that say what `/proc` and `/sys` would; gone when dropped.
pub(crate) struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// An empty machine, for the test of this name.
    pub(crate) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracebuf-machine-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for part in ["proc/net", "proc/pressure", "sys/block"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        Self { folder }
    }

    pub(crate) fn proc(&self) -> Proc {
        Proc::at(self.folder.join("proc"), self.folder.join("sys"))
    }

    /// Makes a file of `/proc` say this.
    pub(crate) fn says(&self, file: &str, text: &str) {
        self.has_no(file);
        fs::write(self.folder.join("proc").join(file), text).expect("a file");
    }

    /// Takes a file or a folder out of `/proc`.
    pub(crate) fn has_no(&self, file: &str) {
        let path = self.folder.join("proc").join(file);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }

    /// Makes a file of `/proc` that is there but cannot be read.
    pub(crate) fn cannot_say(&self, file: &str) {
        self.has_no(file);
        // A folder, which root cannot read as a file either.
        fs::create_dir(self.folder.join("proc").join(file)).expect("a folder");
    }

    /// Adds a process with this many ticks of CPU time and page faults, which started at a tick. It has a page of memory.
    pub(crate) fn process(&self, pid: u32, name: &str, ticks: u64, started: u64) {
        let _ = fs::create_dir(self.folder.join("proc").join(pid.to_string()));
        let text =
            format!("{pid} ({name}) S 1 2 3 0 -1 4 {ticks} 6 7 8 {ticks} 0 0 0 20 0 1 0 {started} 9 1");
        self.says(&format!("{pid}/stat"), &text);
    }

    /// The place of a file of `/proc`.
    pub(crate) fn file_in_proc(&self, file: &str) -> PathBuf {
        self.folder.join("proc").join(file)
    }

    /// Makes a file beside all these.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn disk(&self, name: &str) {
        fs::create_dir(self.folder.join("sys/block").join(name)).expect("a folder");
    }

    /// Makes a file of `/sys` say this.
    pub(crate) fn has(&self, file: &str, text: &str) {
        let path = self.folder.join("sys").join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What was recorded.
pub(crate) struct Values {
    /// For each counter, by its name under that of its parent: "Memory/used", "7 sh/memory".
    counters: BTreeMap<String, Vec<(u64, f64)>>,
    /// The times of each sequence, as they were written.
    times: BTreeMap<u64, Vec<u64>>,
    /// The numbers of all packets' fields.
    fields: Vec<u32>,
}

impl Values {
    /// Seconds and values, rounded.
    pub(crate) fn of(&self, counter: &str) -> Vec<(u64, u64)> {
        let values = self.counters.get(counter).into_iter().flatten();
        values.map(|(time, value)| (time / SECOND, value.round() as u64)).collect()
    }

    /// How many packets have a message of this number.
    pub(crate) fn packets(&self, number: u32) -> usize {
        self.fields.iter().filter(|field| **field == number).count()
    }

    /// Returns true if times only grow in each sequence.
    pub(crate) fn are_in_order(&self) -> bool {
        self.times.values().all(|times| times.is_sorted())
    }
}

/// A session in which nothing is lost.
pub(crate) struct Recording(Session);

impl Recording {
    const RING: u64 = 4 << 20;

    pub(crate) fn new() -> Self {
        let session = Session::builder().ring(Self::RING).exhaustion(Exhaustion::Stall).start();
        Self(session.expect("a session"))
    }

    pub(in crate::linux) fn start() -> (Self, Tracks) {
        let this = Self::new();
        let tracks = Tracks::new(&this.recorder(), this.0.side_packets(), Self::RING).expect("two writers");
        (this, tracks)
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.0.recorder()
    }

    /// The place for a source's packets.
    pub(crate) fn output(&self) -> SourceOutput {
        SourceOutput::new(&self.recorder(), self.0.side_packets()).expect("a writer")
    }

    /// The same without a place beside the buffers.
    pub(crate) fn output_of_service(&self) -> SourceOutput {
        SourceOutput::new(&self.recorder(), None).expect("a writer")
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.0
    }

    /// All packets, those beside the buffers first.
    pub(crate) fn trace(&self) -> Vec<u8> {
        self.0.flush(Duration::from_secs(5)).expect("a flush");
        let mut trace = Vec::new();
        self.0.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
        trace
    }

    /// The values of each counter. The tracks that wrote them were dropped.
    pub(crate) fn values(&self) -> Values {
        let trace = self.trace();
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
        let fields = packets.iter().flat_map(|packet| packet.0.iter().map(|field| field.number)).collect();
        Values { counters, times, fields }
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
            FieldValue::Number(number) => number,
            _ => u64::from_le_bytes(*field.whole.last_chunk().expect("eight bytes")),
        })
    }

    fn bytes(&self, number: u32) -> Option<&'m [u8]> {
        let FieldValue::Bytes(bytes) = self.find(number)?.value else { panic!("field {number} is a number") };
        Some(bytes)
    }

    fn message(&self, number: u32) -> Option<Message<'m>> {
        self.bytes(number).map(Message::of)
    }

    fn text(&self, number: u32) -> String {
        self.bytes(number).map(|text| String::from_utf8_lossy(text).into_owned()).expect("a text")
    }
}
