//! Remains that follow a trace which is cut short or damaged.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use tracebuf::proto::TracePackets;
use tracebuf_analysis::recover::Survivor;
use tracebuf_session::LongTrace;

use super::{count, start, values};
use crate::trace::{Trace, folder, mkfifo};

/// What is counted: a third for each slot, and the rest for the ring.
pub(super) const VALUES: u64 = 30_000;

/// A slot that holds something: where the file says its place in the trace, and its bytes.
pub(super) struct Slot {
    pub(super) about: usize,
    pub(super) bytes: Vec<u8>,
}

/// The file of a buffer, from which the long trace has taken nothing; its slots, the first one first. That one has its
/// place behind the trace's head, as if the disk had become full then; the others' places are not known.
pub(super) struct Left {
    pub(super) region: PathBuf,
    pub(super) file: Vec<u8>,
    /// The clocks of the session's start, with which the trace begins before there is any slot.
    pub(super) head: Vec<u8>,
    pub(super) slots: Vec<Slot>,
}

impl Left {
    pub(super) fn in_folder(folder: &Path) -> Self {
        let region = folder.join("x.region");
        let trace = LongTrace::to("/dev/full").period(Duration::from_millis(200));
        let session = start(1 << 20, &region, trace);
        let third = VALUES as i64 / 3;
        for (part, valid) in [(0..third, 1), (third..2 * third, 2), (2 * third..VALUES as i64, 2)] {
            count(&session, part);
            wait_for_slots(&region, valid);
        }
        drop(session.stop().expect("a stop"));
        let file = fs::read(&region).expect("the file");
        let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight")) as usize;
        let pages = |len: usize| len.next_multiple_of(4096);
        let start = |n| 4096 + pages(number(16)) * number(24) + pages(number(40)) * n;
        let mut slots: Vec<_> = (0..number(32))
            .filter(|n| number(48) >> (1 + n) & 1 == 1)
            .map(|n| (64 + 24 * n, file[start(n)..start(n) + number(64 + 24 * n)].to_vec()))
            .map(|(about, bytes)| Slot { about, bytes })
            .collect();
        slots.sort_by_key(|slot| number(slot.about + 16));
        let head = file[264..264 + number(256)].to_vec();
        let at = head.len();
        let mut left = Self { region, file, head, slots };
        left.goes_to(0, at);
        left
    }

    /// The trace that has what is in the first slot.
    pub(super) fn trace(&self) -> Vec<u8> {
        [&self.head[..], &self.slots[0].bytes].concat()
    }

    /// Says where in the trace a slot goes.
    pub(super) fn goes_to(&mut self, slot: usize, at: usize) {
        let about = self.slots[slot].about;
        // The word for a place that is not known is as long on hosts of 32 bits.
        let at = if at == usize::MAX { u64::MAX } else { at as u64 };
        self.file[about + 8..about + 16].copy_from_slice(&at.to_le_bytes());
        fs::write(&self.region, &self.file).expect("the file");
    }

    /// Says that the trace has what is in the first slot.
    pub(super) fn has_first(&mut self) {
        self.file[48] &= !(2 << ((self.slots[0].about - 64) / 24));
        fs::write(&self.region, &self.file).expect("the file");
    }
}

/// Waits until this many slots of a file are valid.
fn wait_for_slots(region: &Path, valid: u32) {
    let (file, begun) = (fs::File::open(region).expect("the file"), Instant::now());
    let mut word = [0; 8];
    while (u64::from_le_bytes(word) & 6).count_ones() < valid {
        assert!(begun.elapsed() < Duration::from_secs(30), "{word:?}");
        std::thread::sleep(Duration::from_millis(5));
        file.read_exact_at(&mut word, 48).expect("a page");
    }
}

/// Where the first packet after this many bytes begins.
pub(super) fn boundary(trace: &[u8], least: usize) -> usize {
    let mut packets = TracePackets::new(trace);
    while packets.offset() < least && packets.next().is_some_and(|packet| packet.is_ok()) {}
    packets.offset()
}

/// Runs the command with a trace; returns its exit status, and what it said.
pub(super) fn recover(region: &Path, how: &str, trace: &Path, out: &Path) -> (Option<i32>, String) {
    run(&["recover".as_ref(), region, how.as_ref(), trace, "-o".as_ref(), out])
}

pub(super) fn run(arguments: &[&Path]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracebuf"));
    let output = command.args(arguments).output().expect("the command runs");
    let said = [output.stderr, output.stdout].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn of_a_trace_that_is_damaged_where_a_slot_has_the_same_nothing_is_lost() {
    let folder = folder("covered");
    let left = Left::in_folder(&folder);
    let [trace, out] = ["x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let first = &left.trace();
    let middle = boundary(first, first.len() / 2);
    let mut damaged = first.clone();
    damaged[middle..middle + 5].fill(0);
    // Without a packet's end, whole, and damaged in the middle.
    for bytes in [&first[..middle + 3], first, &damaged] {
        fs::write(&trace, bytes).expect("a file");
        let survivor = Survivor::open(&left.region).expect("a buffer");
        let (written, gap) = survivor.write_with(&trace, &out).expect("a trace");
        let both = Trace::read(&out);
        assert!(gap.is_none() && both.losses() == 0, "{gap}");
        assert_eq!(written.bytes, both.bytes.len() as u64);
        assert_eq!(values(&both), Vec::from_iter(0..VALUES));
        // So it may take the trace's place.
        let (code, said) = recover(&left.region, "--with", &trace, &trace);
        assert_eq!((code, values(&Trace::read(&trace)).len()), (Some(0), VALUES as usize), "{said}");
    }
}

#[test]
fn what_a_trace_has_behind_its_first_damage_is_told_marked_and_not_replaced() {
    let folder = folder("damaged trace");
    let mut left = Left::in_folder(&folder);
    let [trace, out] = ["x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let mut bytes = left.trace();
    left.has_first();
    let (len, middle) = (bytes.len(), boundary(&bytes, bytes.len() / 2));
    bytes[middle] = 0;
    fs::write(&trace, &bytes).expect("a file");
    let lost = format!("{} bytes from offset {middle} on are unreadable", len - middle);

    let (code, said) = recover(&left.region, "--with", &trace, &trace);
    let gone =
        format!("it is the trace itself, of which {} bytes would be gone, unreadable from", len - middle);
    assert!(code == Some(1) && said.contains(&gone) && !said.contains("is lost"), "{said}");
    assert!(fs::read(&trace).expect("it is there") == bytes);

    let (code, said) = recover(&left.region, "--with", &trace, &out);
    assert!(code == Some(3) && said.contains(&format!("x.pftrace: {lost}: ")), "{said}");
    let both = Trace::read(&out);
    both.assert_ends_with_stats();
    let values = values(&both);
    let hole = values.windows(2).position(|pair| pair[1] != pair[0] + 1).expect("a hole");
    assert_eq!((values[0], values[hole..].windows(2).filter(|pair| pair[1] != pair[0] + 1).count()), (0, 1));
    assert_eq!(values.last(), Some(&(VALUES - 1)));
    // Otherwise readers would take what comes then for what follows: names, and times that count from the last.
    let is_marked = |packet: &&[u8]| crate::trace::number(packet, 42).is_some_and(|loss| loss & 1 == 1);
    let sequences = |packet: &[u8]| crate::trace::number(packet, 10).expect("a sequence");
    let marked: Vec<_> = both.packets().filter(is_marked).map(sequences).collect();
    let has_value = |packet: &&[u8]| {
        let event = crate::trace::message(packet, 11);
        event.and_then(|event| crate::trace::number(event, 30)) == Some(values[hole + 1])
    };
    let next = both.packets().position(|packet| has_value(&packet)).expect("it is there");
    let first = both.packets().position(|packet| is_marked(&packet)).expect("one is marked");
    assert!(
        first <= next && marked.len() <= 2 && marked.contains(&sequences(both.packets().nth(next).unwrap()))
    );
}

#[test]
fn a_trace_that_is_shorter_than_it_was_is_told_and_marked() {
    let folder = folder("short trace");
    let mut left = Left::in_folder(&folder);
    let [trace, out] = ["x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let bytes = left.trace();
    left.has_first();
    left.goes_to(1, bytes.len());
    for (len, code) in [(bytes.len(), 0), (boundary(&bytes, bytes.len() / 2), 3), (0, 3)] {
        fs::write(&trace, &bytes[..len]).expect("a file");
        let missing = (bytes.len() - len) as u64;
        let gap = Survivor::open(&left.region).expect("a buffer").append_to(&trace).expect("its own").gap();
        // An empty one does not even have the clocks, but the buffer's file does.
        assert!(
            (gap.unreadable, gap.missing) == (0, missing) || len == 0 && gap.missing > missing / 2,
            "{gap}"
        );
        for how in ["--with", "--after"] {
            let (ended, said) = recover(&left.region, how, &trace, &out);
            assert_eq!(ended, Some(code), "{said}");
            assert_eq!(
                said.contains("bytes shorter than it was: what was there is lost"),
                code == 3,
                "{said}"
            );
            assert_eq!(Trace::read(&out).losses() > 0, code == 3);
        }
    }
    // It may be put in order in its place: that loses nothing that it has.
    let (ended, said) = recover(&left.region, "--with", &trace, &trace);
    assert!(ended == Some(3) && !values(&Trace::read(&trace)).is_empty(), "{said}");
}

#[test]
fn a_trace_of_which_nobody_knows_how_much_it_has_is_refused_by_its_name() {
    let folder = folder("pipe");
    let left = Left::in_folder(&folder);
    let [pipe, out] = ["pipe", "out.pftrace"].map(|name| folder.join(name));
    mkfifo(&pipe);
    for trace in [pipe.as_path(), "/dev/null".as_ref(), &folder] {
        for how in ["--after", "--with"] {
            let (code, said) = recover(&left.region, how, trace, &out);
            let why = format!("error: {}: it is no regular file: ", trace.display());
            assert!(code == Some(1) && said.contains(&why) && !out.exists(), "{said}");
        }
    }
    let gzipped = folder.join("x.gz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&left.trace()).expect("memory");
    fs::write(&gzipped, packed.finish().expect("memory")).expect("a file");
    for how in ["--after", "--with"] {
        let (code, said) = recover(&left.region, how, &gzipped, &out);
        assert!(
            code == Some(1) && said.ends_with(": it seems to be gzipped, and `gunzip` unpacks it\n"),
            "{said}"
        );
    }
    // Nor is the output blamed for what else is wrong with the trace.
    let none = folder.join("none");
    let (code, said) = recover(&left.region, "--with", &none, &out);
    assert!(code == Some(1) && said.contains(&format!("error: {}: No such file", none.display())), "{said}");
}
