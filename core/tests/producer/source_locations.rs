//! Source locations of events.

use crate::event_reader::{int, read, text};
use crate::model::{Pace, Value};
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use tracebuf::producer::track_event::*;

/// Where the reader sees each event, in the order recorded.
fn seen<const N: usize>(record: impl FnOnce(&Tracer<'static, Ticks, N>)) -> Vec<(String, u64)> {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer: Tracer<'_, _, N> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    record(&tracer);
    tracer.flush();
    let reader = read(model, 1);
    let place = |event: &[(u32, Value)]| match int(event, 34) {
        Some(iid) => (reader.names[&(4, iid)].clone(), reader.lines[&iid]),
        None => {
            let (_, location) = event.iter().find(|(field, _)| *field == 33).expect("a place");
            let location = location.inside();
            (text(&location, 2).expect("a file"), int(&location, 4).unwrap_or(0))
        }
    };
    reader.seen.iter().map(|event| place(&event.rest)).collect()
}

#[test]
fn lines_of_one_file_are_told_apart_also_where_they_and_other_names_share_a_place_in_the_table() {
    const FILE: &str = "src/main.rs";
    let lines = [1, 2, 33, 34, 32 * 7 + 1, u32::MAX, 0];
    let recorded = || lines.iter().chain(&lines);
    let seen = seen::<32>(|tracer| {
        for line in recorded() {
            tracer.track().instant_with(FILE, |event| event.category(FILE).source_location(FILE, *line));
        }
    });
    let expected: Vec<_> = recorded().map(|line| (FILE.to_owned(), u64::from(*line))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn what_the_table_has_no_room_for_is_written_out() {
    let files = ["a.rs", "b.rs", "src/much/longer/than/a/number.rs"];
    let seen = seen::<3>(|tracer| {
        for _ in 0..2 {
            for (file, line) in files.iter().zip(200..) {
                tracer.track().instant_with("the name", |event| event.source_location(file, line));
            }
        }
    });
    let expected: Vec<_> = files.iter().map(|file| file.to_string()).zip(200..).collect();
    assert_eq!(seen, [&expected[..], &expected[..]].concat());
}

#[cfg(not(tracebuf_small))]
#[test]
fn a_known_place_takes_three_bytes() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    for _ in 0..2 {
        tracer.track().instant_with("here", |event| event.source_location(file!(), 70_000));
    }
    tracer.track().instant_with("here", |event| event);
    tracer.flush();
    let sizes: Vec<_> = model.packets(1).iter().flatten().map(Vec::len).collect();
    assert_eq!(sizes[sizes.len() - 2], sizes[sizes.len() - 1] + 3);
}
