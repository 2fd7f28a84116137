//! Annotations of all values, wherever in a chunk they begin.

use crate::event_reader::{Seen, read};
use crate::model::{self, Pace, chunk_a_page};
use crate::track_events::{CONFIG, MAIN, Ticks};
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

const TEXT: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-abcdefghijklmnopqrstuvwxyz\
    0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ=abcdefghijklmnopqrstuvwxyz";

/// The least and the largest number of each varint length, and text lengths around one byte's limits.
fn values() -> Vec<Value<'static>> {
    let numbers = (0..=64).step_by(7).flat_map(|bits| {
        let least = 1_u64.checked_shl(bits).unwrap_or(0);
        [least.wrapping_sub(1), least]
    });
    let numbers = numbers.flat_map(|number| {
        [Value::Uint(number), Value::Int((number as i64).wrapping_neg()), Value::Pointer(!number)]
    });
    let texts = [0, 1, 2, 3, 4, 5, 8, 31, 120, 121, 122, 123, 124, 127, 128, 150];
    let texts = texts.map(|len| Value::Str(&TEXT[..len]));
    let others = [Value::Bool(true), Value::Bool(false), Value::Double(0.1), Value::Double(f64::NAN)];
    numbers.chain(texts).chain(others).collect()
}

fn field(value: Value<'_>) -> (u32, model::Value) {
    match value {
        Value::Bool(value) => (2, model::Value::Int(value.into())),
        Value::Uint(value) => (3, model::Value::Int(value)),
        Value::Int(value) => (4, model::Value::Int(value as u64)),
        Value::Double(value) => (5, model::Value::Fixed(value.to_bits())),
        Value::Str(value) => (6, model::Value::Bytes(value.as_bytes().to_vec())),
        Value::Pointer(value) => (7, model::Value::Int(value)),
    }
}

#[test]
fn a_value_is_the_same_at_any_place_of_a_chunk_and_over_its_end() {
    let (values, step) = (values(), if cfg!(miri) { 29 } else { 1 });
    // Without patches chunks as long as the longest packet are large enough.
    let chunk = if cfg!(feature = "patches") { 128 } else { 1020 };
    for before in (0..128).step_by(step) {
        let (model, producer) = chunk_a_page(64, chunk, Pace::Prompt);
        let writer = producer.writer(40, Exhaustion::Stall).unwrap();
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
        let filler = "x".repeat(before as usize);
        let mut expected = vec![];
        for pair in values.windows(2) {
            // Names whose numbers take one byte, and a name that is written out.
            tracer.track().instant_with(["known", ""][expected.len() % 2], |event| {
                if expected.len() % 7 == 0 {
                    event.name(&filler);
                }
                event.arg("one", pair[0]).arg("other", pair[1])
            });
            expected.push([field(pair[0]), field(pair[1])]);
        }
        assert_eq!(tracer.stats().writer.dropped, 0);
        drop(tracer);
        model.drain();
        producer.commit();
        let reader = read(model, 1);
        let annotations = |event: &Seen| {
            let annotations = event.rest.iter().filter(|(number, _)| *number == 4);
            annotations.map(|(_, value)| value.inside()).collect::<Vec<_>>()
        };
        assert_eq!(reader.seen.len(), expected.len());
        for (seen, expected) in reader.seen.iter().zip(expected) {
            let (told, keys) = (annotations(seen), ["one", "other"]);
            assert_eq!(told.len(), 2);
            for ((annotation, expected), key) in told.iter().zip(expected).zip(keys) {
                let [(1, model::Value::Int(iid)), value] = &annotation[..] else { panic!("{annotation:?}") };
                assert_eq!((reader.names[&(3, *iid)].as_str(), value), (key, &expected));
            }
        }
    }
}

#[test]
fn an_event_is_whole_whatever_its_size_and_wherever_in_a_chunk_it_begins() {
    // Sizes of one byte are for less than 127 bytes; and 12 bytes are kept at a chunk's end.
    let (lens, step) = (60..140, if cfg!(miri) { 17 } else { 1 });
    for before in (0..64).step_by(step) {
        let (model, producer) = chunk_a_page(256, 1020, Pace::Prompt);
        let writer = producer.writer(40, Exhaustion::Stall).unwrap();
        let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
        tracer.track().instant_with("", |event| event.name(&"x".repeat(before)));
        for len in lens.clone().step_by(step) {
            tracer.track().instant_with("known", |event| {
                event.arg("one", &TEXT[..len / 2]).arg_fmt("other", format_args!("{}", &TEXT[len / 2..len]))
            });
            model.scrape();
        }
        drop(tracer);
        model.drain();
        producer.commit();
        let reader = read(model, 1);
        assert_eq!(reader.seen.len(), 1 + lens.clone().step_by(step).count());
        for (seen, len) in reader.seen.iter().skip(1).zip(lens.clone().step_by(step)) {
            let annotations = seen.rest.iter().filter(|(number, _)| *number == 4);
            let told = annotations.map(|(_, value)| value.inside()).collect::<Vec<_>>();
            let values: Vec<_> = told.iter().filter_map(|fields| fields.last().cloned()).collect();
            assert_eq!(values, [field(Value::Str(&TEXT[..len / 2])), field(Value::Str(&TEXT[len / 2..len]))]);
        }
    }
}

#[test]
fn a_key_that_is_made_when_it_is_needed_is_written_out() {
    let (model, producer) = chunk_a_page(64, 1020, Pace::Prompt);
    let tracer =
        Tracer::new(producer.writer(40, Exhaustion::Stall).unwrap(), Ticks::default(), &MAIN, CONFIG);
    for number in 0..3u64 {
        tracer.track().instant_with("known", |event| event.named_arg(&format!("key {number}"), number));
    }
    drop(tracer);
    model.drain();
    producer.commit();
    let reader = read(model, 1);
    assert_eq!(reader.seen.len(), 3);
    for (seen, number) in reader.seen.iter().zip(0u64..) {
        let (_, annotation) = seen.rest.iter().find(|(number, _)| *number == 4).expect("an annotation");
        let key = model::Value::Bytes(format!("key {number}").into_bytes());
        assert_eq!(annotation.inside(), [(10, key), (3, model::Value::Int(number))]);
    }
}
