//! Tests of the validator, against a plain parser.

use super::*;
use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

fn fault(packet: &[u8]) -> Option<Fault> {
    check(packet).err().map(|invalid| invalid.fault)
}

fn check(packet: &[u8]) -> Result<ValidPacket, InvalidPacket> {
    PacketValidator::check([packet])
}

/// The rules once more, over joined bytes, one byte at a time and with arithmetic of 128 bits.
fn oracle(packet: &[u8]) -> Result<ValidPacket, InvalidPacket> {
    fn varint(bytes: &mut &[u8], limit: usize, too_long: Fault) -> Result<u128, Fault> {
        let mut value = 0_u128;
        for index in 0..limit {
            let (&byte, rest) = bytes.split_first().ok_or(Fault::Truncated)?;
            *bytes = rest;
            value += u128::from(byte % 128) << (7 * index);
            if byte < 128 {
                return if value < 1 << 64 { Ok(value) } else { Err(too_long) };
            }
        }
        Err(too_long)
    }
    fn field(bytes: &mut &[u8], dropped: &mut u32) -> Result<(), Fault> {
        let tag = varint(bytes, 5, Fault::TagTooLarge)?;
        if tag >= 1 << 32 {
            return Err(Fault::TagTooLarge);
        }
        let (number, wire_type) = ((tag / 8) as u32, (tag % 8) as u8);
        if number == 0 {
            return Err(Fault::FieldNumberZero);
        }
        if ![0, 1, 2, 5].contains(&wire_type) {
            return Err(Fault::WireType(wire_type));
        }
        if [3, 10, 33, 35, 36, 50, 133, 69, 79, 98, 124, 125].contains(&number) {
            return Err(Fault::ServiceOnlyField(number));
        }
        let size = match wire_type {
            0 => {
                let value = varint(bytes, 10, Fault::VarintTooLong)?;
                if number == 42 {
                    *dropped = value as u32;
                }
                0
            }
            1 => 8,
            5 => 4,
            _ => varint(bytes, 5, Fault::LengthTooLarge)?,
        };
        if size > 0x0FFF_FFFF {
            return Err(Fault::LengthTooLarge);
        }
        *bytes = bytes.get(size as usize..).ok_or(Fault::Truncated)?;
        Ok(())
    }
    let (mut rest, mut dropped) = (packet, 0);
    while !rest.is_empty() {
        let offset = packet.len() - rest.len();
        field(&mut rest, &mut dropped).map_err(|fault| InvalidPacket { fault, offset })?;
    }
    Ok(ValidPacket { len: packet.len(), previous_packet_dropped: dropped })
}

/// One packet of every kind of field there is, and redundant forms of each varint.
fn rich_packet() -> Vec<u8> {
    let mut packet = vec![0x40, 0xAC, 0x02]; // 8, two bytes of value
    packet.extend([0x5A, 0x83, 0x80, 0x80, 0x00, 0x40, 0xFF, 0xFF]); // 11, a redundant length
    packet.extend([0xC9, 0x80, 0x80, 0x80, 0x00, 1, 2, 3, 4, 5, 6, 7, 8]); // 9, a redundant tag, fixed64
    packet.extend([0xD0, 0x02, 0x81, 0x82, 0x00]); // 42 = 257
    packet.extend([0xFD, 0xFF, 0xFF, 0xFF, 0x0F, 1, 2, 3, 4]); // 2^29 - 1, fixed32
    packet.extend([0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]); // 2 = -1
    packet.extend([0x62, 0x00]); // 12, empty
    packet
}

#[test]
fn a_packet_with_every_kind_of_field_is_valid_and_tells_what_was_dropped() {
    let packet = rich_packet();
    assert_eq!(check(&packet), Ok(ValidPacket { len: packet.len(), previous_packet_dropped: 257 }));
    assert_eq!(check(&[]), Ok(ValidPacket::default()));
}

#[test]
fn every_field_of_the_service_is_refused_whatever_its_wire_type() {
    let ours = [3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133];
    for number in 1..if cfg!(miri) { 140 } else { 1000_u32 } {
        // Some of the others.
        if cfg!(miri) && !ours.contains(&number) && number % 8 != 0 {
            continue;
        }
        let wire_types = [(0, &[0][..]), (1, &[0; 8]), (2, &[1, 0]), (5, &[0; 4])];
        for (wire_type, value) in wire_types.into_iter().skip(if cfg!(miri) { 2 } else { 0 }) {
            let mut packet = vec![0x40, 0x01];
            let mut tag = [0; 5];
            let len = varint::encode(u64::from(number << 3 | wire_type), &mut tag).unwrap();
            packet.extend_from_slice(&tag[..len]);
            packet.extend_from_slice(value);
            let expected = ours
                .contains(&number)
                .then_some(InvalidPacket { fault: Fault::ServiceOnlyField(number), offset: 2 });
            assert_eq!(check(&packet).err(), expected);
        }
    }
}

#[test]
fn a_field_of_the_service_within_another_message_is_not_its_own() {
    assert_eq!(fault(&[0x5A, 2, 0x18, 0]), None);
}

#[test]
fn a_tag_above_32_bits_is_refused_though_its_low_bits_are_harmless() {
    // 2^35 + (8 << 3): the low 32 bits are the timestamp's tag.
    assert_eq!(fault(&[0xC0, 0x80, 0x80, 0x80, 0x80, 0x01, 0]), Some(Fault::TagTooLarge));
    // 2^32 + (8 << 3), still five bytes.
    assert_eq!(fault(&[0xC0, 0x80, 0x80, 0x80, 0x10, 0]), Some(Fault::TagTooLarge));
    // Field number 2^29.
    assert_eq!(fault(&[0x80, 0x80, 0x80, 0x80, 0x10, 0]), Some(Fault::TagTooLarge));
    // Bits above the 64th, which decoding alone would drop.
    assert_eq!(
        fault(&[0xC0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0]),
        Some(Fault::TagTooLarge)
    );
}

#[test]
fn tags_and_lengths_of_five_bytes_are_accepted_and_of_six_refused() {
    assert_eq!(fault(&[0xC0, 0x80, 0x80, 0x80, 0x00, 5]), None);
    assert_eq!(fault(&[0xC0, 0x80, 0x80, 0x80, 0x80, 0x00, 5]), Some(Fault::TagTooLarge));
    assert_eq!(fault(&[0x5A, 0x80, 0x80, 0x80, 0x80, 0x00]), None);
    assert_eq!(fault(&[0x5A, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), Some(Fault::LengthTooLarge));
}

#[test]
fn field_number_zero_is_refused_with_each_wire_type() {
    for wire_type in 0..8 {
        assert_eq!(fault(&[wire_type, 0]), Some(Fault::FieldNumberZero));
        assert_eq!(fault(&[wire_type | 0x80, 0, 0]), Some(Fault::FieldNumberZero));
    }
}

#[test]
fn groups_and_wire_types_that_do_not_exist_are_refused() {
    for wire_type in [3, 4, 6, 7] {
        assert_eq!(fault(&[8 << 3 | wire_type, 0]), Some(Fault::WireType(wire_type)));
    }
}

#[test]
fn a_value_may_take_ten_bytes_and_not_eleven() {
    let mut packet = vec![0x40];
    packet.extend([0xFF; 9]);
    packet.push(0x01);
    assert_eq!(fault(&packet), None);
    packet[10] = 0x81;
    assert_eq!(fault(&packet), Some(Fault::VarintTooLong));
    packet.push(0);
    assert_eq!(fault(&packet), Some(Fault::VarintTooLong));
}

#[test]
fn a_value_above_64_bits_is_refused_wherever_it_is_cut() {
    let mut packet = vec![0x40, 5, 0xD0, 0x02];
    packet.extend([0x81; 9]);
    packet.push(0);
    // Interpreted only around the limit.
    for last in 0..if cfg!(miri) { 4 } else { 0x80 } {
        packet[13] = last;
        let invalid = InvalidPacket { fault: Fault::VarintTooLong, offset: 2 };
        let expected = (last > 1).then_some(invalid);
        assert_eq!(check(&packet).err(), expected, "a tenth byte of {last}");
        for cut in 0..packet.len() {
            let (a, b) = packet.split_at(cut);
            assert_eq!(PacketValidator::check([a, b]).err(), expected, "{last}, cut at {cut}");
        }
    }
}

#[test]
fn a_length_above_256_mib_is_refused_before_its_contents_are_awaited() {
    assert_eq!(fault(&[0x5A, 0xFF, 0xFF, 0xFF, 0x7F]), Some(Fault::Truncated));
    assert_eq!(fault(&[0x5A, 0x80, 0x80, 0x80, 0x80, 0x01]), Some(Fault::LengthTooLarge));
    assert_eq!(fault(&[0x5A, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]), Some(Fault::LengthTooLarge));
}

#[test]
fn the_longest_length_is_stepped_over_across_many_fragments() {
    let contents = vec![0x18; if cfg!(miri) { 1 << 22 } else { 1 << 16 }];
    let mut validator = PacketValidator::new();
    validator.push(&[0x5A, 0xFF, 0xFF, 0xFF, 0x7F]).unwrap();
    let mut left = MAX_LENGTH as usize;
    while left > 0 {
        let now = left.min(contents.len());
        assert_eq!(validator.finish().unwrap_err().fault, Fault::Truncated);
        validator.push(&contents[..now]).unwrap();
        left -= now;
    }
    assert_eq!(validator.finish().unwrap().len, MAX_LENGTH as usize + 5);
    assert_eq!(validator.push(&[0x18]).unwrap_err().offset, MAX_LENGTH as usize + 5);
}

#[test]
fn the_last_previous_packet_dropped_counts_as_in_every_decoder() {
    let dropped = |packet: &[u8]| check(packet).unwrap().previous_packet_dropped;
    assert_eq!(dropped(&[0xD0, 0x02, 5, 0xD0, 0x02, 3]), 3);
    assert_eq!(dropped(&[0xD0, 0x02, 0x80, 0x80, 0x80, 0x80, 0x10]), 0, "only 32 bits are kept");
    assert_eq!(dropped(&[0xD2, 0x02, 1, 5]), 0, "of another wire type it is another field");
}

#[test]
fn a_fault_stays_and_points_to_its_field() {
    let mut validator = PacketValidator::new();
    validator.push(&[0x40, 0x01, 0x5A]).unwrap();
    validator.push(&[0x00, 0x9B]).unwrap();
    let error = validator.push(&[0x00, 0x40, 0x01]).unwrap_err();
    assert_eq!(error, InvalidPacket { fault: Fault::WireType(3), offset: 4 });
    assert_eq!(validator.push(&[0x40]), Err(error));
    assert_eq!(validator.push(&[]), Err(error));
    assert_eq!(validator.finish(), Err(error));
    assert_eq!(format!("{error}"), "wire type 3, at byte 4 of the packet");
}

#[test]
fn wherever_a_packet_is_cut_the_verdict_is_the_same() {
    let mut packet = rich_packet();
    packet.extend([0x40, 1, 0x18, 0]);
    // Each prefix, valid or truncated, and the whole, which holds a forbidden field.
    for end in (0..=packet.len()).rev().step_by(if cfg!(miri) { 3 } else { 1 }) {
        let packet = &packet[..end];
        let whole = check(packet);
        assert_eq!(whole, oracle(packet), "{end} bytes");
        assert_eq!(PacketValidator::check(packet.chunks(1)), whole, "{end} bytes one by one");
        for cut in (0..=end).step_by(if cfg!(miri) { 23 } else { 1 }) {
            let (a, b) = packet.split_at(cut);
            assert_eq!(PacketValidator::check([a, b]), whole, "{end} bytes cut at {cut}");
            if cfg!(miri) {
                continue;
            }
            for second in 0..=b.len() {
                let (b, c) = b.split_at(second);
                assert_eq!(PacketValidator::check([a, b, c]), whole);
            }
        }
    }
}

#[test]
fn all_packets_of_up_to_three_bytes_are_judged_as_the_rules_say() {
    // A prime step samples them under an interpreter.
    let step = if cfg!(miri) { 200_003 } else { 1 };
    for number in (0..1_u32 << 24).step_by(step) {
        let bytes = number.to_be_bytes();
        let packet = &bytes[1..];
        let expected = oracle(packet);
        assert_eq!(check(packet), expected, "{packet:x?}");
        if number % 16 == 0 || cfg!(miri) {
            assert_eq!(PacketValidator::check(packet.chunks(1)), expected, "{packet:x?}");
        }
        if number < 1 << 16 {
            let packet = &bytes[2..];
            assert_eq!(check(packet), oracle(packet), "{packet:x?}");
        }
        if number < 1 << 8 {
            let packet = &bytes[3..];
            assert_eq!(check(packet), oracle(packet), "{packet:x?}");
        }
    }
}

/// Bytes that are likely to mean something: tags, ends and continuations of varints.
fn telling_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(vec![0, 1, 2, 4, 8, 0x0F, 0x10, 0x18, 0x40, 0x5A, 0x5D, 0x79, 0x7F]),
        4 => prop::sample::select(vec![0x80, 0x81, 0xC0, 0xD0, 0xD2, 0xFF]),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..40)
}

/// Whole fields one after the other, mostly valid.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(42), 1..140_u32, Just((1 << 29) - 1)];
    let field = (number, any::<u64>(), 0..5_u32, prop::collection::vec(any::<u8>(), 0..12));
    prop::collection::vec(field, 0..6).prop_map(|fields| {
        use crate::proto::{Encoder, Sink};
        let mut memory = [0; 256];
        let mut out = Encoder::new(&mut memory);
        for (number, value, kind, bytes) in fields {
            match kind {
                0 => out.varint(number, value >> (value % 64)),
                1 => out.fixed64(number, value),
                2 => out.bytes(number, &bytes),
                3 => out.nested(number, |inner| inner.put(&bytes)),
                _ => out.put(&[0xCD, 0x07, 1, 2, 3, 4]), // field 121, fixed32
            }
            .unwrap();
        }
        out.finish().unwrap().to_vec()
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 4096 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_packets_in_random_fragments_are_judged_as_the_rules_say(
        packet in prop_oneof![telling_bytes(), fields()],
        cut in 0..usize::MAX,
        cuts in prop::collection::vec(0..8_usize, 0..30),
    ) {
        let cut = cut % (packet.len() + 1);
        for packet in [&packet[..], &packet[..cut]] {
            let expected = oracle(packet);
            prop_assert_eq!(check(packet), expected);
            let (mut rest, mut validator) = (packet, PacketValidator::new());
            for &len in &cuts {
                let (fragment, after) = rest.split_at(len.min(rest.len()));
                let _ = validator.push(fragment);
                rest = after;
            }
            let _ = validator.push(rest);
            prop_assert_eq!(validator.finish(), expected);
        }
    }
}
