//! Which pairs are kept, and what a reader makes of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::proto::TracePackets;
use tracebuf_analysis::recover::Survivor;
use tracebuf_testing::trace::Trace;

use super::*;
use crate::Session;
use crate::drain::Task;
use crate::region_file::{RegionSpec, create};

const SECOND: u64 = 1_000_000_000;
/// The boot time of the session's start, and how far the time of day is ahead of it then.
const START: u64 = 1_000 * SECOND;
const DAY_AHEAD: u64 = 1_700_000_000 * SECOND;

/// A machine whose clocks are moved by hand.
struct Machine {
    boottime: u64,
    slept: u64,
    ahead: u64,
    pairs: ClockPairs,
    /// What the clocks showed at each look.
    truth: Vec<ClockReading>,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self {
            boottime: START,
            slept: 0,
            ahead: DAY_AHEAD,
            pairs: ClockPairs::default(),
            truth: Vec::new(),
        };
        machine.pass(0);
        machine
    }

    fn now(&self) -> ClockReading {
        ClockReading {
            boottime: self.boottime,
            monotonic: self.boottime - self.slept,
            realtime: self.boottime + self.ahead,
        }
    }

    /// Some time passes, then somebody looks. Readings are never exact.
    fn pass(&mut self, nanoseconds: u64) {
        self.boottime += nanoseconds;
        let mut now = self.now();
        now.realtime += self.boottime / 7 % 300;
        self.truth.push(now);
        self.pairs.see(now);
    }

    fn sleep(&mut self, nanoseconds: u64) {
        self.boottime += nanoseconds;
        self.slept += nanoseconds;
    }

    fn kept(&self) -> Vec<ClockReading> {
        self.pairs.kept.iter().map(|kept| kept.reading).collect()
    }

    /// Checks that a reader who goes on from the newest pair before each moment is right at all of them.
    fn assert_right(&self) {
        let kept = self.kept();
        assert!(kept.is_sorted_by_key(|pair| pair.boottime) && kept[0] == self.truth[0]);
        for truth in &self.truth {
            let before = kept.iter().rev().find(|pair| pair.boottime <= truth.boottime).expect("a pair");
            let off = before.offsets().into_iter().zip(truth.offsets());
            assert!(off.clone().all(|(one, other)| one.abs_diff(other) < MOVED), "{truth:?}: {before:?}");
        }
    }
}

#[test]
fn a_pair_is_kept_every_ten_seconds_and_not_more_often() {
    let mut machine = Machine::new();
    (0..305).for_each(|_| machine.pass(SECOND / 10));
    let times: Vec<_> = machine.kept().iter().map(|pair| (pair.boottime - START) / SECOND).collect();
    assert_eq!(times, [0, 10, 20, 30]);
    machine.assert_right();
}

#[test]
fn when_the_time_of_day_is_set_or_the_machine_has_slept_both_sides_of_it_are_kept() {
    let mut machine = Machine::new();
    (0..3).for_each(|_| machine.pass(SECOND));
    machine.ahead -= 3600 * SECOND;
    (0..3).for_each(|_| machine.pass(SECOND));
    machine.sleep(500 * SECOND);
    (0..3).for_each(|_| machine.pass(SECOND));
    let times: Vec<_> = machine.kept().iter().map(|pair| (pair.boottime - START) / SECOND).collect();
    assert_eq!(times, [0, 3, 4, 6, 507]);
    machine.assert_right();
}

#[test]
fn after_a_month_there_are_few_and_each_of_its_moments_has_its_times() {
    let mut machine = Machine::new();
    for second in (0..30 * 86_400).step_by(10) {
        match second {
            90_000 => machine.ahead += 7 * SECOND,
            500_000 => machine.sleep(8 * 3600 * SECOND),
            500_400 => machine.ahead -= 2 * 3600 * SECOND,
            2_000_000 => machine.sleep(60 * SECOND),
            _ => {}
        }
        machine.pass(PERIOD);
    }
    let kept = machine.kept();
    assert_eq!(kept.len(), PAIRS_MAX);
    machine.assert_right();
    // The last ten minutes are as they were, and no part of the month has none.
    let newest = kept.last().expect("one").boottime;
    assert!(kept.iter().rev().take(NEWEST).zip(0..).all(|(pair, n)| newest - pair.boottime == n * PERIOD));
    let ages: Vec<_> = kept.iter().map(|pair| machine.boottime - pair.boottime).collect();
    let gaps = ages.windows(2).filter(|ages| ages[1] > 3600 * SECOND);
    assert!(gaps.clone().all(|ages| ages[0] - ages[1] < ages[0] * 3 / 4), "{ages:?}");
    assert!(gaps.count() > 8);
}

#[test]
fn a_clock_that_is_set_all_the_time_takes_no_more_room_and_its_last_minute_is_right() {
    let mut machine = Machine::new();
    for second in 0..5_000_u64 {
        machine.ahead = DAY_AHEAD + second % 2 * SECOND;
        machine.pass(SECOND);
    }
    assert_eq!(machine.kept().len(), PAIRS_MAX);
    let first_sure = machine.boottime - 55 * SECOND;
    machine.truth.retain(|truth| truth.boottime == START || truth.boottime >= first_sure);
    machine.assert_right();
}

/// The boot times of the pairs in a piece.
fn told(piece: &Piece) -> Vec<u64> {
    use tracebuf::proto::{PacketView, fields::clock, reader::number};
    let packets = TracePackets::new(&piece.bytes).map(|packet| PacketView::of(packet.expect("a packet")));
    packets.filter_map(|packet| number(packet.clocks().next()?, clock::TIMESTAMP)).collect()
}

#[test]
fn a_file_gets_all_pairs_and_then_those_that_are_newer_and_always_those_of_the_moment() {
    let mut pairs = ClockPairs::default();
    let now = ClockReading::now();
    let ago = |seconds: u64| ClockReading {
        boottime: now.boottime - seconds * SECOND / 1000,
        monotonic: now.monotonic - seconds * SECOND / 1000,
        realtime: now.realtime - seconds * SECOND / 1000,
    };
    let (first, second) = (ago(2), ago(1));
    pairs.see(first);
    pairs.keep(second);
    let mut whole = Piece::default();
    let written = whole.clocks(&mut pairs, ClocksWritten::of(&first)).expect("memory");
    assert_eq!(told(&whole), [second.boottime, written.boottime()]);
    let mut rest = Piece::default();
    let later = rest.clocks(&mut pairs, written).expect("memory");
    assert_eq!(told(&rest), [later.boottime()]);
    // Another file begins anew.
    let mut other = Piece::default();
    let newest = other.clocks(&mut pairs, ClocksWritten::default()).expect("memory");
    assert_eq!(told(&other), [first.boottime, second.boottime, newest.boottime()]);
    assert_eq!((whole.packets, rest.packets, other.packets), (2, 1, 3));
}

#[test]
fn a_look_reads_the_clocks_now_and_then() {
    let mut pairs = ClockPairs::default();
    pairs.look();
    let last = pairs.last;
    assert!(last.boottime > 0 && pairs.kept.len() == 1);
    pairs.look();
    assert!(pairs.last == last || pairs.last.boottime >= last.boottime + LOOK);
}

#[test]
fn a_session_s_thread_looks_though_nothing_happens() {
    let session = Session::builder().start().expect("a session");
    let last = || {
        let (tell, told) = std::sync::mpsc::channel();
        let task =
            Task::new(Box::new(move |drain| tell.send(drain.service.clocks.last.boottime).expect("asked")));
        session.tasks.send(task).expect("it runs");
        told.recv_timeout(Duration::from_secs(5)).expect("an answer")
    };
    let before = last();
    std::thread::sleep(Duration::from_millis(2_200));
    assert!(last() > before + SECOND);
}

/// The files of a session that was killed.
struct Killed {
    folder: PathBuf,
    start: Piece,
    pairs: ClockPairs,
}

impl Killed {
    /// One that ran for half a minute, with a sleep in it. `None`: this system has no such files.
    fn new(name: &str, in_slot: impl FnOnce(&[ClockReading]) -> Vec<u8>) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("tracebuf-clocks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let first = Machine::new().now();
        let mut start = Piece::default();
        start.clock_reading(&first).expect("memory");
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let region = config.region_size(1 << 16);
        let spec = RegionSpec { region, beside_long_trace: true, clocks: &start.bytes, own: None, kept: 0 };
        let (parts, undo) = match create(&folder.join("x.region"), &spec) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return None,
            made => made.expect("a file"),
        };
        undo.forget();
        let mut machine = Machine::new();
        machine.pairs = ClockPairs::new(first, vec![parts.clocks]);
        (0..130).for_each(|_| machine.pass(SECOND / 10));
        machine.sleep(600 * SECOND);
        (0..130).for_each(|_| machine.pass(SECOND / 10));
        assert_eq!(machine.kept().len(), 5);
        let mut buffer = TraceBuffer::new(parts.memory, config).expect("a region");
        let header = ChunkHeader { producer_id: 2, fragments: 1, ..Default::default() };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 7] });
        let mut outbox = parts.outbox.expect("a long trace beside it");
        let in_slot = in_slot(&machine.kept());
        if !in_slot.is_empty() {
            let mut slot = outbox.free_slot().expect("it is free");
            outbox.begin(buffer.memory());
            assert!(slot.fill(&in_slot));
            outbox.publish(Some(&slot));
        }
        Some(Self { folder, start, pairs: machine.pairs })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Checks that a trace has these pairs, and the packet that was in the ring after them.
    fn assert_has_all(&self, trace: &Path, are_missing: std::ops::Range<usize>) {
        let trace = Trace::read(trace);
        let mut expected: Vec<_> = self.pairs.kept.iter().map(|kept| kept.reading.boottime).collect();
        expected.drain(are_missing);
        let found: Vec<_> = trace.clock_pairs().iter().map(|pair| pair.boottime).collect();
        assert_eq!(found, expected);
        assert!(trace.packets().any(|packet| packet.starts_with(&[0x40, 7])));
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn packets(pairs: &[ClockReading]) -> Vec<u8> {
    let mut piece = Piece::default();
    pairs.iter().for_each(|pair| piece.clock_reading(pair).expect("memory"));
    piece.bytes
}

#[test]
fn a_killed_session_s_trace_has_its_pairs_before_all_else() {
    let Some(killed) = Killed::new("alone", |_| Vec::new()) else { return };
    let survivor = Survivor::open(killed.path("x.region")).expect("a buffer");
    survivor.write_to(killed.path("out")).expect("a trace");
    killed.assert_has_all(&killed.path("out"), 0..0);
}

#[test]
fn what_a_killed_session_s_long_trace_and_slots_have_of_its_pairs_comes_once_and_in_order() {
    // The trace has the first pairs, the slot those after them, the table all; and any of these may have none.
    for (in_trace, in_slot) in [(1, 1), (2, 3), (2, 4), (3, 3), (5, 5), (0, 2), (0, 0)] {
        let name = format!("beside-{in_trace}-{in_slot}");
        let Some(killed) = Killed::new(&name, |pairs| packets(&pairs[in_trace.max(1)..in_slot.max(1)]))
        else {
            return;
        };
        let all: Vec<_> = killed.pairs.kept.iter().map(|kept| kept.reading).collect();
        let start = if in_trace == 0 { &[][..] } else { &killed.start.bytes };
        let long = [start, &packets(&all[1.min(in_trace)..in_trace])].concat();
        std::fs::write(killed.path("long"), long).expect("a file");
        let survivor = || Survivor::open(killed.path("x.region")).expect("a buffer");
        survivor().write_with(killed.path("long"), killed.path("out")).expect("a trace");
        killed.assert_has_all(&killed.path("out"), 0..0);
        survivor().write_to(killed.path("alone")).expect("a trace");
        // Those before the slot's are in the long trace.
        let first_in_slot = in_trace.max(1);
        let has_slot = in_slot.max(1) > first_in_slot;
        killed.assert_has_all(&killed.path("alone"), if has_slot { 1..first_in_slot } else { 0..0 });
    }
}
