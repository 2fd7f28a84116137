//! Incremental states: when one starts anew, and what needs it.

use crate::event_reader::read;
use crate::model::*;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

#[test]
fn the_state_comes_again_after_a_loss_when_cleared_and_after_so_many_bytes() {
    let (size, most, count) = if cfg!(miri) { (4096, 400, 150) } else { (16384, 2000, 5000) };
    let (model, producer, writer) = setup(Pace::Absent(0), size);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let work = |n: usize| (0..n).for_each(|_| tracer.track().slice("work", || {}));
    work(2);
    tracer.flush();
    producer.clear_incremental_state();
    work(2);
    tracer.flush();
    model.drain();
    assert_eq!(read(model, 1).states, 2);
    // 16 KiB hold some 700 slices; the rest is dropped.
    work(most);
    let lost = tracer.stats();
    assert!(lost.writer.dropped > 100 && lost.skipped > 100);
    model.drain();
    work(2);
    tracer.flush();
    model.drain();
    let reader = read(model, 1);
    assert_eq!((reader.states, reader.undecodable), (3, 0));
    assert!(reader.seen.iter().all(|s| s.kind == 2 || s.name == "work"));

    for every in [1, 8] {
        let (model, _, writer) = setup(Pace::Prompt, 65536);
        let config = CONFIG.state_every(every * 1020);
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, config);
        (0..count).for_each(|_| tracer.track().slice("work", || {}));
        tracer.flush();
        let chunks = model.state().chunks.len() as u32;
        let reader = read(model, 1);
        assert_eq!(reader.seen.len(), 2 * count);
        let states = reader.states as u32;
        assert!(states.abs_diff(chunks / every) <= 1, "{states} states in {chunks} chunks");
    }
}

#[test]
fn an_event_whose_track_could_not_be_described_is_left_out_and_counted() {
    // A single chunk: what does not fit it is dropped.
    let memory = memory(1024, 1024);
    let model = Model::new(memory, Pace::Prompt);
    let producer = producer(memory, Layout::One, model);
    let writer = producer.writer(40, Exhaustion::Drop).unwrap();
    static LONG: Track<'static> = Track::custom(include_str!("track_events.rs"));
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().instant("before");
    // A name that is known, one that is not, and none.
    tracer.on(&LONG).instant("before");
    tracer.on(&LONG).instant("on a track whose name is too long");
    tracer.on(&LONG).count(3);
    assert_eq!(tracer.stats().skipped, 3);
    tracer.track().instant("after");
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.seen.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["before", "after"]);
    assert_eq!((reader.undecodable, reader.states), (0, 4));
}

#[test]
fn with_a_state_in_each_chunk_every_chunk_can_be_decoded_without_those_before_it() {
    let memory = memory(64 * 1024, 1024);
    let model = Model::new(memory, Pace::Prompt);
    let producer = producer(memory, Layout::One, model);
    let [writer, mut other] = [(); 2].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG.state_every(0));
    let count = if cfg!(miri) { 60 } else { 500 };
    for n in 0..count {
        tracer.track().slice(["work", "more"][n as usize % 2], || {});
        tracer.track().instant_with("number", |event| event.arg("n", n));
        // Other writers' chunks start none.
        other.packet().bytes(1, &[7; 500]);
    }
    tracer.flush();
    let whole = read(model, 1);
    assert_eq!((whole.undecodable, whole.seen.len() as u64), (0, 3 * count));
    let chunks = model.state().chunks.keys().filter(|(writer, _)| *writer == 1).count();
    assert!(
        chunks as u64 > count / 25 && whole.states.abs_diff(chunks) <= 1,
        "{} states in {chunks} chunks",
        whole.states
    );
    for first in 1..chunks {
        model.state().chunks.retain(|(writer, id), _| *writer != 1 || *id >= first as u32);
        let reader = read(model, 1);
        assert_eq!(reader.undecodable, 0, "from chunk {first} on");
        assert!(reader.seen.len() >= (chunks - first) * 10, "from chunk {first} on");
    }
}

#[test]
fn with_a_state_in_each_chunk_the_last_one_tells_its_last_event_wherever_the_state_begins() {
    static OTHER: Track<'static> = Track::custom("another track").within(&MAIN);
    // After this many bytes, chunks of 1024 bytes end at each byte of what follows.
    for n in (600..1000).step_by(if cfg!(miri) { 59 } else { 1 }) {
        for what in 0..6 {
            let memory = memory(64 * 1024, 1024);
            let model = Model::new(memory, Pace::Prompt);
            let producer = producer(memory, Layout::One, model);
            let (writer, ticks) = (producer.writer(40, Exhaustion::Drop).unwrap(), Ticks::default());
            let start = 1 << 40;
            ticks.0.set(start);
            let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG.state_every(0));
            // Each takes ten bytes.
            (0..n / 10).for_each(|_| tracer.track().instant("tick"));
            tracer.track().instant_with("tock", |event| event.arg("", &"ten bytes."[..n % 10]));
            let kind = match what {
                // The time since the last event has too many bits.
                0 => {
                    ticks.0.set(start + (1 << 33));
                    tracer.track().instant("last");
                    3
                }
                1 => {
                    producer.clear_incremental_state();
                    tracer.track().end();
                    2
                }
                2 => {
                    tracer.on(&OTHER).count(i64::MIN);
                    4
                }
                // In the same state, and some time after its last event.
                3 => {
                    ticks.0.set(start + 5);
                    tracer.on(&OTHER).measure(0.5);
                    4
                }
                // As short as an event on a track can be, with a known name.
                4 => {
                    tracer.on(&OTHER).instant("tick");
                    3
                }
                // The longest event without details, with the description of its track.
                _ => {
                    tracer.on(&OTHER).count(1);
                    ticks.0.set(start + u64::from(u32::MAX));
                    tracer.on(&OTHER).count(i64::MIN);
                    4
                }
            };
            tracer.flush();
            let newest = *model.state().chunks.keys().last().unwrap();
            model.state().chunks.retain(|key, _| *key == newest);
            let reader = read(model, 1);
            let last = reader.seen.last().map(|seen| (seen.kind, seen.time));
            assert_eq!(
                (reader.undecodable, last),
                (0, Some((kind, ticks.0.get()))),
                "{n} bytes, then {what}"
            );
        }
    }
}

#[test]
fn a_clock_that_goes_backwards_stands_still_also_where_a_state_begins() {
    let now = 1 << 40;
    for back in [1, 5, 1 << 31, 1 << 32] {
        let (model, producer, writer) = setup(Pace::Prompt, 65536);
        let ticks = Ticks::default();
        let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
        for time in [now - 10, now] {
            ticks.0.set(time);
            tracer.track().instant("before");
        }
        producer.clear_incremental_state();
        ticks.0.set(now - back);
        tracer.track().instant("after");
        tracer.flush();
        let times: Vec<_> = read(model, 1).seen.iter().map(|seen| seen.time).collect();
        assert_eq!(times, [now - 10, now, now], "back by {back}");
    }
}

#[test]
fn a_time_read_wrong_once_does_not_hold_up_those_after_it() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let ticks = Ticks::default();
    let tracer = Tracer::new(writer, ticks.clone(), &MAIN, CONFIG);
    // Back by 2³², the time stands still; by more, it was read wrong.
    let (wrong, little) = (1 << 40, (1 << 40) - (1 << 32));
    for time in [1000, wrong, 3000, 3001, wrong, little, wrong, little - 1, little] {
        ticks.0.set(time);
        tracer.track().instant("now");
    }
    tracer.flush();
    let times: Vec<_> = read(model, 1).seen.iter().map(|seen| seen.time).collect();
    assert_eq!(times, [1000, wrong, 3000, 3001, wrong, wrong, wrong, little - 1, little]);
}

#[test]
fn threads_within_each_other_in_a_ring_are_described_so_far_and_no_further() {
    static RING: [Track<'static>; 3] = [
        Track::thread(1, 1, "first").within(&RING[1]),
        Track::thread(1, 2, "second").within(&RING[2]),
        Track::thread(1, 3, "third").within(&RING[0]),
    ];
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    // Described tracks are forgotten before the ring is closed.
    let tracer: Tracer<'_, _, 64, 2> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.on(&RING[0]).instant("on a ring");
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!((reader.seen.len(), reader.seen[0].track), (1, RING[0].uuid()));
    assert!(RING.iter().all(|track| reader.tracks.contains_key(&track.uuid())));
    // 32 of those above one another, besides the tracer's own and its process.
    let names: Vec<&'static str> = (0..40).map(|n| &*format!("{n}").leak()).collect();
    let mut deepest: &'static Track<'static> = &RING[0];
    for name in &names {
        deepest = Box::leak(Box::new(Track::custom(name).within(deepest)));
    }
    let before = reader.tracks.len();
    tracer.on(deepest).instant("deep");
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!((reader.seen.len(), reader.tracks.len()), (2, before + 32));
}

#[test]
fn a_tracer_begins_with_a_state_whatever_its_writer_has_written_before() {
    for is_open in [false, true] {
        let (model, _, mut writer) = setup(Pace::Prompt, 65536);
        writer.packet().message(5).string(1, "before");
        if is_open {
            let mut packet = writer.packet();
            packet.message(5).string(1, "open");
            std::mem::forget(packet);
        }
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
        tracer.track().instant("first");
        tracer.flush();
        let reader = read(model, 1);
        assert_eq!((reader.states, reader.undecodable, reader.seen.len()), (1, 0, 1));
        // Those written by hand; the state, the track and the one above it; the event.
        assert_eq!(model.packets(1).len(), 5 + usize::from(is_open));
    }
}

#[test]
fn a_state_that_was_not_written_is_not_counted() {
    let (model, _, writer) = setup(Pace::Absent(0), 4096);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    (0..if cfg!(miri) { 400 } else { 2000 }).for_each(|_| tracer.track().slice("work", || {}));
    model.drain();
    tracer.track().instant("after");
    tracer.flush();
    model.drain();
    let (stats, reader) = (tracer.stats(), read(model, 1));
    assert!(stats.writer.dropped > 100 && stats.skipped > 100);
    assert_eq!((stats.states as usize, reader.states), (2, 2));
}

#[test]
fn with_a_state_in_each_chunk_one_that_leaves_no_room_for_events_is_not_written_twice() {
    // A state takes some 80 bytes, so the smallest chunk holds it but no event after it.
    for page in [128, 192, 256] {
        let memory = memory(64 * 1024, page);
        let model = Model::new(memory, Pace::Prompt);
        let producer = producer(memory, Layout::One, model);
        let writer = producer.writer(40, Exhaustion::Drop).unwrap();
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG.state_every(0));
        (0..50).for_each(|_| tracer.track().slice("work", || {}));
        tracer.flush();
        let (stats, reader) = (tracer.stats(), read(model, 1));
        assert_eq!((reader.undecodable, reader.seen.len()), (0, 100));
        assert!(stats.states <= 101, "{} states of 100 events in chunks of {page} bytes", stats.states);
    }
}

/// Small builds repeat it often enough.
#[cfg(not(tracebuf_small))]
#[test]
fn a_state_that_lasts_for_ever_begins_anew_when_its_names_are_used_up_and_no_sooner() {
    let names: Vec<&'static str> =
        (0..300).map(|number| &*Box::leak(format!("name {number}").into_boxed_str())).collect();
    let states = |used: &[&'static str], rounds: usize| {
        let (model, _, writer) = setup(Pace::Prompt, 65536);
        let tracer =
            Tracer::<_, 64, 8>::with_tables(writer, Ticks::default(), &MAIN, CONFIG.state_every(u32::MAX));
        for _ in 0..rounds {
            used.iter().for_each(|name| tracer.track().instant(name));
        }
        tracer.flush();
        let reader = read(model, 1);
        let seen: Vec<&str> = reader.seen.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(seen, used.repeat(rounds));
        reader.states
    };
    assert_eq!(states(&names[..64], 100), 1);
    assert_eq!(states(&names[..65], 100), 1, "one of them is written out each time");
    // Names that are used for a while and then no more: those that came after them have numbers again.
    let (rounds, few) = (300, &names[100..110]);
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer =
        Tracer::<_, 64, 8>::with_tables(writer, Ticks::default(), &MAIN, CONFIG.state_every(u32::MAX));
    names[..64].iter().for_each(|name| tracer.track().instant(name));
    (0..rounds).for_each(|_| few.iter().for_each(|name| tracer.track().instant(name)));
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.states, 2);
    assert!(few.iter().all(|name| reader.names.values().any(|known| known == name)));
    assert_eq!(reader.seen.len(), 64 + few.len() * rounds);
}
