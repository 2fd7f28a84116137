//! A reader of traces for tests: field after field, by the wire format alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracebuf::proto::TracePackets;

/// The folder that cargo builds into: it has marked it as one that need not be kept.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a program");
    let target = test.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.expect("a program that cargo has built").to_owned()
}

/// A file of this test's own, in a folder that stays when the test is over.
pub fn scratch(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program");
    let test = test.file_stem().expect("a name").to_string_lossy().into_owned();
    // Without the build's number.
    let test = test.rsplit_once('-').map_or(test.as_str(), |(name, _)| name);
    let path = target().join("tmp").join(test).join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    path
}

/// An empty folder of this test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = scratch(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A pipe of this name, on a Unix.
pub fn mkfifo(path: &Path) {
    let _ = std::fs::remove_file(path);
    let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status();
    assert!(made.expect("a command").success());
}

/// Waits until somebody has made the file.
pub fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(10), "{} appears", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The file of a flight recorder of this reason and number, if it is there.
pub fn find_snapshot(folder: &Path, reason: &str, number: u64) -> Option<PathBuf> {
    let ending = format!(".{reason}-{number}.pftrace");
    let mut paths =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.file_name().expect("a name").to_string_lossy().ends_with(&ending))
}

/// The same, once it is there.
pub fn wait_for_snapshot(folder: &Path, reason: &str, number: u64) -> PathBuf {
    let start = Instant::now();
    loop {
        if let Some(path) = find_snapshot(folder, reason, number) {
            return path;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{reason}-{number} appears");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A field: its number and its value, or its bytes.
pub enum Field<'a> {
    Number(u32, u64),
    Bytes(u32, &'a [u8]),
}

pub fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

pub fn fields(bytes: &[u8]) -> Vec<Field<'_>> {
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let tag = varint(bytes, &mut at);
        let number = (tag >> 3) as u32;
        match tag & 7 {
            0 => all.push(Field::Number(number, varint(bytes, &mut at))),
            1 => {
                all.push(Field::Number(number, u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())));
                at += 8;
            }
            2 => {
                let len = varint(bytes, &mut at) as usize;
                all.push(Field::Bytes(number, &bytes[at..at + len]));
                at += len;
            }
            other => panic!("wire type {other}"),
        }
    }
    all
}

/// The last value of the field with this number.
pub fn number(bytes: &[u8], wanted: u32) -> Option<u64> {
    let is = |field: Field<'_>| match field {
        Field::Number(number, value) if number == wanted => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(is).next_back()
}

/// The first message in the field with this number.
pub fn message(bytes: &[u8], wanted: u32) -> Option<&[u8]> {
    fields(bytes).into_iter().find_map(|field| match field {
        Field::Bytes(number, value) if number == wanted => Some(value),
        _ => None,
    })
}

/// A whole trace.
pub struct Trace {
    pub bytes: Vec<u8>,
    /// Bytes of whole packets.
    pub whole: usize,
}

impl Trace {
    /// A trace without a cut packet at its end.
    pub fn read(path: &Path) -> Self {
        let trace = Self::read_cut(path);
        assert_eq!(trace.whole, trace.bytes.len(), "{} ends within a packet", path.display());
        trace
    }

    /// A trace that may end within a packet.
    pub fn read_cut(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("a trace");
        let mut packets = TracePackets::new(&bytes);
        while packets.next().is_some_and(|packet| packet.is_ok()) {}
        let whole = packets.offset();
        Self { bytes, whole }
    }

    pub fn packets(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let packets = TracePackets::new(&self.bytes[..self.whole]);
        packets.map(|packet| packet.expect("a packet")).collect::<Vec<_>>().into_iter()
    }

    /// Track events of a type.
    pub fn events(&self, kind: u64) -> usize {
        let is = |packet: &&[u8]| message(packet, 11).is_some_and(|event| number(event, 9) == Some(kind));
        self.packets().filter(is).count()
    }

    /// Signs for the events' types, and the names of those that have one, in the order in which they lie there: `+` for
    /// a slice's begin, `-` for its end, `!` for an instant, `#` for a counter.
    pub fn story(&self) -> String {
        let (mut names, mut story) = (std::collections::HashMap::new(), Vec::new());
        for packet in self.packets() {
            let sequence = number(packet, 10);
            for field in message(packet, 12).map(fields).unwrap_or_default() {
                if let Field::Bytes(2, name) = field {
                    let text = String::from_utf8_lossy(message(name, 2).unwrap_or_default()).into_owned();
                    names.insert((sequence, number(name, 1)), text);
                }
            }
            let Some(event) = message(packet, 11) else { continue };
            let text = message(event, 23).map(|name| String::from_utf8_lossy(name).into_owned());
            let name = text.or_else(|| names.get(&(sequence, number(event, 10))).cloned());
            let sign = ["", "+", "-", "!", "#"][number(event, 9).unwrap_or(0) as usize];
            let name = if sign == "-" { None } else { name };
            story.push(format!("{sign}{}", name.unwrap_or_default()));
        }
        story.join(" ")
    }

    /// Returns true if a text is somewhere in it.
    pub fn contains(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Packets that say that something before them is lost.
    pub fn losses(&self) -> usize {
        self.packets().filter(|packet| number(packet, 42).is_some_and(|loss| loss != 0)).count()
    }

    /// Returns true if every packet of a producer has a field of this value.
    pub fn all_have(&self, field: u32, value: u64) -> bool {
        let of_producer = |packet: &&[u8]| number(packet, 10) != Some(1);
        self.packets().filter(of_producer).all(|packet| number(packet, field) == Some(value))
    }

    pub fn assert_ends_with_stats(&self) {
        let last = self.packets().next_back().expect("a packet");
        let stats = message(last, 35).expect("statistics in the last packet");
        assert!(message(stats, 1).is_some(), "of a buffer");
    }

    /// The values of all counters, in order, by the sequence that wrote them.
    pub fn counters(&self) -> std::collections::BTreeMap<u64, Vec<u64>> {
        let mut counters = std::collections::BTreeMap::<u64, Vec<u64>>::new();
        for packet in self.packets() {
            if let Some(value) = message(packet, 11).and_then(|event| number(event, 30)) {
                counters.entry(number(packet, 10).expect("a sequence")).or_default().push(value);
            }
        }
        counters
    }

    /// What the clock with this number showed, each time the service reports its clocks.
    pub fn clock(&self, id: u64) -> impl Iterator<Item = u64> {
        self.packets().filter(|packet| number(packet, 10) == Some(1)).filter_map(move |packet| {
            let clocks = message(packet, 6)?;
            fields(clocks).into_iter().find_map(|field| match field {
                Field::Bytes(1, clock) if number(clock, 1) == Some(id) => number(clock, 2),
                _ => None,
            })
        })
    }

    /// The time of day, in nanoseconds, of the first packet that starts a writer's state.
    pub fn time_of_day_of_first_state(&self) -> u64 {
        let clock = |id: u64| self.clock(id).next();
        let (boottime, realtime) = (clock(6).expect("boot time"), clock(1).expect("time of day"));
        let is = |packet: &&[u8]| number(packet, 10) != Some(1) && number(packet, 8).is_some();
        let state = self.packets().find(is).expect("a state");
        number(state, 8).expect("a time") + realtime - boottime
    }
}
