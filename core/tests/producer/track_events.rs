//! Track events as a reader of the trace sees them.

use crate::event_reader::{inside, int, read, text};
use crate::model::{Value, *};
use std::cell::Cell;
use std::rc::Rc;
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

static PROCESS: Track<'static> = Track::process(7, "the program");
pub(crate) static MAIN: Track<'static> = Track::thread(7, 8, "main").within(&PROCESS);
static GPU: Track<'static> = Track::custom("gpu");
static LOAD: Track<'static> = Track::counter("load", Unit::Bytes).within(&GPU);

/// A clock that a test moves.
#[derive(Clone, Default)]
pub(crate) struct Ticks(pub(crate) Rc<Cell<u64>>);

impl Clock for Ticks {
    fn now(&self) -> u64 {
        self.0.get()
    }
}

pub(crate) fn setup(
    pace: Pace,
    bytes: usize,
) -> (&'static Model, &'static Producer<'static>, TraceWriter<'static>) {
    let memory = memory(bytes, 4096);
    let model = Model::new(memory, pace);
    let producer = producer(memory, Layout::Four, model);
    let writer = producer.writer(40, Exhaustion::Drop).unwrap();
    (model, producer, writer)
}

pub(crate) const CONFIG: TracerConfig = TracerConfig::new(1_000_000_000);

#[test]
fn slices_instants_and_counters_come_out_in_order_with_names_times_and_tracks() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let ticks = Ticks::default();
    ticks.0.set(1_000_000);
    let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
    let later = |ns: u64| ticks.0.set(ticks.0.get() + ns);
    let track = tracer.track();
    track.slice("outer", || {
        later(10);
        let _guard = track.enter("inner");
        later(20_000);
        track.instant("tick");
        later(3_000_000);
    });
    later(1 << 31);
    tracer.on(&GPU).slice("draw", || later(5));
    tracer.on(&LOAD).count(-3);
    tracer.on(&LOAD).measure(0.25);
    tracer.flush();
    let reader = read(model, 1);
    let main = MAIN.uuid();
    let seen: Vec<_> = reader.seen.iter().map(|s| (s.time, s.kind, s.track, s.name.as_str())).collect();
    let end = 4_020_010 + (1 << 31);
    assert_eq!(
        seen,
        [
            (1_000_000, 1, main, "outer"),
            (1_000_010, 1, main, "inner"),
            (1_020_010, 3, main, "tick"),
            (4_020_010, 2, main, ""),
            (4_020_010, 2, main, ""),
            (end, 1, GPU.uuid(), "draw"),
            (end + 5, 2, GPU.uuid(), ""),
            (end + 5, 4, LOAD.uuid(), ""),
            (end + 5, 4, LOAD.uuid(), ""),
        ]
    );
    assert_eq!(reader.seen[7].rest, [(30, Value::Int(-3i64 as u64))]);
    assert_eq!(reader.seen[8].rest, [(44, Value::Fixed(0.25f64.to_bits()))]);
    assert_eq!(reader.states, 1);
    let thread = inside(&reader.tracks[&main], 4).unwrap();
    assert_eq!((int(&thread, 1), int(&thread, 2), text(&thread, 5)), (Some(7), Some(8), Some("main".into())));
    let process = inside(&reader.tracks[&PROCESS.uuid()], 3).unwrap();
    assert_eq!((int(&process, 1), text(&process, 6)), (Some(7), Some("the program".into())));
    let load = &reader.tracks[&LOAD.uuid()];
    assert_eq!((int(load, 5), text(load, 2)), (Some(GPU.uuid()), Some("load".into())));
    assert_eq!(inside(load, 8), Some(vec![(3, Value::Int(3))]));
    assert_eq!(text(&reader.tracks[&GPU.uuid()], 2), Some("gpu".into()));
}

#[test]
fn a_slice_begin_with_a_known_name_takes_at_most_14_bytes() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let ticks = Ticks::default();
    let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
    tracer.track().slice("work", || {});
    let times = [100, 16_383, 2_000_000, (1 << 28) - 1];
    for ns in times {
        ticks.0.set(ticks.0.get() + ns);
        tracer.track().slice("work", || ticks.0.set(ticks.0.get() + ns));
    }
    tracer.flush();
    // One byte of size, in addition to the packet.
    let sizes: Vec<_> = model.packets(1).iter().flatten().map(|p| p.len() + 1).collect();
    assert_eq!(sizes[sizes.len() - 8..], [11, 9, 12, 10, 13, 11, 14, 12]);
    assert_eq!(read(model, 1).seen.last().unwrap().time, 2 * times.iter().sum::<u64>());
}

#[test]
fn counts_and_times_of_every_length_come_out_as_they_were_wherever_they_lie_in_a_chunk() {
    let edges = |bits: u32| [(1 << bits) - 1, 1 << bits];
    let mut values: Vec<i64> = [7, 14, 20, 21, 28, 32, 62].into_iter().flat_map(edges).collect();
    values.extend([0, -1, i64::MIN, i64::MAX]);
    let mut steps: Vec<u64> =
        [7, 14, 20, 21, 28, 31].into_iter().flat_map(|bits| [(1 << bits) - 1, 1 << bits]).collect();
    steps.extend([0, 1, (1 << 32) - 1]);
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let ticks = Ticks::default();
    let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
    let mut expected = Vec::new();
    for value in &values {
        for step in steps.iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
            ticks.0.set(ticks.0.get() + step);
            tracer.on(&LOAD).count(*value);
            expected.push((ticks.0.get(), *value as u64));
            // Chunks end in the middle of packets, at each of their bytes.
            tracer.track().instant("between");
        }
    }
    tracer.flush();
    let reader = read(model, 1);
    let counts: Vec<_> = reader.seen.iter().filter(|s| s.kind == 4).collect();
    let seen: Vec<_> = counts.iter().map(|s| (s.time, int(&s.rest, 30).unwrap())).collect();
    assert_eq!(seen, expected);
    assert!(counts.iter().all(|s| s.track == LOAD.uuid()));
}

#[test]
fn a_slice_with_a_category_is_the_same_on_every_track_and_takes_two_bytes_more() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    for _ in 0..3 {
        for track in [tracer.track(), tracer.on(&GPU)] {
            track.begin_in("work", "net");
            track.end();
        }
    }
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.names.len(), 2, "each is known once");
    for (at, pair) in reader.seen.chunks(2).enumerate() {
        let track = if at % 2 == 0 { MAIN.uuid() } else { GPU.uuid() };
        assert_eq!((pair[0].name.as_str(), pair[0].kind, pair[0].track), ("work", 1, track));
        let category = int(&pair[0].rest, 3).expect("a category");
        assert_eq!(reader.names[&(1, category)], "net");
        assert_eq!((pair[1].kind, pair[1].track), (2, track));
    }
    // One byte of size, in addition to the packet; a begin without a category has 11.
    let sizes: Vec<_> = model.packets(1).iter().flatten().map(|p| p.len() + 1).collect();
    assert_eq!(sizes[sizes.len() - 4..sizes.len() - 2], [13, 9]);
}

#[test]
fn details_are_annotations_categories_and_flows_with_interned_keys() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let dynamic = format!("request {}", 5);
    for _ in 0..2 {
        let _slice = tracer.track().enter_with("request", |e| {
            e.category("net").arg("bytes", 1500u32).arg("peer", "me").arg("ratio", 0.5).arg("ok", true)
        });
        tracer.track().instant_with("", |e| {
            e.name(&dynamic).arg("delta", -1i64).arg("at", super_pointer()).flow(9).end_flow(10)
        });
    }
    tracer.flush();
    let reader = read(model, 1);
    let key = |name: &str| {
        *reader.names.iter().find(|((kind, _), n)| *kind == 3 && *n == name).map(|((_, iid), _)| iid).unwrap()
    };
    for half in reader.seen.chunks(3) {
        let args: Vec<_> = half[0].rest.iter().filter(|(n, _)| *n == 4).map(|(_, v)| v.inside()).collect();
        assert_eq!(half[0].name, "request");
        assert_eq!(args[0], [(1, Value::Int(key("bytes"))), (3, Value::Int(1500))]);
        assert_eq!(args[1], [(1, Value::Int(key("peer"))), (6, Value::Bytes(b"me".to_vec()))]);
        assert_eq!(args[2], [(1, Value::Int(key("ratio"))), (5, Value::Fixed(0.5f64.to_bits()))]);
        assert_eq!(args[3], [(1, Value::Int(key("ok"))), (2, Value::Int(1))]);
        let category = int(&half[0].rest, 3).unwrap();
        assert_eq!(reader.names[&(1, category)], "net");
        assert_eq!(half[1].name, "request 5");
        let args: Vec<_> = half[1].rest.iter().filter(|(n, _)| *n == 4).map(|(_, v)| v.inside()).collect();
        assert_eq!(args[0], [(1, Value::Int(key("delta"))), (4, Value::Int(u64::MAX))]);
        assert_eq!(args[1], [(1, Value::Int(key("at"))), (7, Value::Int(0xDEAD))]);
        let rest: Vec<_> = half[1].rest.iter().filter(|(n, _)| *n != 4).cloned().collect();
        assert_eq!(rest, [(47, Value::Fixed(9)), (48, Value::Fixed(10))]);
        assert_eq!(half[2].kind, 2);
    }
    assert_eq!(reader.seen.len(), 6);
}

#[test]
fn a_slice_s_end_has_details_of_its_own() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    for track in [tracer.track(), tracer.on(&GPU)] {
        track.begin("request");
        track.end_with(|event| event.arg("status", 200));
    }
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.seen.len(), 4);
    for (pair, track) in reader.seen.chunks(2).zip([MAIN.uuid(), GPU.uuid()]) {
        assert_eq!((pair[1].kind, pair[1].track, pair[1].name.as_str()), (2, track, ""));
        let annotation = inside(&pair[1].rest, 4).expect("an annotation");
        let key = int(&annotation, 1).expect("a key");
        assert_eq!((reader.names[&(3, key)].as_str(), int(&annotation, 4)), ("status", Some(200)));
        assert_eq!(pair[0].rest, []);
    }
}

#[test]
fn the_end_of_a_slice_has_neither_name_nor_category() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().begin("request");
    tracer.track().end_with(|event| event.name("another").category("late").arg("status", 200));
    let slice = tracer.track().enter_with("", |event| event.name("request").category("net"));
    slice.end_with(|event| event.category("late").name("another").arg("status", 200));
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.seen.len(), 4);
    for end in [&reader.seen[1], &reader.seen[3]] {
        let fields: Vec<_> = end.rest.iter().map(|(number, _)| *number).collect();
        // The annotation alone.
        assert_eq!((end.kind, end.name.as_str(), fields), (2, "", vec![4]));
    }
    assert_eq!(reader.names[&(1, int(&reader.seen[2].rest, 3).expect("a category"))], "net");
}

fn super_pointer() -> track_event::Value<'static> {
    track_event::Value::Pointer(0xDEAD)
}

#[test]
fn more_names_than_the_table_holds_are_written_out() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer: Tracer<'_, _, 4> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    let names: Vec<&'static str> = (0..10).map(|i| &*format!("name {i}").leak()).collect();
    for _ in 0..3 {
        for name in &names {
            tracer.track().instant(name);
        }
    }
    tracer.flush();
    let reader = read(model, 1);
    assert!(reader.seen.iter().zip(names.iter().cycle()).all(|(s, n)| s.name == *n));
    assert_eq!((reader.seen.len(), reader.names.len()), (30, 4));
    assert_eq!(tracer.stats().writer.packets, model.packets(1).len() as u64);
}

#[test]
fn coarse_units_add_up_without_drift() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let ticks = Ticks::default();
    let config = TracerConfig::new(24_000_000).unit_ns(1000).clock_id(3);
    let tracer = Tracer::new(writer, ticks.clone(), &MAIN, config);
    let steps = if cfg!(miri) { 100 } else { 1000 };
    for _ in 0..=steps {
        tracer.track().instant("tick");
        ticks.0.set(ticks.0.get() + 13);
    }
    tracer.flush();
    let reader = read(model, 1);
    let exact = 13 * steps * 1_000_000_000u64 / 24_000_000;
    assert!(reader.seen.last().unwrap().time.abs_diff(exact) <= 1000);
    assert_eq!(reader.clock, 3);
}

#[test]
fn categories_and_keys_beyond_the_table_are_written_out() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer: Tracer<'_, _, 1> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().instant_with("the one name", |event| event.category("net").arg("bytes", 7u8));
    tracer.flush();
    let reader = read(model, 1);
    let event = &reader.seen[0];
    assert_eq!((event.name.as_str(), reader.names.len()), ("the one name", 1));
    assert_eq!(text(&event.rest, 22).as_deref(), Some("net"));
    let annotation = inside(&event.rest, 4).expect("an annotation");
    assert_eq!((text(&annotation, 10).as_deref(), int(&annotation, 3)), (Some("bytes"), Some(7)));
}

#[test]
fn a_step_of_no_nanoseconds_is_one_nanosecond() {
    let said = |config: TracerConfig| format!("{config:?}");
    let (none, one) = [0, 1].map(|step| said(TracerConfig::new(24_000_000).unit_ns(step))).into();
    assert_eq!(none, one);
    // 2³² ÷ 1.5 is 2,863,311,530.7.
    assert!(said(TracerConfig::new(1_500_000_000)).contains("factor: 2863311531"));
    assert!(said(CONFIG).contains("state_bytes: 65536"));
}

#[test]
fn an_event_that_just_does_not_fit_a_chunk_loses_nothing() {
    let (count, step) = if cfg!(miri) { (60, 13) } else { (200, 1) };
    for filler in (0..14).step_by(step) {
        for kind in 0..3 {
            let (model, _, writer) = setup(Pace::Prompt, 65536);
            let ticks = Ticks::default();
            let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
            let text = "x".repeat(filler);
            tracer.track().instant_with("tick", |event| event.arg("text", text.as_str()));
            for n in 1..=count {
                // With a time of three bytes: 13 to 25 in all; an event is begun where a chunk has 12 left.
                ticks.0.set(n * 20_000);
                match kind {
                    0 => tracer.track().instant("tick"),
                    1 => tracer.track().begin_in("tick", "category"),
                    _ => tracer.on(&LOAD).count(n as i64),
                }
            }
            tracer.flush();
            let reader = read(model, 1);
            let times: Vec<_> = reader.seen.iter().map(|event| event.time).collect();
            assert_eq!(times, (0..=count).map(|n| n * 20_000).collect::<Vec<_>>());
        }
    }
}
