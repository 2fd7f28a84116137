//! Fields and messages as writers encode them.

use crate::model::*;
use tracebuf::producer::*;

#[test]
fn nesting_too_deep_or_a_field_number_that_is_none_gives_the_packet_up() {
    fn nest(message: &mut MessageHandle<'_, '_>, depth: usize) {
        if depth > 0 {
            let mut inner = message.message(5);
            nest(&mut inner, depth - 1);
            inner.varint(4, depth as u64);
        }
    }
    let (model, mut writer) = only_writer(8, 256, Pace::Prompt, Exhaustion::Drop);
    nest(&mut writer.packet(), TraceWriter::MAX_NESTING);
    assert_eq!(writer.stats().dropped, 0);
    nest(&mut writer.packet(), TraceWriter::MAX_NESTING + 1);
    writer.packet().varint(0, 1);
    writer.packet().message(1 << 29).varint(1, 1);
    assert_eq!((writer.stats().dropped, writer.stats().over_limit), (3, 3));
    writer.packet().varint(8, 5);
    writer.flush();
    let packets = model.packets(1);
    assert_eq!(packets.iter().flatten().count(), 2);
    // Lost, and not for want of shared memory.
    assert_eq!(fields(packets[4].as_ref().unwrap()), [(42, Value::Int(1)), (8, Value::Int(5))]);
}

#[test]
fn all_kinds_of_fields_are_read_back_by_an_independent_decoder() {
    let (model, mut writer) = only_writer(8, 64, Pace::Prompt, Exhaustion::Drop);
    {
        let mut packet = writer.packet();
        for value in [0, 0x7F, 0x80, 0x3FFF, 0x1F_FFFF, 0x0FFF_FFFF, 0x1000_0000, u64::MAX >> 1, u64::MAX] {
            packet.varint(8, value);
        }
        packet.bool(2, true);
        packet.fixed64(47, u64::MAX - 1);
        packet.fixed32(3, 0xDEAD_BEEF);
        packet.double(44, -0.5);
        packet.formatted(6, format_args!("{:>4}|{}", 7, "x"));
        packet.varint((1 << 29) - 1, 3);
    }
    writer.flush();
    let all = fields(model.packets(1)[0].as_ref().unwrap());
    let ints: Vec<_> = all.iter().filter(|(f, _)| *f == 8).map(|(_, v)| v.clone()).collect();
    let expected =
        [0, 0x7F, 0x80, 0x3FFF, 0x1F_FFFF, 0x0FFF_FFFF, 0x1000_0000, u64::MAX >> 1, u64::MAX].map(Value::Int);
    assert_eq!(ints, expected);
    let rest = [
        (2, Value::Int(1)),
        (47, Value::Fixed(u64::MAX - 1)),
        (3, Value::Fixed(0xDEAD_BEEF)),
        (44, Value::Fixed((-0.5f64).to_bits())),
        (6, Value::Bytes(b"   7|x".to_vec())),
        ((1 << 29) - 1, Value::Int(3)),
    ];
    assert_eq!(all[10..], rest);
}

#[test]
fn numbers_of_every_length_take_as_few_bytes_as_they_can_wherever_the_chunk_ends() {
    let ends = (0..64).map(|bits| 1_u64 << bits).flat_map(|power| [power - 1, power]).chain([u64::MAX]);
    let values: Vec<u64> = ends.collect();
    let tags = [(1, 1), (15, 1), (16, 2), (2047, 2), (2048, 3), ((1 << 29) - 1, 5)];
    for first in 0..if cfg!(miri) { 1 } else { 24 } {
        let (model, mut writer) = only_writer(64, 56, Pace::Prompt, Exhaustion::Drop);
        {
            let mut packet = writer.packet();
            packet.bytes(900, &vec![0; first]);
            for (value, (field, _)) in values.iter().zip(tags.iter().cycle()) {
                packet.varint(*field, *value);
            }
        }
        writer.flush();
        let packet = model.packets(writer.id())[0].clone().unwrap();
        let written: Vec<_> = fields(&packet).into_iter().skip(2).collect();
        let expected = values.iter().zip(tags.iter().cycle());
        assert_eq!(
            written,
            expected.clone().map(|(value, (field, _))| (*field, Value::Int(*value))).collect::<Vec<_>>()
        );
        let bytes = |value: u64| (64 - (value | 1).leading_zeros() as usize).div_ceil(7);
        let len: usize = expected.map(|(value, (_, tag))| tag + bytes(*value)).sum();
        assert_eq!(packet.len(), 3 + (2 + 1 + first) + len);
    }
}

#[test]
fn text_that_is_formatted_takes_a_level_as_a_message_does() {
    fn nest(message: &mut MessageHandle<'_, '_>, depth: usize) {
        if depth == 0 {
            message.formatted(6, format_args!("x"));
        } else {
            nest(&mut message.message(5), depth - 1);
        }
    }
    let (_, mut writer) = only_writer(8, 256, Pace::Prompt, Exhaustion::Drop);
    nest(&mut writer.packet(), TraceWriter::MAX_NESTING - 1);
    assert_eq!(writer.stats().dropped, 0);
    nest(&mut writer.packet(), TraceWriter::MAX_NESTING);
    assert_eq!((writer.stats().dropped, writer.stats().over_limit), (1, 1));
}
