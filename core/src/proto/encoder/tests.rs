//! Tests of the encoder: each kind of field, and slices that are too short.

use super::*;
use crate::proto::Message;
use std::vec::Vec;

struct Sample;

impl Message for Sample {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(1, 0)?;
        out.varint((1 << 29) - 1, u64::MAX)?;
        out.int(2, -1)?;
        out.bool(3, true)?;
        out.double(44, 1.5)?;
        out.fixed64(47, 0x0102_0304_0506_0708)?;
        out.string(23, "name")?;
        out.bytes(4, &[])?;
        out.packed(5, [1, 300].into_iter())?;
        out.packed(6, core::iter::empty())
    }
}

const SAMPLE: &[u8] = &[
    0x08, 0x00, // 1
    0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, // 2^29-1
    0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, // 2
    0x18, 0x01, // 3
    0xE1, 0x02, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, // 44
    0xF9, 0x02, 8, 7, 6, 5, 4, 3, 2, 1, // 47
    0xBA, 0x01, 4, b'n', b'a', b'm', b'e', // 23
    0x22, 0, // 4
    0x2A, 3, 1, 0xAC, 0x02, // 5
];

#[test]
fn each_kind_of_field_is_written_as_protobuf_says() {
    let mut memory = [0xEE; 128];
    let mut out = Encoder::new(&mut memory);
    Sample.encode(&mut out).unwrap();
    assert_eq!(out.len(), SAMPLE.len());
    assert_eq!(out.finish().unwrap(), SAMPLE);
    assert_eq!(Sample.encoded_len(), SAMPLE.len());
}

#[test]
fn a_message_has_the_shortest_length_and_a_nested_one_four_bytes_of_it() {
    let mut memory = [0; 200];
    let mut out = Encoder::new(&mut memory);
    out.message(11, &Sample).unwrap();
    out.nested(11, |inner| Sample.encode(inner)).unwrap();
    let size = SAMPLE.len() as u8;
    let expected: Vec<u8> = [&[0x5A, size], SAMPLE, &[0x5A, size | 0x80, 0x80, 0x80, 0x00], SAMPLE].concat();
    assert_eq!(out.finish().unwrap(), expected);
}

#[test]
fn a_slice_of_any_length_too_short_overflows_and_stays_overflown() {
    let whole = 2 * SAMPLE.len() + 2 + 5;
    for room in (0..=whole).rev().step_by(if cfg!(miri) { 4 } else { 1 }) {
        let mut memory = [0xEE; 200];
        let mut out = Encoder::new(&mut memory[..room]);
        let first = out.message(11, &Sample);
        let second = out.nested(11, |inner| Sample.encode(inner));
        assert_eq!(first.and(second).is_ok(), room == whole, "room {room}");
        if room < whole {
            assert_eq!(out.put(&[]), Err(Overflow), "after an overflow nothing is taken, not even nothing");
        }
        assert_eq!(out.finish().is_ok(), room == whole);
        assert!(memory[room..].iter().all(|&byte| byte == 0xEE));
    }
}

#[test]
fn a_nested_message_that_gives_up_spoils_the_whole() {
    let mut memory = [0; 64];
    let mut out = Encoder::new(&mut memory);
    assert_eq!(out.nested(1, |_| Err(Overflow)), Err(Overflow));
    assert_eq!(out.finish(), Err(Overflow));
}

#[test]
fn nested_messages_nest() {
    let mut memory = [0; 64];
    let mut out = Encoder::new(&mut memory);
    out.nested(1, |a| a.nested(2, |b| b.nested(3, |c| c.varint(4, 5)))).unwrap();
    let expected = [10, 0x8C, 0x80, 0x80, 0, 18, 0x87, 0x80, 0x80, 0, 26, 0x82, 0x80, 0x80, 0, 32, 5];
    assert_eq!(out.finish().unwrap(), expected);
}

#[test]
fn an_encoder_and_a_measure_are_empty_until_something_was_put() {
    let mut memory = [0; 8];
    let (mut encoder, mut measure) = (Encoder::new(&mut memory), crate::proto::Measure::default());
    assert!(encoder.is_empty() && measure.is_empty());
    encoder.varint(8, 1).unwrap();
    measure.varint(8, 1).unwrap();
    assert!(!encoder.is_empty() && !measure.is_empty());
}

#[test]
fn behind_a_field_that_did_not_fit_nothing_fits_though_there_is_room() {
    let mut memory = [0; 8];
    let mut encoder = Encoder::new(&mut memory);
    assert_eq!(encoder.varint(1, u64::MAX), Err(Overflow));
    assert_eq!(encoder.varint(1, 1), Err(Overflow));
    assert_eq!(encoder.finish(), Err(Overflow));

    let mut encoder = Encoder::new(&mut memory);
    let ignored = encoder.nested(1, |inside| {
        let _ = inside.varint(1, u64::MAX);
        Ok(())
    });
    assert_eq!(ignored, Err(Overflow));
}
