//! Track events whose names are longer than chunks, and states of extreme values.

use crate::event_reader::{self, inside, int, read};
use crate::model::{Value, *};
use crate::track_events::{CONFIG, MAIN, Ticks};
use std::sync::LazyLock;
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

/// 700 bytes of which no two places look alike.
static TEXT: LazyLock<String> = LazyLock::new(|| (0..175).map(|n| format!("{n:03} ")).collect());

#[test]
fn names_and_descriptions_of_any_length_come_out_whole_from_chunks_of_any_size() {
    let text: &'static str = &TEXT;
    let step = if cfg!(miri) { 233 } else { 1 };
    // Without patches chunks as long as the longest packet are large enough.
    let sizes = if cfg!(feature = "patches") { [64, 68, 152, 300] } else { [760, 764, 900, 1020] };
    for (chunk, pace) in sizes.into_iter().zip([Pace::Prompt, Pace::Lazy].into_iter().cycle()) {
        let (model, producer) = chunk_a_page(64, chunk, pace);
        for len in (1..text.len()).step_by(step) {
            let tracks = [Track::custom(&text[..len]), Track::counter(&text[len..], Unit::Count)];
            let writer = producer.writer(40, Exhaustion::Stall).unwrap();
            // The first two names get numbers, the third is written out.
            let tracer: Tracer<'_, _, 2> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
            let names = [&text[..len], &text[len..], &text[1..]];
            for name in names {
                tracer.track().instant(name);
                tracer.on(&tracks[0]).begin(name);
            }
            tracer.on(&tracks[1]).count(i64::MIN);
            assert_eq!(tracer.stats().writer.dropped, 0);
            drop(tracer);
            model.drain();
            producer.commit();
            let reader = read(model, 1);
            let seen: Vec<_> = reader.seen.iter().map(|s| (s.track, s.name.as_str())).collect();
            let [main, custom, counter] = [&MAIN, &tracks[0], &tracks[1]].map(Track::uuid);
            let mut expected: Vec<_> =
                names.iter().flat_map(|name| [(main, *name), (custom, *name)]).collect();
            expected.push((counter, ""));
            assert_eq!(seen, expected);
            assert_eq!(reader.seen[6].rest, [(30, Value::Int(i64::MIN as u64))]);
            assert_eq!(event_reader::text(&reader.tracks[&custom], 2).as_deref(), Some(names[0]));
            assert_eq!(event_reader::text(&reader.tracks[&counter], 2).as_deref(), Some(names[1]));
            model.state().chunks.clear();
        }
    }
}

#[test]
fn a_state_of_the_largest_values_is_whole() {
    let (model, producer) = chunk_a_page(4, 64, Pace::Absent(0));
    let mut writer = producer.writer(40, Exhaustion::Drop).unwrap();
    while writer.stats().dropped == 0 {
        writer.packet().bytes(1, &[1; 44]);
    }
    drop(writer);
    model.drain();
    producer.commit();
    model.state().chunks.clear();
    // The next writer with this id has something to report of the one before.
    let writer = producer.writer(40, Exhaustion::Drop).unwrap();
    let ticks = Ticks::default();
    // Both times take ten bytes.
    ticks.0.set((1 << 62) + (1 << 34));
    let config = TracerConfig::new(1).unit_ns(1 << 28).clock_id(u32::MAX);
    let tracer = Tracer::new(writer, ticks, &MAIN, config);
    tracer.track().instant("now");
    drop(tracer);
    model.drain();
    let packets = model.packets(1);
    let state = fields(packets[0].as_ref().unwrap());
    let clocks = inside(&state, 6).unwrap();
    let clocks: Vec<_> = clocks.iter().filter(|(n, _)| *n == 1).map(|(_, v)| v.inside()).collect();
    let now: u64 = 17_179_869_248_000_000_000;
    assert_eq!((int(&clocks[1], 2), int(&clocks[0], 2)), (Some(now), Some(now.wrapping_mul(1 << 28))));
    assert_eq!((int(&clocks[1], 4), int(&state, 42)), (Some(1 << 28), Some(257)));
    let defaults = inside(&state, 59).unwrap();
    assert_eq!(int(&inside(&defaults, 11).unwrap(), 11), Some(MAIN.uuid()));
}

#[test]
fn an_event_given_up_in_the_middle_is_marked_and_the_next_ones_say_so() {
    // Two chunks: the name does not fit them, and nobody takes them away.
    let (model, producer) = chunk_a_page(2, 256, Pace::Absent(0));
    let writer = producer.writer(40, Exhaustion::Drop).unwrap();
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().instant("before");
    tracer.track().instant(&TEXT);
    assert_eq!(tracer.stats().writer.dropped, 1);
    model.drain();
    tracer.track().instant("after");
    tracer.track().instant("later");
    tracer.flush();
    model.drain();
    let packets = model.packets(1);
    assert_eq!(packets.iter().filter(|packet| packet.is_none()).count(), 1, "one was given up");
    let reader = read(model, 1);
    let names: Vec<_> = reader.seen.iter().map(|s| s.name.as_str()).collect();
    assert_eq!((names, reader.states), (vec!["before", "after", "later"], 2));
}

#[test]
fn a_packet_forgotten_before_a_tracer_took_the_writer_is_there_all_the_same() {
    for flushes in [false, true] {
        let (model, mut writer) = only_writer(4, 256, Pace::Prompt, Exhaustion::Drop);
        let mut packet = writer.packet();
        packet.varint(8, 7);
        core::mem::forget(packet);
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
        if flushes {
            tracer.flush();
        }
        tracer.track().instant("now");
        drop(tracer);
        let packets = model.packets(1);
        assert_eq!(int(&fields(packets[0].as_ref().unwrap()), 8), Some(7));
        assert_eq!(packets.len(), 5, "the state, two tracks, the event");
    }
}
