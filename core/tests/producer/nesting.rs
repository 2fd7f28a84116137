//! Slices stay nested, whatever part of them is lost.

use crate::event_reader::{Reader, Seen, inside, int, read};
use crate::model::*;
use crate::track_events::{CONFIG, MAIN, Ticks};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::*;

static OTHER: Track<'static> = Track::custom("another");

type Tracks<'t> = OnTrack<'t, 'static, Ticks, 8, 4>;

/// A thread whose shared memory is full most of the time: the numbers of the slices that it is in, and for each slice
/// that has begun, those that it began within.
struct Thread<'t> {
    on: Tracks<'t>,
    inside: Vec<(u64, bool)>,
    within: Vec<(u64, Vec<u64>)>,
    entered: u64,
}

impl<'t> Thread<'t> {
    fn new(on: Tracks<'t>) -> Self {
        Self { on, inside: vec![], within: vec![], entered: 0 }
    }

    fn enter(&mut self) {
        self.entered += 1;
        let number = self.entered;
        let has_begun = self.on.enter_with("slice", |event| event.arg("number", number)).detach();
        if has_begun {
            let around = self.inside.iter().filter(|slice| slice.1).map(|slice| slice.0);
            self.within.push((number, around.collect()));
        }
        self.inside.push((number, has_begun));
    }

    fn exit(&mut self) {
        if let Some((_, true)) = self.inside.pop() {
            self.on.attach().end();
        }
    }
}

/// For each slice that a trace has on a track, those that it lies in; none is open at the end.
fn told(reader: &Reader, track: u64) -> Vec<(u64, Vec<u64>)> {
    let (mut open, mut within) = (Vec::new(), Vec::new());
    for seen in reader.seen.iter().filter(|seen| seen.track == track) {
        match seen.kind {
            1 => {
                let number = int(&inside(&seen.rest, 4).expect("a number"), 3).expect("it");
                within.push((number, open.clone()));
                open.push(number);
            }
            2 => assert!(open.pop().is_some(), "an end of nothing"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(open, []);
    within
}

#[test]
fn slices_by_guards_lie_in_those_that_they_began_in_whatever_is_lost() {
    let runs = if cfg!(miri) { 2 } else { 60 };
    let mut lost = 0;
    for run in 1..=runs {
        let (model, producer) = chunk_a_page(3, 256, Pace::Lazy);
        let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
        let tracer = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(run);
        let mut dice = |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % sides
        };
        let mut thread = Thread::new(tracer.track());
        for _ in 0..if cfg!(miri) { 150 } else { 2000 } {
            match dice(24) {
                0 => model.drain(),
                1..=11 if thread.inside.len() < 6 => thread.enter(),
                12 => tracer.track().instant("instant"),
                _ => thread.exit(),
            }
        }
        while !thread.inside.is_empty() {
            model.drain();
            thread.exit();
        }
        // An end that is lost still comes before the next slice.
        model.drain();
        thread.enter();
        thread.exit();
        assert_eq!(thread.within.last().map(|(_, around)| around.len()), Some(0));
        lost += tracer.stats().writer.dropped;
        tracer.flush();
        model.drain();
        let mut reader = read(model, 1);
        assert_eq!(reader.undecodable, 0);
        reader.seen.retain(|seen| seen.kind != 3);
        assert_eq!(told(&reader, MAIN.uuid()), thread.within);
    }
    assert!(lost > 10 * runs, "{lost}");
}

#[test]
fn an_end_that_is_lost_is_made_up_for_before_the_one_around_it_and_counted_once() {
    end_that_is_lost(|inner| drop(inner));
    end_that_is_lost(|inner| inner.end_with(|event| event.arg("status", 200)));
}

fn end_that_is_lost(end: fn(TracerSliceGuard<'_, '_, Ticks, 8, 4>)) {
    let (model, producer) = chunk_a_page(1, 256, Pace::Lazy);
    let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
    let ticks = Ticks::default();
    let tracer: Tracer<'_, _, 8, 4> = Tracer::with_tables(writer, ticks.clone(), &MAIN, CONFIG);
    let outer = tracer.track().enter("outer");
    let inner = tracer.track().enter("inner");
    let mut filler = 0;
    while tracer.stats().writer.dropped == 0 {
        tracer.track().instant("filler");
        filler += 1;
    }
    ticks.0.set(1000);
    end(inner);
    // Another tracer may take it over, and give it back.
    assert_eq!((tracer.owed_ends(), tracer.replace_owed_ends(3), tracer.owed_ends()), (1, 1, 3));
    assert_eq!(tracer.replace_owed_ends(1), 3);
    // Neither this nor anything in its place later is written: the end before it is tried, once.
    let lost = tracer.track().enter("lost");
    assert_eq!(tracer.stats().writer.dropped, 3);
    model.drain();
    drop(lost);
    ticks.0.set(2000);
    drop(outer);
    tracer.flush();
    model.drain();
    let seen = read(model, 1).seen;
    let told: Vec<_> = seen.iter().map(|seen| (seen.kind, seen.name.as_str(), seen.time)).collect();
    assert_eq!(told[..2], [(1, "outer", 0), (1, "inner", 0)]);
    assert!(told[2..filler + 1].iter().all(|seen| *seen == (3, "filler", 0)));
    assert_eq!(told[filler + 1..], [(2, "", 2000), (2, "", 2000)]);
    // For both, it was the state that had no room.
    let stats = tracer.stats();
    assert_eq!((stats.writer.dropped, stats.skipped), (3, 2));
}

#[test]
fn a_slice_that_cannot_begin_inside_an_events_details_does_not_end_another() {
    let (model, producer) = chunk_a_page(8, 1024, Pace::Prompt);
    let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
    let tracer: Tracer<'_, _, 8, 4> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    let outer = tracer.track().enter("outer");
    let mut kept = None;
    tracer.track().instant_with("with details", |event| {
        tracer.track().slice("inside", || {});
        kept = Some(tracer.track().enter("kept"));
        event
    });
    drop(kept);
    // A slice that ends inside an event is made up for.
    let mut within = Some(tracer.track().enter("within"));
    tracer.track().instant_with("with details", |event| {
        drop(within.take());
        event
    });
    drop(outer);
    tracer.flush();
    let kinds: Vec<_> = read(model, 1).seen.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [1, 3, 1, 3, 2, 2]);
}

#[test]
fn slices_of_another_track_end_none_whose_begin_is_lost() {
    let (model, producer) = chunk_a_page(2, 256, Pace::Lazy);
    let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
    let tracer: Tracer<'_, _, 8, 4> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    let outer = tracer.on(&OTHER).enter("outer");
    while tracer.stats().writer.dropped == 0 {
        tracer.track().instant("filler");
    }
    let lost = tracer.on(&OTHER).enter("lost");
    model.drain();
    drop(lost);
    outer.end_with(|event| event.arg("status", 200));
    // It has ended once.
    tracer.flush();
    model.drain();
    let seen = read(model, 1).seen;
    let details = |seen: &Seen| inside(&seen.rest, 4).is_some();
    let told: Vec<_> =
        seen.iter().filter(|seen| seen.kind != 3).map(|seen| (seen.kind, details(seen))).collect();
    assert_eq!(told, [(1, false), (2, true)]);
}

#[test]
fn details_that_panic_when_there_is_no_room_for_them_end_the_slice_once_and_no_other() {
    let too_long = "x".repeat(300);
    let kinds = |is_end: bool| {
        let (model, producer) = chunk_a_page(1, 256, Pace::Lazy);
        let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
        let tracer: Tracer<'_, _, 8, 4> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
        let outer = tracer.track().enter("outer");
        let inner = is_end.then(|| tracer.track().enter("inner"));
        let result = catch_unwind(AssertUnwindSafe(|| match inner {
            Some(inner) => inner.end_with(|event| panic!("{:p}", event.arg("text", &too_long[..]))),
            None => drop(
                tracer.track().enter_with("lost", |event| panic!("{:p}", event.arg("text", &too_long[..]))),
            ),
        }));
        assert!(result.is_err());
        assert_eq!(tracer.stats().writer.dropped, 1);
        model.drain();
        tracer.track().instant("between");
        drop(outer);
        tracer.flush();
        model.drain();
        read(model, 1).seen.iter().map(|seen| seen.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(false), [1, 3, 2]);
    assert_eq!(kinds(true), [1, 1, 3, 2, 2]);
}

type Work = Box<dyn FnOnce()>;

/// A clock that does something the next time it is asked.
#[derive(Clone, Default)]
struct Interrupted(Rc<Cell<Option<Work>>>);

impl Clock for Interrupted {
    fn now(&self) -> u64 {
        self.0.take().into_iter().for_each(|work| work());
        0
    }
}

#[test]
fn an_end_inside_the_writing_of_one_that_is_made_up_for_is_made_up_for_too() {
    let (model, producer) = chunk_a_page(2, 256, Pace::Lazy);
    let writer = producer.writer(40, Exhaustion::Drop).expect("a writer");
    let clock = Interrupted::default();
    let tracer: &'static Tracer<'_, _, 8, 4> =
        Box::leak(Box::new(Tracer::with_tables(writer, clock.clone(), &MAIN, CONFIG)));
    let [outer, middle, inner] = ["outer", "middle", "inner"].map(|name| tracer.track().enter(name));
    while tracer.stats().writer.dropped == 0 {
        tracer.track().instant("filler");
    }
    drop(inner);
    model.drain();
    clock.0.set(Some(Box::new(|| drop(middle))));
    drop(outer);
    tracer.flush();
    model.drain();
    let kinds =
        read(model, 1).seen.iter().map(|seen| seen.kind).filter(|kind| *kind != 3).collect::<Vec<_>>();
    assert_eq!(kinds, [1, 1, 1, 2, 2, 2]);
}
