//! What was recorded in place, as a trace.

use std::sync::atomic::{AtomicU32, Ordering};

use tracebuf::inplace::{Recorder, Region, RegionView};

use super::InPlace;
use crate::Trace;
use crate::recover::{Dump, Place};

fn dump<const N: usize, const X: usize, const C: usize, const W: usize>(
    region: &Region<N, X, C, W>,
) -> Vec<u8> {
    region.words().flat_map(u32::to_le_bytes).collect()
}

fn found(dump: &[u8]) -> (InPlace, Trace) {
    let found = InPlace::of(&RegionView::find(dump).expect("a region"));
    let trace = Trace::of(found.trace()).expect("a trace");
    (found, trace)
}

static TIME: AtomicU32 = AtomicU32::new(0);

fn microseconds() -> u32 {
    TIME.load(Ordering::Relaxed)
}

fn at(time: u32) {
    TIME.store(time, Ordering::Relaxed);
}

#[test]
fn events_of_writers_tasks_and_tracks_are_where_they_belong() {
    static TRACE: Region<64, 128, 16> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, microseconds, 1_000_000);
    let (main, interrupt) = (recorder.writer("main loop"), recorder.writer("UART"));
    let (motor, idle) = (recorder.track("motor", 1), recorder.track("idle", 0));
    at(10);
    main.begin_with("work", |details| {
        details.arg("step", -3).arg_text("mode", "fast").flow(77);
    });
    at(12);
    interrupt.begin("receive");
    main.switch_to(Some(motor));
    at(15);
    interrupt.instant_with("byte", |details| {
        details.flow(77);
    });
    interrupt.end();
    main.count("depth", -5);
    main.count_i64("total", 1 << 40);
    main.measure("volts", 3.5);
    main.on(motor).instant("started");
    at(30);
    main.switch_to(Some(idle));
    main.log(5, "net", "link is down");
    main.end();
    main.switch_to(None);

    let (found, trace) = found(&dump(&TRACE));
    assert_eq!((found.missing_chunks, found.dropped_events, found.unnamed), (0, 0, 0));
    assert_eq!(found.span, Some((10_000, 30_000)));
    let work = trace.slice("work").expect("it");
    assert_eq!((work.begin(), work.end()), (10_000, Some(30_000)));
    assert_eq!(
        (work.track().thread_name(), work.track().process_name()),
        (Some("main loop"), Some("firmware"))
    );
    assert_eq!(work.argument("step").and_then(|value| value.as_i64()), Some(-3));
    assert_eq!(work.argument("mode").and_then(|value| value.as_str()), Some("fast"));
    let receive = trace.slice("receive").expect("it");
    assert_eq!((receive.begin(), receive.end()), (12_000, Some(15_000)));
    assert_eq!((receive.track().thread_name(), receive.depth()), (Some("UART"), 0));
    let runs: Vec<_> = trace.slices().filter(|slice| slice.name() == "runs").collect();
    let told: Vec<_> = runs.iter().map(|runs| (runs.track().name(), runs.begin(), runs.end())).collect();
    assert_eq!(told, [("motor", 12_000, Some(30_000)), ("idle", 30_000, Some(30_000))]);
    let started = trace.instants().find(|event| event.name() == "started").expect("it");
    assert_eq!(started.track().name(), "motor");
    for (name, value) in [("depth", -5.0), ("total", (1u64 << 40) as f64), ("volts", 3.5)] {
        assert_eq!(trace.counter(name).expect(name).points(), [(15_000, value)]);
    }
    let line = trace.logs().next().expect("it");
    assert_eq!((line.text(), line.priority(), line.time()), ("link is down", 5, 30_000));
    let flow = trace.flows().next().expect("it");
    assert_eq!((flow.from().name(), flow.to().name()), ("work", "byte"));
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
}

#[test]
fn what_was_overwritten_is_said_and_the_newest_is_there() {
    static TRACE: Region<16, 32, 8, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 5, 1_000);
    let writer = recorder.writer("main loop");
    (0..2_000).for_each(|value| writer.count("n", value));
    let (found, trace) = found(&dump(&TRACE));
    let points = trace.counter("n").expect("it").points().len() as u64;
    // 13 of them are a chunk.
    assert_eq!(found.missing_chunks * 13 + points, 2_000);
    assert!((6 * 13..=8 * 13).contains(&points), "{points}");
    assert_eq!(trace.counter("n").expect("it").values().next_back(), Some(1_999.0));
}

#[test]
fn each_start_is_a_process_of_its_own() {
    static TRACE: Region<16, 32, 16, 32> = Region::zeroed();
    for _ in 0..3 {
        let (recorder, _) = Recorder::attach_or_new(&TRACE, || 5, 1_000);
        core::mem::forget(recorder.writer("main loop"));
        let writer = recorder.writer("other");
        writer.instant("hello");
        core::mem::forget(writer);
    }
    let (found, trace) = found(&dump(&TRACE));
    assert_eq!(found.starts.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    let pids: Vec<_> = trace.instants().map(|hello| hello.track().pid()).collect();
    assert_eq!(pids, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_dump_says_where_the_region_is() {
    static TRACE: Region<16, 32, 4, 32> = Region::zeroed();
    Recorder::new(&TRACE, || 5, 1_000).writer("main loop").instant("hello");
    let memory = [vec![0xA5; 40], dump(&TRACE)].concat();
    let dump = Dump::parse(&memory).expect("memory");
    assert!(dump.find(Place::Anywhere).is_err());
    assert_eq!(dump.in_place(&Place::Anywhere).expect("a region").0, 40);
    // Its address, or that of something before it, such as a structure that contains it.
    for before in [40, 36, 33, 0] {
        assert_eq!(dump.in_place(&Place::Address(before)).expect("a region").0, 40);
    }
    assert!(dump.in_place(&Place::Address(44)).is_none());
}

#[test]
fn flipped_bits_cost_what_they_hit() {
    static TRACE: Region<16, 32, 16, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 5, 1_000);
    let writer = recorder.writer("main loop");
    (0..150).for_each(|value| writer.count("n", value));
    let whole = dump(&TRACE);
    let points = found(&whole).1.counter("n").expect("it").points().len();
    let mut random = 7u64;
    for _ in 0..150 {
        let mut damaged = whole.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bit = (random >> 33) as usize % ((damaged.len() - 64) * 8) + 64 * 8;
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        let (_, trace) = found(&damaged);
        let left = trace.counters().map(|counter| counter.points().len()).sum::<usize>();
        // Three chunks at most, of 13 values each.
        assert!(left + 3 * 13 >= points, "{left} of {points}");
    }
}

/// A region after a minute of two starts, with two writers each.
fn of_two_starts() -> Vec<u8> {
    let region: Region<16, 64, 32, 32> = Region::zeroed();
    // A clock of its own: tests run at the same time.
    let time = AtomicU32::new(0);
    for start in 0..2 {
        let (recorder, _) = Recorder::attach_or_new(&region, || time.load(Ordering::Relaxed), 1_000_000);
        let writers = [recorder.writer("main loop"), recorder.writer("UART")];
        for step in 0..150u32 {
            time.store(step * 400_000, Ordering::Relaxed);
            writers[step as usize % 2].count_i64("n", i64::from(start * 1000 + step));
        }
        writers.into_iter().for_each(core::mem::forget);
    }
    dump(&region)
}

/// Values, each with its time.
fn points(trace: &Trace) -> std::collections::BTreeSet<(u64, i64)> {
    trace.counters().flat_map(|counter| counter.points().iter().map(|(time, n)| (*time, *n as i64))).collect()
}

#[test]
fn of_a_damaged_dump_what_is_not_hit_is_there_and_nothing_is_where_it_was_not() {
    let whole = of_two_starts();
    let (all, trace) = found(&whole);
    let recorded = points(&trace);
    assert!(recorded.len() > 100 && all.damaged_chunks == 0, "{all:?}");
    let mut random = 99u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let (mut short, mut strange) = (0, 0);
    for _ in 0..150 {
        // One bit, wherever it is: the header, names, texts, fronts, events.
        let mut damaged = whole.clone();
        let bit = next(damaged.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (found, trace) = found(&damaged);
        let left = points(&trace);
        // A chunk has nine values at most.
        short += usize::from(left.intersection(&recorded).count() + 9 < recorded.len());
        strange += usize::from(left.difference(&recorded).count() > 9);
        assert!(found.starts.len() <= 3 && found.missing_chunks < 1 << 16, "{found:?}");
    }
    assert_eq!((short, strange), (0, 0));
}

#[test]
fn a_stack_that_has_grown_into_the_ring_costs_what_it_has_overwritten() {
    let whole = of_two_starts();
    let recorded = points(&found(&whole).1);
    let mut random = 5u64;
    for len in (64..2048).step_by(192) {
        let mut damaged = whole.clone();
        let end = damaged.len();
        for byte in damaged[end - len..].chunks_mut(4) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Addresses, small numbers, and zeros.
            let word = match random >> 62 {
                0 => 0,
                1 => 0x2000_0000 | (random >> 33) as u32 & 0xFFFF,
                2 => (random >> 33) as u32 & 0xFF,
                _ => (random >> 32) as u32,
            };
            byte.copy_from_slice(&word.to_le_bytes());
        }
        let (found, trace) = found(&damaged);
        let kept = points(&trace).intersection(&recorded).count();
        // Nine values are a chunk of 128 bytes.
        assert!(kept + (len / 128 + 1) * 9 >= recorded.len(), "{kept} of {}: {found:?}", recorded.len());
    }
}

#[test]
fn a_header_without_its_magic_or_with_a_flipped_bit_is_found_and_that_is_said() {
    let whole = of_two_starts();
    let recorded = points(&found(&whole).1);
    for bit in 0..5 * 32 {
        let mut damaged = [vec![0xA5; 16], whole.clone()].concat();
        damaged[16 + bit / 8] ^= 1 << (bit % 8);
        let (found, trace) = found(&damaged);
        assert!(found.is_repaired && found.is_damaged(), "{bit}");
        assert_eq!(points(&trace), recorded, "{bit}");
    }
    let mut zeroed = whole.clone();
    zeroed[..4].fill(0);
    assert_eq!(points(&found(&zeroed).1), recorded);
    zeroed[..8].fill(0);
    assert!(RegionView::find(&zeroed).is_none(), "nothing says how large it is");
}

#[test]
fn what_was_overwritten_is_said_whatever_it_was_overwritten_with() {
    const NAMES: usize = 64;
    let region = Region::<4, 8, 8>::zeroed();
    at(1);
    let recorder = Recorder::new(&region, microseconds, 1_000_000);
    let writer = recorder.writer("main µ");
    (0..1000).for_each(|count| writer.count("level", count));
    let whole = dump(&region);
    let said = |at: usize, with: &[u8]| {
        let mut damaged = whole.clone();
        damaged[at..at + with.len()].copy_from_slice(with);
        let found = found(&damaged).0;
        (found.is_damaged(), found.damaged_chunks, found.damaged_names)
    };
    assert_eq!(said(0, &[]), (false, 0, 0));
    // A chunk, and then the table, the two names' texts, and a part of one.
    let (texts, ring) = (NAMES + 4 * 8, NAMES + 4 * 8 + 8 * 4);
    assert_eq!(said(ring + 256, &[0; 512]), (true, 2, 0));
    assert_eq!(said(NAMES, &[0; 32]), (true, 0, 2));
    for with in [0, 0xFF, 7] {
        assert_eq!(said(texts, &[with; 32]), (true, 0, 2), "{with}");
    }
    assert_eq!(said(texts + 1, &[0x80]), (true, 0, 1));
}

/// Bytes of the header, names and texts of [`of_two_starts`]; then chunks of 128.
const RING: usize = 64 + 16 * 8 + 64 * 4;

#[test]
fn memory_that_is_filled_with_one_word_is_no_chunks() {
    let whole = of_two_starts();
    let recorded = points(&found(&whole).1);
    for fill in [0xFF, 0xA5, 0xCD] {
        let mut damaged = whole.clone();
        damaged[RING + 128..][..3 * 128].fill(fill);
        let (found, trace) = found(&damaged);
        assert!(found.damaged_chunks > 0, "{fill:#x}: {found:?}");
        assert!(points(&trace).is_subset(&recorded), "{fill:#x}");
        assert_eq!(trace.slices().count() + trace.instants().count(), 0, "{fill:#x}");
    }
}

#[test]
fn what_looks_like_events_and_cannot_be_is_said() {
    let whole = of_two_starts();
    // Of a writer's chunks, not its last one: front, a time of its own, and a value of 64 bits; then they repeat.
    let word = |chunk: usize, at: usize| RING + chunk * 128 + at * 4;
    let said = |change: &dyn Fn(&mut [u8])| {
        let mut damaged = whole.clone();
        change(&mut damaged);
        let found = found(&damaged).0;
        (found.damaged_chunks, found.damaged_names)
    };
    let with = |at: usize, old: u32, new: u32| {
        assert_eq!(u32::from_le_bytes(whole[at..at + 4].try_into().expect("four")), old, "another layout");
        said(&|dump| dump[at..at + 4].copy_from_slice(&new.to_le_bytes()))
    };
    assert_eq!(said(&|_| {}), (0, 0));
    let name = u32::from_le_bytes(whole[word(2, 4)..][..4].try_into().expect("four")) >> 18 & 0x7FF;
    let value = 5 << 29 | name << 18;
    let time = 1 << 18;
    // Nothing where there is something: the rest is lost.
    assert_eq!(with(word(2, 7), time, 0), (1, 0));
    // A task that is a counter, or one of the linker's names.
    assert_eq!(with(word(2, 4), value, 7 << 29 | name << 18), (1, 0));
    assert_eq!(with(word(2, 4), value, 7 << 29 | 0x7FF << 18), (1, 0));
    // A time of its own that is behind the one before it, and behind the next chunk's.
    assert_eq!(said(&|dump| dump[word(2, 8)..][..8].fill(0)), (1, 0));
    assert_eq!(said(&|dump| dump[word(2, 9)] = 1), (1, 0));
    // Of the newest chunks there is none behind, but the clock.
    let newest = (0..32).max_by_key(|chunk| {
        let front = |at| u32::from_le_bytes(whole[word(*chunk, at)..][..4].try_into().expect("four"));
        (front(3) >> 16 & 31, front(1))
    });
    assert_eq!(said(&|dump| dump[word(newest.expect("one"), 2)] = 1), (1, 0));
}

#[test]
fn a_task_runs_no_longer_than_it_was_seen_to() {
    // Four chunks of a switch and counts each; the second is overwritten.
    let region: Region<16, 32, 8, 32> = Region::zeroed();
    let time = AtomicU32::new(0);
    let recorder = Recorder::new(&region, || time.load(Ordering::Relaxed), 1_000_000);
    let writer = recorder.writer("scheduler");
    let tasks = [recorder.track("a", 1), recorder.track("b", 2)];
    for step in 0..4 * 14 {
        time.store(100 + step, Ordering::Relaxed);
        match step % 14 {
            0 => writer.switch_to(Some(tasks[step as usize / 14 % 2])),
            _ => writer.count("n", 1),
        }
    }
    let runs = |dump: &[u8]| {
        let (found, trace) = found(dump);
        let told = trace.slices().map(|runs| (runs.track().name().to_owned(), runs.begin(), runs.end()));
        (found.missing_chunks, told.collect::<Vec<_>>())
    };
    let mut dump = dump(&region);
    let (missing, all) = runs(&dump);
    assert_eq!((missing, all.len()), (0, 4), "{all:?}");
    let first = |all: &[(String, u64, Option<u64>)]| all.iter().find(|(name, ..)| name == "a").cloned();
    assert_eq!(first(&all), Some(("a".to_owned(), 100_000, Some(114_000))));
    dump[64 + 16 * 8 + 32 * 4 + 128..][..128].fill(0);
    let (missing, rest) = runs(&dump);
    assert_eq!((missing, rest.len()), (1, 3), "{rest:?}");
    assert_eq!(
        first(&rest),
        Some(("a".to_owned(), 100_000, Some(113_000))),
        "not until the third one's switch"
    );
}
