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
    assert_eq!(dump.in_place(&Place::Address(40)).expect("a region").0, 40);
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
