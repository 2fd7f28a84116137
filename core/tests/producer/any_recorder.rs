//! A tracer, used as any recorder of events is.

use crate::event_reader::read;
use crate::model::Pace;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use tracebuf::Events;
use tracebuf::producer::track_event::*;

static LOW: Track<'static> = Track::custom("low");
static HIGH: Track<'static> = Track::custom("high");

fn work(events: &impl Events<Track = &'static Track<'static>>) {
    events.begin("step");
    events.count("level", -5);
    events.begin_on(&LOW, "turn");
    events.instant_on(&LOW, "half");
    events.end_on(&LOW);
    events.switch(Some(&LOW));
    events.switch(Some(&HIGH));
    events.instant("alarm");
    events.switch(None);
    events.switch(None);
    events.end();
}

#[test]
fn what_hooks_record_with_a_tracer_is_on_its_tracks_and_one_task_runs_at_a_time() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    work(&tracer);
    tracer.flush();
    let level = Track::counter("level", Unit::Count).uuid();
    let (main, low, high) = (MAIN.uuid(), LOW.uuid(), HIGH.uuid());
    let reader = read(model, 1);
    let seen: Vec<_> = reader.seen.iter().map(|seen| (seen.kind, seen.track, seen.name.as_str())).collect();
    let expected = [
        (1, main, "step"),
        (4, level, ""),
        (1, low, "turn"),
        (3, low, "half"),
        (2, low, ""),
        (1, low, "runs"),
        (2, low, ""),
        (1, high, "runs"),
        (3, main, "alarm"),
        (2, high, ""),
        (2, main, ""),
    ];
    assert_eq!(seen, expected);
}
