//! Tracks: how they are described, and told apart, and events on them.

use crate::event_reader::{inside, int, read, text};
use crate::model::*;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

static PROCESS: Track<'static> = Track::process(7, "the program");
static GPU: Track<'static> = Track::custom("gpu");
static LOAD: Track<'static> = Track::counter("load", Unit::Bytes).within(&GPU);

#[test]
fn more_tracks_than_a_tracer_remembers_are_described_whenever_they_are_used() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer: Tracer<'_, _, 8, 2> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    let tracks: [Track<'static>; 5] = ["a", "b", "c", "d", "e"].map(Track::custom);
    let tracks: &'static [Track<'static>; 5] = Box::leak(Box::new(tracks));
    for track in tracks.iter().chain(tracks) {
        tracer.on(track).instant("here");
    }
    tracer.flush();
    let reader = read(model, 1); // which requires every event's track to be described
    let seen: Vec<_> = reader.seen.iter().map(|event| event.track).collect();
    let used: Vec<_> = tracks.iter().chain(tracks).map(Track::uuid).collect();
    assert_eq!(seen, used);
    // One that is used for long is remembered in place of those before it, at the latest when it is used again.
    let before = model.packets(1).len();
    for track in tracks {
        (0..10).for_each(|_| tracer.on(track).instant("here"));
    }
    tracer.flush();
    let descriptions = model.packets(1).len() - before - 10 * tracks.len();
    assert!(descriptions <= 2 * tracks.len(), "{descriptions} of {} tracks", tracks.len());
}

#[test]
fn tracks_that_are_gone_are_not_taken_for_those_that_come_in_their_place() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let mut used = Vec::new();
    // More names than the tracer knows at a time, each where the one before it was, and each twice.
    let mut name = String::new();
    for i in 0..40 {
        name.clear();
        name.push_str(if i % 2 == 0 { "request" } else { "queries" });
        let parent = Track::custom(&name).within(&PROCESS);
        let track = Track::counter(&name, Unit::Count).numbered(i / 4).within(&parent);
        tracer.on(&track).count(i as i64);
        tracer.on(&parent).instant("counted");
        used.extend([(track.uuid(), name.clone()), (parent.uuid(), name.clone())]);
    }
    tracer.flush();
    let reader = read(model, 1); // which requires every event's track to be described
    let name_of = |track| text(&reader.tracks[&track], 2).expect("a name");
    let seen: Vec<_> = reader.seen.iter().map(|event| (event.track, name_of(event.track))).collect();
    assert_eq!(seen, used);
}

#[test]
fn a_track_of_which_there_are_several_is_told_by_its_number() {
    let request = Track::custom("request");
    let ids = [0, 1, 2, u64::MAX].map(|number| request.numbered(number).uuid());
    let all: std::collections::BTreeSet<_> = ids.into_iter().chain([request.uuid()]).collect();
    assert_eq!(all.len(), 5);
    assert_ne!(request.numbered(1).within(&GPU).uuid(), request.numbered(1).uuid());
    assert_ne!(request.numbered(1).within(&GPU).uuid(), request.within(&GPU).uuid());
    // Those of a container, say, with the same numbers.
    for track in [PROCESS, MAIN] {
        assert_ne!(track.numbered(3).uuid(), track.uuid());
        assert_eq!(track.numbered(3).within(&GPU).uuid(), track.numbered(3).uuid());
    }
}

#[test]
#[allow(clippy::clone_on_copy, reason = "generic code clones")]
fn a_handle_on_a_track_can_be_cloned_and_means_the_same_track() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let gpu = tracer.on(&GPU);
    gpu.clone().instant("cloned");
    gpu.instant("original");
    tracer.flush();
    let tracks: Vec<_> = read(model, 1).seen.iter().map(|event| event.track).collect();
    assert_eq!(tracks, [GPU.uuid(); 2]);
}

#[test]
fn tracks_are_described_with_numbers_and_names_of_any_length() {
    const LONG: &str = "a name of more than a hundred and twenty-seven bytes, whose length takes two of them as a \
        varint, as do those of the messages around it; and it goes on for a while";
    static PROGRAM: Track<'static> = Track::process(2_000_000_000, LONG);
    static THREAD: Track<'static> = Track::thread(2_000_000_000, 300, LONG).within(&PROGRAM);
    static OTHER: Track<'static> = Track::custom(LONG).within(&PROGRAM);
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &THREAD, CONFIG);
    tracer.track().instant("here");
    tracer.on(&OTHER).instant("there");
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!((reader.seen.len(), reader.clock), (2, 6));
    let long = Some(LONG.to_owned());
    let process = inside(&reader.tracks[&PROGRAM.uuid()], 3).unwrap();
    assert_eq!((int(&process, 1), text(&process, 6)), (Some(2_000_000_000), long.clone()));
    let thread = inside(&reader.tracks[&THREAD.uuid()], 4).unwrap();
    assert_eq!(
        (int(&thread, 1), int(&thread, 2), text(&thread, 5)),
        (Some(2_000_000_000), Some(300), long.clone())
    );
    let other = &reader.tracks[&OTHER.uuid()];
    assert_eq!((int(other, 5), text(other, 2)), (Some(PROGRAM.uuid()), long));
}

#[test]
fn a_track_s_id_is_the_same_in_every_program() {
    // A process and a thread are known by their numbers, other tracks by their name and by what they are within.
    assert_eq!(Track::thread(7, 8, "other").uuid(), MAIN.uuid());
    assert_eq!(Track::process(7, "").uuid(), PROCESS.uuid());
    assert_ne!(Track::custom("gpu").within(&PROCESS).uuid(), GPU.uuid());
    let ids = [338_195_532_699_204, 375_600_993_794_231, 496_860_692_519_290, 555_577_000_086_822];
    assert_eq!([PROCESS, MAIN, GPU, LOAD].map(|track| track.uuid()), ids);
}

#[test]
fn events_on_another_track_say_the_same_as_those_on_the_tracer_s_own() {
    // Chunks of 120 bytes end at every point in an event, those of 4 KiB seldom within one. Without patches none of
    // these events may go over more than two chunks.
    for (bytes, page, lifetime) in [(1 << 15, 488, 1 << 20), (1 << 16, 4096, 1 << 20), (1 << 15, 488, 0)] {
        let record = |other: Option<&Track<'_>>| {
            let memory = memory(bytes / page as usize * page as usize, page);
            let model = Model::new(memory, Pace::Prompt);
            let writer = producer(memory, Layout::Four, model).writer(40, Exhaustion::Drop).unwrap();
            let ticks = Ticks::default();
            let config = CONFIG.state_every(lifetime);
            let tracer = Tracer::new(writer, ticks.clone(), &MAIN, config);
            let on = other.map_or(tracer.track(), |track| tracer.on(track));
            let steps = [0, 1, 127, 128, (1 << 14) - 1, 1 << 14, (1 << 21) - 1, 1 << 21, 1 << 28];
            for i in 0..if cfg!(miri) { 30 } else { 300 } {
                ticks.0.set(ticks.0.get() + steps[i % steps.len()]);
                match i % 7 {
                    0 => on.begin("begun"),
                    1 => on.instant(if i % 2 == 0 { "an instant" } else { "" }),
                    2 => on.begin_with("with details", |event| event.arg("i", i)),
                    3 => on.end_with(|event| event.arg("longer", &*"x".repeat(i % (page as usize / 32)))),
                    4 => on.instant_with("", |event| event.name("by its text").category("c")),
                    5 => on.begin_in("of a category", "c"),
                    _ => on.end(),
                }
            }
            tracer.flush();
            let reader = read(model, 1); // which requires every event's track to be described
            assert_eq!((reader.undecodable, tracer.stats().skipped), (0, 0));
            reader.seen
        };
        let own = record(None);
        let (first, second) = (Track::custom("other"), Track::custom("further").within(&GPU).numbered(1));
        for other in [first, second] {
            let there = record(Some(&other));
            assert_eq!(own.len(), there.len());
            for (own, there) in own.iter().zip(&there) {
                assert_eq!((own.track, there.track), (MAIN.uuid(), other.uuid()));
                assert_eq!((own.time, own.kind, &own.name), (there.time, there.kind, &there.name));
                assert_eq!(own.rest, there.rest);
            }
        }
    }
}
