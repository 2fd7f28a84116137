//! Devices that record in place and send it: streams that are joined late, damaged, lost in part, and restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracebuf::inplace::{Memory, Recorder, Region, Sender, Timer};

use super::*;
use crate::Trace;
use crate::receive::Receiver;
use crate::recover::InPlace;

/// All that there is to send.
fn drain<M: Memory, T: Timer>(sender: &mut Sender<'_, M, T>) -> Vec<u8> {
    let (mut line, mut piece) = (Vec::new(), [0; 61]);
    sender.flush();
    loop {
        match sender.fill(&mut piece) {
            0 => return line,
            len => line.extend(&piece[..len]),
        }
    }
}

/// The traces of a line's starts, and the report.
fn received(line: &[u8]) -> (Vec<Trace>, ReceiveReport) {
    let mut receiver = Receiver::new();
    let mut files = Vec::<Vec<u8>>::new();
    let mut pass = |start: u64, packet: &[u8]| {
        files.resize(files.len().max(start as usize), Vec::new());
        files[start as usize - 1].extend(packet);
        Ok::<_, ()>(())
    };
    for bytes in line.chunks(100) {
        receiver.push(bytes, &mut pass).expect("it passes");
    }
    receiver.release(&mut pass).expect("it passes");
    (files.iter().map(|file| Trace::of(file).expect("a trace")).collect(), receiver.finish())
}

/// Of all counters.
fn values(trace: &Trace) -> Vec<i64> {
    let mut values: Vec<_> =
        trace.counters().flat_map(|counter| counter.values().map(|value| value as i64)).collect();
    values.sort_unstable();
    values
}

/// A line with the values from 0 on, of two writers in turn, sent after each so many; and the memory in the end.
fn line_of(count: i32, every: i32) -> (Vec<u8>, Vec<u8>) {
    let (region, time) = (Region::<16, 32, 16, 32>::zeroed(), AtomicU32::new(0));
    let recorder = Recorder::new(&region, || time.fetch_add(1, Ordering::Relaxed), 1_000);
    let writers = [recorder.writer("even"), recorder.writer("odd")];
    let (mut sender, mut line) = (Sender::new(recorder), Vec::new());
    for value in 0..count {
        let writer = &writers[value as usize % 2];
        let _slice = writer.enter("step");
        writer.count(if value % 2 == 0 { "evens" } else { "odds" }, value);
        if value % every == 0 {
            line.extend(drain(&mut sender));
        }
    }
    line.extend(drain(&mut sender));
    (line, region.words().flat_map(u32::to_le_bytes).collect())
}

#[test]
fn what_is_sent_is_what_a_dump_has_however_often_open_chunks_come() {
    for (line, dump) in [line_of(100, 1), line_of(100, 7), line_of(100, 1000)] {
        let (traces, report) = received(&line);
        assert_eq!(values(&traces[0]), (0..100).collect::<Vec<_>>());
        assert_eq!((report.events, report.chunks_missing, report.events_unnamed), (300, 0, 0));
        assert!(!report.beginning_missing && report.frames_lost == 0, "{report}");
        let region = tracebuf::inplace::RegionView::find(&dump).expect("a region");
        let recovered = Trace::of(InPlace::of(&region).trace()).expect("a trace");
        let told = |trace: &Trace| {
            let mut slices: Vec<_> = trace
                .slices()
                .map(|slice| (slice.begin(), slice.end(), slice.track().thread_name().map(str::to_owned)))
                .collect();
            slices.sort();
            slices
        };
        // The ring has only the newest.
        let newest = told(&recovered);
        assert!(newest.len() > 20 && told(&traces[0]).ends_with(&newest));
    }
}

#[test]
fn who_joins_anywhere_has_all_that_comes_from_there_on_with_its_names() {
    let (line, _) = line_of(400, 20);
    for from in (3..line.len() / 2).step_by(97) {
        let (traces, report) = received(&line[from..]);
        assert_eq!(traces.len(), 1, "{from}: {report}");
        let values = values(&traces[0]);
        assert!(report.beginning_missing && report.frames_lost == 0, "{report}");
        // All of one writer's, and then all of the other's: none is missing in between.
        for parity in [0, 1] {
            let of_one: Vec<_> = values.iter().copied().filter(|value| value % 2 == parity).collect();
            assert!(of_one.windows(2).all(|two| two[1] - two[0] == 2), "{from}: {of_one:?}");
            assert_eq!(of_one.last(), Some(&(398 + parity)));
        }
        assert_eq!(report.chunks_missing, 0, "{from}: {report}");
    }
}

#[test]
fn chunks_of_nobody_knows_whom_are_counted() {
    let (line, _) = line_of(400, 20);
    let (traces, report) = received(&line[line.len() - 1000..]);
    assert!(traces.is_empty() && report.chunks_early > 3, "{report}");
    assert!(report.to_string().contains(" chunks from before the device said who it is"), "{report}");
}

#[test]
fn damage_costs_chunks_and_spoils_nothing() {
    let (line, _) = line_of(400, 20);
    let mut random = 11u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let (mut whole, mut lost) = (0, 0);
    for trial in 0..60 {
        let mut line = line.clone();
        for _ in 0..trial % 5 {
            let at = next(line.len() - 1);
            match next(3) {
                0 => line[at] ^= 1 << next(8),
                1 => drop(line.remove(at)),
                _ => drop(line.drain(at..line.len().min(at + next(200)))),
            }
        }
        let (traces, report) = received(&line);
        let values = traces.iter().flat_map(values).collect::<Vec<_>>();
        assert!(values.iter().all(|value| (0..400).contains(value)) && values.is_sorted());
        assert_eq!(report.restarts, 0, "{report}");
        assert_eq!(report.chunks_damaged, 0);
        let missing = 400 - values.len() as u64;
        // Each has four values at most; the last one of a writer may be gone without a trace.
        assert!(missing <= (report.chunks_missing + 4) * 7, "{missing} {report}");
        whole += u64::from(missing == 0);
        lost += u64::from(report.frames_lost > 0);
        if report.events_unnamed > 0 {
            // A name was in a frame that is lost, and did not come again.
            continue;
        }
        for parity in [0, 1] {
            let name = ["evens", "odds"][parity];
            let of_one = traces[0].counter(name).map_or(0, |counter| counter.values().count());
            assert_eq!(
                of_one,
                values.iter().filter(|value| **value % 2 == parity as i64).count(),
                "{report}"
            );
        }
    }
    assert!(whole >= 12 && lost > 30, "{whole} {lost}");
}

#[test]
fn what_is_overwritten_before_it_can_be_sent_is_counted_and_so_is_what_found_no_place() {
    static TRACE: Region<16, 32, 8, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 5, 1_000);
    let writer = recorder.writer("main loop");
    let mut sender = Sender::new(recorder);
    writer.count("n", 0);
    let mut line = drain(&mut sender);
    (1..500).for_each(|value| writer.count("n", value));
    line.extend(drain(&mut sender));
    let (traces, report) = received(&line);
    let points = traces[0].counter("n").expect("it").points().len() as u64;
    // 13 are a chunk; of the first, whose rest is missing, one came.
    assert!(report.chunks_missing > 20 && report.frames_lost == 0, "{report}");
    assert_eq!(report.chunks_missing * 13 + points, 500 + 1);
    assert!(report.to_string().contains(" chunks missing: overwritten"), "{report}");
    assert!(traces[0].faults().is_empty(), "{:?}", traces[0].faults());
}

/// A start of a device: how its memory was, and what it records and sends.
fn start(
    region: &'static Region<16, 32, 16, 32>,
    keeps_memory: bool,
    values: std::ops::Range<i32>,
    sends: bool,
) -> Vec<u8> {
    static TIME: AtomicU32 = AtomicU32::new(0);
    TIME.store(0, Ordering::Relaxed);
    let timer = || TIME.fetch_add(1, Ordering::Relaxed);
    let recorder = match keeps_memory {
        true => Recorder::attach_or_new(region, timer, 1_000).0,
        false => Recorder::new(region, timer, 1_000),
    };
    let writer = recorder.writer("main loop");
    let mut sender = Sender::new(recorder);
    let mut line = if sends { drain(&mut sender) } else { Vec::new() };
    values.for_each(|value| writer.count("n", value));
    std::mem::forget(writer);
    line.extend(if sends { drain(&mut sender) } else { Vec::new() });
    line
}

#[test]
fn each_start_is_a_trace_of_its_own_whether_its_memory_is_kept_or_lost() {
    static TRACE: Region<16, 32, 16, 32> = Region::zeroed();
    // The second one records and is reset before it sends: the third sends it.
    let line = [
        start(&TRACE, false, 0..30, true),
        start(&TRACE, true, 100..130, false),
        start(&TRACE, true, 200..230, true),
        start(&TRACE, false, 300..330, true),
        start(&TRACE, false, 400..430, true),
    ]
    .concat();
    let (traces, report) = received(&line);
    let of_starts: Vec<_> = traces.iter().map(values).collect();
    let all = [0, 100, 200, 300, 400].map(|first| (first..first + 30).collect::<Vec<i64>>());
    assert_eq!(of_starts, all);
    assert_eq!((report.starts, report.restarts, report.chunks_missing), (5, 3, 0), "{report}");
}

/// A start's line without the hello, which ends with the second zero.
fn after_hello(line: &[u8]) -> Vec<u8> {
    let mut ends = line.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
    line[ends.nth(1).expect("a frame") + 1..].to_vec()
}

#[test]
fn nothing_of_a_lost_memory_is_mixed_with_what_comes_after_it_though_a_hello_is_lost() {
    static TRACE: Region<16, 32, 16, 32> = Region::zeroed();
    let first = start(&TRACE, false, 0..90, true);
    let second = start(&TRACE, false, 100..130, true);
    let third = start(&TRACE, false, 200..230, true);
    // The next hello tells that the memory is another one, and is of a third start.
    let (traces, report) = received(&[&first[..], &after_hello(&second), &third].concat());
    let of_starts: Vec<_> = traces.iter().map(values).collect();
    let all = [0..90, 200..230].map(|values| values.collect::<Vec<i64>>());
    assert_eq!(of_starts, all, "{report}");
    assert!(report.chunks_early > 0, "{report}");
    let (traces, report) = received(&[&first[..], &after_hello(&second)].concat());
    assert_eq!(traces.iter().map(values).collect::<Vec<_>>(), all[..1], "{report}");
    assert!(report.chunks_early > 0, "{report}");
}

#[test]
fn a_restart_whose_first_frames_are_lost_is_noticed_by_its_time() {
    static TRACE: Region<16, 32, 16, 32> = Region::zeroed();
    let first = start(&TRACE, false, 0..30, true);
    let second = start(&TRACE, true, 100..130, true);
    let third = start(&TRACE, true, 200..230, true);
    let line = [first, after_hello(&second), third].concat();
    let (traces, report) = received(&line);
    let mut all: Vec<_> = traces.iter().flat_map(values).collect();
    all.sort_unstable();
    assert_eq!(all, (0..30).chain(100..130).chain(200..230).collect::<Vec<i64>>(), "{report}");
    assert_eq!((traces.len(), report.restarts), (3, 2), "{report}");
}

#[test]
fn frames_of_a_later_version_are_counted_and_harm_nothing() {
    let mut chunks = Chunks::default();
    let mut report = ReceiveReport::default();
    let frame = Frame { flags: 0x40, number: 7, piece: &[0; 40], check: 0, others: None, encoded_len: 48 };
    assert!(Chunks::is_of(&frame));
    assert!(chunks.take(&frame, None, &mut report).is_empty());
    assert_eq!((report.frames_unknown, report.beginning_missing), (1, true));
}

/// Nanoseconds of the host at a device's microsecond.
const HOST: u64 = 2_570_000_000_000;

#[test]
fn events_of_two_starts_have_the_host_s_time_and_it_says_how_exactly() {
    static TRACE: Region<16, 32, 16, 64> = Region::zeroed();
    static TIME: AtomicU32 = AtomicU32::new(0);
    let options = DeviceOptions {
        identity: Identity::among_others(Some("oven")),
        sequences: Arc::new(AtomicU32::new(1)),
        at_host: true,
        state_every: usize::MAX,
        linked: crate::LinkedNames::default(),
    };
    let mut receiver = Receiver::of_device(options, true);
    let mut file = Vec::new();
    let mut recorded = Vec::new();
    for (start, base) in [(0, 0u64), (1, 40_000_000)] {
        // The timer wraps soon after this start began, and runs 80 ppm fast.
        let from = 0xFFFF_0000u32;
        TIME.store(from, Ordering::Relaxed);
        let recorder = Recorder::attach_or_new(&TRACE, || TIME.load(Ordering::Relaxed), 1_000_000).0;
        let writer = recorder.writer("main loop");
        let mut sender = Sender::new(recorder);
        let mut random = 5u64;
        for microsecond in (0..20_000_000u64).step_by(50_000) {
            let ticks = microsecond + microsecond * 80 / 1_000_000;
            TIME.store(from.wrapping_add(ticks as u32), Ordering::Relaxed);
            writer.count("n", (start * 1000 + microsecond / 50_000) as i32);
            recorded.push(HOST + (base + microsecond) * 1_000);
            if microsecond == 19_950_000 {
                sender.flush();
            }
            let (mut line, mut piece) = (Vec::new(), [0; 32]);
            while let len @ 1.. = sender.fill(&mut piece) {
                line.extend(&piece[..len]);
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // 10 µs a byte, and up to a millisecond until it is read.
            let arrived = |bytes: usize| {
                HOST + (base + microsecond) * 1_000 + bytes as u64 * 10_000 + (random >> 33) % 1_000_000
            };
            for (bytes, at) in line.chunks(32).zip(1..) {
                receiver
                    .push_at(Some(arrived(at * 32)), bytes, |_, packet| {
                        file.extend_from_slice(packet);
                        Ok::<_, ()>(())
                    })
                    .expect("it passes");
            }
        }
        std::mem::forget(writer);
    }
    receiver
        .release(|_, packet| {
            file.extend_from_slice(packet);
            Ok::<_, ()>(())
        })
        .expect("it passes");
    let report = receiver.finish();
    let trace = Trace::of(&file).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    let mut points: Vec<_> = trace.counters().flat_map(|counter| counter.points().to_vec()).collect();
    points.sort_by_key(|(time, _)| *time);
    assert_eq!(points.len(), recorded.len(), "{report}");
    let errors = points.iter().zip(&recorded).map(|((time, _), host)| time.abs_diff(*host));
    let (worst, at) = errors.zip(0..).max().expect("some");
    assert!(worst < 1_000_000, "{worst} at {at}");
    assert!(report.clock_error.is_some_and(|error| error < 1_000_000), "{report}");
    assert!(report.to_string().contains("times are the host's, to 0."), "{report}");
    let processes: Vec<_> =
        trace.counters().map(|counter| counter.track().process_name().map(str::to_owned)).collect();
    assert_eq!(processes, [Some("oven".to_owned()), Some("oven".to_owned())]);
}

#[test]
fn chunks_that_wait_keep_the_names_of_their_memory() {
    let start = |names: [&'static str; 2]| {
        let region = Region::<16, 32, 16, 32>::zeroed();
        let recorder = Recorder::new(&region, || 5, 1_000);
        let (writer, mut line) = (recorder.writer("w"), Vec::new());
        names.into_iter().for_each(|name| writer.instant(name));
        let mut sender = Sender::new(recorder);
        line.extend(drain(&mut sender));
        line
    };
    let options = DeviceOptions { at_host: true, ..DeviceOptions::default() };
    let mut receiver = Receiver::of_device(options, false);
    let mut file = Vec::new();
    let mut pass = |_, packet: &[u8]| {
        file.extend_from_slice(packet);
        Ok::<_, ()>(())
    };
    // All of it waits for the clock.
    for (line, now) in [(start(["first", "second"]), 1_000), (start(["third", "fourth"]), 2_000)] {
        receiver.push_at(Some(now), &line, &mut pass).expect("it passes");
    }
    receiver.release(&mut pass).expect("it passes");
    let trace = Trace::of(&file).expect("a trace");
    let mut names: Vec<_> = trace.instants().map(|event| event.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["first", "fourth", "second", "third"]);
}
