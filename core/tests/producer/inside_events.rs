//! Other events, flushes and panics while an event is written.

use crate::event_reader::read;
use crate::model::*;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use tracebuf::producer::track_event::*;

#[test]
fn an_event_inside_the_writing_of_another_is_left_out_and_breaks_nothing() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().instant_with("outer", |event| {
        tracer.track().instant("inner");
        assert_eq!(tracer.reentered(), 1);
        event.arg("after", 1u8)
    });
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.seen.len(), 1);
    assert_eq!(reader.seen[0].rest.len(), 1);
    assert_eq!((tracer.stats().skipped, tracer.reentered()), (1, 1));
}

#[test]
fn while_an_event_is_written_its_tracer_counts_nothing_and_flushes_nothing() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.track().instant_with("outer", |event| {
        assert_eq!(tracer.flush(), None);
        assert_eq!(tracer.stats(), TracerStats::default());
        event
    });
    assert!(tracer.stats().writer.packets > 0);
    assert!(tracer.flush().is_some());
    assert_eq!(read(model, 1).seen.len(), 1);
}

#[test]
fn a_slice_whose_details_panic_ends() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _outer = tracer.track().enter("outer");
        let _inner = tracer.track().enter_with("inner", |_| panic!("in the details"));
    }));
    assert!(result.is_err());
    tracer.flush();
    let kinds: Vec<_> = read(model, 1).seen.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [1, 1, 2, 2]);
}

#[test]
fn a_panic_in_a_slice_ends_it() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tracer.track().slice("bad", || panic!("in the slice"));
    }));
    assert!(result.is_err());
    tracer.flush();
    let kinds: Vec<_> = read(model, 1).seen.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [1, 2]);
}

#[test]
fn a_panic_in_the_details_of_an_event_ends_it_with_the_names_it_has_brought() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tracer.track().instant_with("bad", |event| {
            event.category("known");
            panic!("in the details")
        });
    }));
    assert!(result.is_err());
    tracer.track().instant("bad");
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!(reader.seen.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["bad", "bad"]);
    assert!(reader.names.values().any(|name| name == "known"));
}
