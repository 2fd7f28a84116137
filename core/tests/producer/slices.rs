//! All the ways to write a slice, side by side.

use crate::event_reader::{Seen, inside, int, read, text};
use crate::model::Pace;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracebuf::producer::track_event::*;

static GPU: Track<'static> = Track::custom("gpu");

type Tracks<'t> = OnTrack<'t, 'static, Ticks>;

/// What a reader sees of what `write` does, on the tracer's own track and on another, with names in place of their
/// numbers.
fn seen(write: impl Fn(Tracks<'_>)) -> Vec<String> {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    write(tracer.track());
    write(tracer.on(&GPU));
    tracer.flush();
    let reader = read(model, 1);
    let name = |kind: u32, iid: Option<u64>| iid.map_or("", |iid| reader.names[&(kind, iid)].as_str());
    let told = |Seen { kind, name: event, rest, .. }: &Seen| {
        let annotation = inside(rest, 4).unwrap_or_default();
        let (category, key) = (name(1, int(rest, 3)), name(3, int(&annotation, 1)));
        let value = text(&annotation, 6).or(int(&annotation, 4).map(|number| number.to_string()));
        format!("{kind} {event} {category} {key} {}", value.unwrap_or_default())
    };
    let (own, other) = reader.seen.split_at(reader.seen.len() / 2);
    assert!(own.iter().all(|seen| seen.track == MAIN.uuid()));
    assert!(other.iter().all(|seen| seen.track == GPU.uuid()));
    let [own, other] = [own, other].map(|half| half.iter().map(told).collect::<Vec<_>>());
    assert_eq!(own, other);
    own
}

#[test]
fn a_slice_is_the_same_by_a_call_by_a_guard_and_by_a_pair() {
    let plain = ["1 work   ", "3 inside   ", "2    "];
    assert_eq!(seen(|track| track.slice("work", || track.instant("inside"))), plain);
    assert_eq!(
        seen(|track| {
            let _slice = track.enter("work");
            track.instant("inside");
        }),
        plain
    );
    assert_eq!(
        seen(|track| {
            track.begin("work");
            track.instant("inside");
            track.end();
        }),
        plain
    );
}

#[test]
fn a_category_is_the_same_by_a_call_by_a_guard_and_by_a_pair() {
    let net = ["1 work net  ", "3 inside disk  ", "2    "];
    assert_eq!(seen(|track| track.slice_in("work", "net", || track.instant_in("inside", "disk"))), net);
    assert_eq!(
        seen(|track| {
            let _slice = track.enter_in("work", "net");
            track.instant_in("inside", "disk");
        }),
        net
    );
    assert_eq!(
        seen(|track| {
            track.begin_in("work", "net");
            track.instant_with("inside", |event| event.category("disk"));
            track.end();
        }),
        net
    );
}

#[test]
fn details_are_the_same_by_a_call_by_a_guard_and_by_a_pair() {
    let detailed = ["1 work net bytes 3", "3 inside   ", "2    "];
    let inside = |track: Tracks<'_>| track.instant("inside");
    let call = seen(|track| {
        let body = || {
            inside(track);
            7
        };
        assert_eq!(track.slice_with("work", |event| event.category("net").arg("bytes", 3), body), 7);
    });
    let guard = seen(|track| {
        let _slice = track.enter_with("work", |event| event.category("net").arg("bytes", 3));
        inside(track);
    });
    let pair = seen(|track| {
        track.begin_with("work", |event| event.category("net").arg("bytes", 3));
        inside(track);
        track.end();
    });
    assert_eq!([call, guard, pair], [detailed, detailed, detailed]);
}

#[test]
fn a_name_that_lives_shortly_takes_the_place_of_an_empty_one() {
    let short = seen(|track| {
        let name = format!("request {}", 5);
        track.begin_with("", |event| event.name(&name));
        track.end();
        track.slice_with("", |event| event.name(&name), || {});
    });
    assert_eq!(short, ["1 request 5   ", "2    ", "1 request 5   ", "2    "]);
}

#[test]
fn details_that_panic_have_begun_their_slice_and_the_body_is_not_run() {
    let panicked = seen(|track| {
        let slice = || track.slice_with("work", |_| panic!("a detail"), || track.instant("not run"));
        assert!(catch_unwind(AssertUnwindSafe(slice)).is_err());
        let begin = || track.begin_with("alone", |_| panic!("another"));
        assert!(catch_unwind(AssertUnwindSafe(begin)).is_err());
        track.end();
    });
    assert_eq!(panicked, ["1 work   ", "2    ", "1 alone   ", "2    "]);
}

/// Formats like the text before it, and then fails.
struct Fails;

impl std::fmt::Display for Fails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("half of ")?;
        Err(std::fmt::Error)
    }
}

#[test]
fn an_annotation_is_formatted_as_far_as_that_goes() {
    let point = (3, -4);
    let texts = seen(|track| {
        track.instant_with("moved", |event| event.arg_fmt("to", format_args!("{point:?}")));
        track.instant_with("failed", |event| event.arg_fmt("to", format_args!("{Fails}it")).category("net"));
        track.instant_with("empty", |event| event.arg_fmt("to", format_args!("")));
    });
    assert_eq!(texts, ["3 moved  to (3, -4)", "3 failed net to half of ", "3 empty  to "]);
}
