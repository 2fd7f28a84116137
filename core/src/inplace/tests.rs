//! Tests of the recorder: what is recorded is decoded, whatever comes in between.

mod crashes;
mod damage;
mod events;
mod frames;
mod interrupts;
mod laps;
mod linked;
mod losses;
mod restarts;
#[cfg(feature = "frame")]
mod sender;
mod threads;
mod timers;

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use super::{ChunkView, Detail, Record, Recorder, Region, RegionView, Value};

/// A region's words as a debugger saves them.
fn dump<const N: usize, const X: usize, const R: usize, const C: usize>(
    region: &Region<N, X, R, C>,
) -> Vec<u8> {
    region.words().flat_map(u32::to_le_bytes).collect()
}

fn name(view: &RegionView<'_>, number: u32) -> String {
    match view.name(number).and_then(|name| name.text) {
        Some(text) => String::from_utf8_lossy(&text.bytes().collect::<Vec<_>>()).into_owned(),
        None => "?".into(),
    }
}

/// A record as text, with the details before it.
fn told(view: &RegionView<'_>, record: Record<'_>) -> String {
    let name = |number| name(view, number);
    let text =
        |text: super::Text<'_>| String::from_utf8_lossy(&text.bytes().collect::<Vec<_>>()).into_owned();
    match record {
        Record::Begin { name: number } => format!("begin {}", name(number)),
        Record::End => "end".into(),
        Record::Instant { name: number } => format!("instant {}", name(number)),
        Record::Count { counter, value } => format!("{} {value}", name(counter)),
        Record::Measure { counter, value } => format!("{} {value:?}", name(counter)),
        Record::Switch { task } => format!("switch {}", name(task)),
        Record::Lost { events } => format!("lost {events}"),
        Record::Detail(Detail::Track(track)) => format!("on {}", name(track)),
        Record::Detail(Detail::Flow(flow)) => format!("flow {flow}"),
        Record::Detail(Detail::Arg(number, Value::I32(value))) => format!("{}={value}", name(number)),
        Record::Detail(Detail::Arg(number, Value::F32(value))) => format!("{}={value:?}", name(number)),
        Record::Detail(Detail::Arg(number, Value::Text(value))) => {
            format!("{}={}", name(number), text(value))
        }
        Record::Detail(Detail::Log(priority, line)) => format!("log {priority} {}", text(line)),
    }
}

/// All records of each writer in their order, with gaps: by start and writer, the chunks by number.
fn by_writer(dump: &[u8]) -> BTreeMap<(u32, u32), Vec<(u64, String)>> {
    let view = RegionView::find(dump).expect("a region");
    let mut chunks: Vec<ChunkView<'_>> = view.chunks().collect();
    chunks.sort_by_key(|chunk| (chunk.start(), chunk.writer(), chunk.number(), chunk.time()));
    let mut all = BTreeMap::<_, Vec<_>>::new();
    let mut last: Option<((u32, u32), &ChunkView<'_>)> = None;
    for chunk in &chunks {
        let of = (chunk.start(), chunk.writer());
        let records = all.entry(of).or_default();
        if let Some((_, before)) = last.filter(|(last_of, _)| *last_of == of) {
            if before.number() + 1 == chunk.number() {
                assert!(before.may_precede(chunk), "{of:?} {}", chunk.number());
            } else {
                records.push((0, "gap".into()));
            }
        }
        assert!(view.is_likely(chunk), "{of:?} {}", chunk.number());
        last = Some((of, chunk));
        for record in chunk.records() {
            let (time, record) = record.expect("whole");
            records.push((time, told(&view, record)));
        }
    }
    all
}

/// A timer that the test sets.
macro_rules! timer {
    ($name:ident, $ticks:ident) => {
        static $name: AtomicU32 = AtomicU32::new(0);
        fn $ticks() -> u32 {
            $name.load(Ordering::Relaxed)
        }
    };
}
use timer;

#[test]
fn what_is_recorded_is_decoded() {
    static TRACE: Region<32, 64, 8> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000_000);
    let writer = recorder.writer("main loop");
    let motor = recorder.track("motor", 1);
    TIME.store(10, Ordering::Relaxed);
    writer.begin("work");
    TIME.store(25, Ordering::Relaxed);
    writer.count("level", -3);
    writer.count_i64("total", 1 << 40);
    writer.measure("volts", 3.25);
    writer.instant_with("door", |details| {
        details.arg("open", 1).arg_text("who", "cat").arg_f32("speed", 0.5).flow(9);
    });
    writer.on(motor).instant("started");
    writer.on(motor).begin_with("turn", |details| {
        details.arg("rpm", 900);
    });
    writer.switch_to(Some(motor));
    writer.switch_to(None);
    writer.log(4, "net", "up");
    TIME.store(40, Ordering::Relaxed);
    writer.end();
    let dump = dump(&TRACE);
    let told = &by_writer(&dump)[&(1, 0)];
    let told: Vec<_> = told.iter().map(|(time, told)| format!("{time} {told}")).collect();
    let expected = [
        "10 begin work",
        "25 level -3",
        "25 total 1099511627776",
        "25 volts 3.25",
        "25 open=1",
        "25 who=cat",
        "25 speed=0.5",
        "25 flow 9",
        "25 instant door",
        "25 on motor",
        "25 instant started",
        "25 on motor",
        "25 rpm=900",
        "25 begin turn",
        "25 switch motor",
        "25 switch ?",
        "25 log 4 up",
        "25 instant net",
        "40 end",
    ];
    assert_eq!(told, expected);
    let view = RegionView::find(&dump).expect("a region");
    assert_eq!((view.frequency(), view.starts(), view.dropped(), view.unnamed()), (1_000_000, 1, 0, 0));
    let chunk = view.chunks().next().expect("one");
    assert_eq!((name(&view, chunk.track()), chunk.is_open()), ("main loop".into(), true));
}

#[test]
fn a_region_in_a_dump_of_either_byte_order_is_found_wherever_it_is() {
    static TRACE: Region<8, 16, 4, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 5, 1_000);
    recorder.writer("a").instant("hello");
    for is_big in [false, true] {
        let words =
            TRACE.words().flat_map(|word| if is_big { word.to_be_bytes() } else { word.to_le_bytes() });
        let dump: Vec<u8> = std::iter::repeat_n(0xA5, 20).chain(words).collect();
        assert_eq!(RegionView::find(&dump).expect("it").offset(), 20);
        assert_eq!(by_writer(&dump)[&(1, 0)], [(5, "instant hello".into())]);
    }
}

#[test]
fn a_writer_takes_two_pointers_and_four_words() {
    #[derive(Clone, Copy)]
    struct Stopped;
    impl super::Timer for Stopped {
        fn ticks(&self) -> u32 {
            0
        }
    }
    let expected = 2 * size_of::<usize>() + 16;
    assert_eq!(size_of::<super::Writer<'_, Region<8, 16, 4, 32>, Stopped>>(), expected);
}

#[test]
fn names_that_find_no_room_are_counted_and_events_stay() {
    static TRACE: Region<4, 2, 4, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("w");
    for name in ["0123456789", "b", "c", "d", "e"] {
        writer.instant(name);
    }
    let dump = dump(&TRACE);
    let view = RegionView::find(&dump).expect("a region");
    let told: Vec<_> = by_writer(&dump)[&(1, 0)].iter().map(|(_, told)| told.clone()).collect();
    // The text has room for "w" and "b"; the table for these, the long one and "c".
    assert_eq!(told, ["instant ?", "instant b", "instant ?", "instant ?", "instant ?"]);
    assert_eq!(view.unnamed(), 2);
    assert!(view.name(0).is_none());
}

#[test]
fn texts_are_cut_between_characters_and_details_that_do_not_fit_are_left_out() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("w");
    let long: &str = &"ä".repeat(50)[..];
    writer.instant_with("x", |details| {
        details.arg_text("text", &format!("-{long}")).arg_text("again", long).arg("n", 7);
    });
    let told: Vec<_> = by_writer(&dump(&TRACE))[&(1, 0)].iter().map(|(_, told)| told.clone()).collect();
    assert_eq!(told, [format!("text=-{}", "ä".repeat(31)), "n=7".into(), "instant x".into()]);
}

#[test]
fn chunks_are_copied_once_each_in_the_order_in_which_they_were_completed() {
    static TRACE: Region<8, 16, 8, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000);
    let writer = recorder.writer("w");
    let mut copy = [0; 32];
    assert!(recorder.copy_chunk(&mut copy).is_none());
    assert!(recorder.copy_chunk(&mut [0; 31]).is_none());
    let (mut seen, mut values) = (0, 0..);
    for round in 0..50 {
        // 13 counters fill a chunk.
        for value in values.by_ref().take(13 * (1 + round % 3)) {
            writer.count("n", value);
        }
        while let Some(chunk) = recorder.copy_chunk(&mut copy) {
            let bytes: Vec<u8> = copy.iter().flat_map(|word| word.to_le_bytes()).collect();
            for record in ChunkView::of(&bytes).expect("a chunk").records() {
                let Ok((_, Record::Count { value, .. })) = record else { panic!("{record:?}") };
                assert_eq!(value, seen);
                seen += 1;
            }
            assert!(chunk.taken());
        }
        let open = recorder.copy_open(0, &mut copy);
        assert!(open.is_some_and(|place| recorder.copy_open(place + 1, &mut copy).is_none()));
    }
    assert!(seen > 1_000, "{seen}");
}

#[test]
fn what_the_64th_writer_records_is_dropped_and_one_that_is_dropped_leaves_its_chunk() {
    static TRACE: Region<128, 128, 4, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    for number in 0..63 {
        recorder.writer("w").count("n", number);
    }
    recorder.writer("w").count("n", 0);
    assert_eq!(recorder.dropped(), 1);
    // Four places, and nobody is in one: each found its own.
    assert_eq!(by_writer(&dump(&TRACE)).len(), 4);
}

#[test]
fn tracks_guards_and_details_are_told_in_their_order() {
    timer!(TIME, ticks);
    // Made while it runs: a region need not be a static.
    let region = std::boxed::Box::leak(std::boxed::Box::new(Region::<16, 64, 4>::zeroed()));
    let recorder = Recorder::new(&*region, ticks, 1_000);
    let copy = recorder;
    let writer = copy.writer("main");
    let motor = recorder.track("motor", 7);
    assert_eq!((recorder.track("motor", 7), recorder.track("motor", 8) == motor), (motor, false));
    {
        let _slice = writer.enter("outer");
        writer.begin_with("inner", |details| {
            details.arg("n", 1);
        });
        writer.on(motor).begin("turn");
        writer.on(motor).end();
        writer.end();
    }
    // The timer's highest bit has changed twice since, and somebody has kept the time.
    for time in [0x6000_0000, 0xC000_0000, 0x2000_0000] {
        TIME.store(time, Ordering::Relaxed);
        copy.keep_time();
    }
    writer.instant("late");
    let told: Vec<_> = by_writer(&dump(region))[&(1, 0)].iter().map(|(_, told)| told.clone()).collect();
    let expected =
        ["begin outer", "n=1", "begin inner", "on motor", "begin turn", "on motor", "end", "end", "end"];
    assert_eq!(told[..9], expected);
    assert_eq!(by_writer(&dump(region))[&(1, 0)].last(), Some(&(0x1_2000_0000, "instant late".into())));
    assert_eq!(recorder.now(), 0x1_2000_0000);
}

#[test]
fn what_is_no_region_or_is_cut_off_is_told() {
    static TRACE: Region<8, 16, 8, 32> = Region::zeroed();
    assert!(RegionView::find(&dump(&TRACE)).is_none() && RegionView::find(&[]).is_none());
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("w");
    (0..60).for_each(|value| writer.count("n", value));
    let mut whole = dump(&TRACE);
    let view = RegionView::find(&whole).expect("a region");
    assert_eq!((view.chunks_missing(), view.chunks().count()), (0, 5));
    let cut = RegionView::find(&whole[..whole.len() - 3 * 128 - 1]).expect("a region");
    assert_eq!((cut.chunks_missing(), cut.chunks().count()), (4, 4));
    assert!(RegionView::find(&whole[..100]).is_none());
    let mut copy = [0; 32];
    assert_eq!(recorder.copy_chunk(&mut copy).map(|chunk| chunk.place()), Some(0));
    assert!(ChunkView::of(&[0; 15]).is_none());
    // A time without its second half at the end of a chunk, and a detail that nobody writes.
    for (word, at) in [(super::layout::detail_word(super::layout::detail::TIME, 0), 31), (0x7FF << 18, 4)] {
        let mut chunk: Vec<u8> = [1u32; 32].iter().flat_map(|_| (1u32 << 29).to_le_bytes()).collect();
        chunk[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
        let last = ChunkView::of(&chunk).expect("a chunk").records().last();
        assert!(matches!(last, Some(Err(super::Malformed))), "{last:?}");
    }
    assert_eq!(format!("{}", super::Malformed), "a chunk has words in it that are no event");
    // What a version to come has laid out is not taken for this one's.
    whole[4] = 2;
    assert!(RegionView::find(&whole).is_none());
}
