//! Bytes at all offsets of words.

use super::*;
use crate::producer::atomics::atomic_words;
use std::{vec, vec::Vec};

fn put_bytes(cursor: &mut Cursor<'_>, bytes: &[u8]) {
    bytes.iter().for_each(|byte| cursor.put(u32::from(*byte), 1));
}

/// The payload.
fn bytes(words: &[AtomicU32]) -> Vec<u8> {
    (2..words.len()).flat_map(|i| load(words, i).to_le_bytes()).collect()
}

#[test]
fn bytes_put_in_any_pieces_are_the_same_bytes_in_memory() {
    let text: Vec<u8> = (1..=23).collect();
    for first in 0..8 {
        for piece in 1..=4 {
            let mut memory = [0xEEEE_EEEEu32; 8];
            let mut cursor = Cursor::new(atomic_words(&mut memory));
            put_bytes(&mut cursor, &text[..first]);
            for part in text[first..].chunks(piece) {
                let mut four = [0; 4];
                four[..part.len()].copy_from_slice(part);
                cursor.put(u32::from_le_bytes(four), part.len());
            }
            assert_eq!((cursor.pos(), cursor.room()), (8 + 23, 1));
            assert_eq!(bytes(cursor.words)[..23], text[..]);
        }
    }
}

#[test]
fn words_put_at_any_offset_are_their_first_bytes_up_to_the_chunks_last() {
    for before in 0..if cfg!(miri) { 4 } else { 8 } {
        for len in (1..=13).step_by(if cfg!(miri) { 6 } else { 1 }) {
            for room in [0, 1, 2, 3, 7, 8] {
                let total = (before + len + room) / 4 * 4;
                if total < before + len {
                    continue;
                }
                let mut memory = vec![0xEEEE_EEEEu32; 2 + total / 4];
                let mut cursor = Cursor::new(atomic_words(&mut memory));
                let first: Vec<u8> = (100..100 + before as u8).collect();
                put_bytes(&mut cursor, &first);
                let all: Vec<u8> = (1..=16).map(|i| if i <= len as u8 { i } else { 0 }).collect();
                let words =
                    core::array::from_fn(|i| u32::from_le_bytes(all[4 * i..][..4].try_into().unwrap()));
                cursor.put_words::<4>(words, len);
                assert_eq!(cursor.pos(), 8 + before + len);
                assert_eq!(bytes(cursor.words)[..before + len], [&first, &all[..len]].concat());
            }
        }
    }
}

#[test]
fn a_size_field_shrinks_to_one_byte_at_any_offset() {
    for field in 0..if cfg!(miri) { 4 } else { 9 } {
        for size in (0..14).step_by(if cfg!(miri) { 3 } else { 1 }) {
            let mut memory = [0xEEEE_EEEEu32; 10];
            let mut cursor = Cursor::new(atomic_words(&mut memory));
            let before: Vec<u8> = (100..100 + field as u8).collect();
            let after: Vec<u8> = (1..=size as u8).collect();
            put_bytes(&mut cursor, &before);
            cursor.put(0, 4);
            put_bytes(&mut cursor, &after);
            cursor.compact(8 + field, size);
            cursor.put(0xAB, 1);
            let expected = [before, vec![size as u8], after, vec![0xAB]].concat();
            assert_eq!(bytes(cursor.words)[..expected.len()], expected[..]);
            assert_eq!(cursor.pos(), 8 + expected.len());
        }
    }
}

#[cfg(not(tracebuf_small))]
#[test]
fn what_is_moved_on_is_the_same_behind_its_new_place_and_before_its_old_one() {
    for from in 8..if cfg!(miri) { 12 } else { 16 } {
        for len in (0..14).step_by(if cfg!(miri) { 3 } else { 1 }) {
            for by in [3, 6] {
                let mut memory = [0xEEEE_EEEEu32; 12];
                let mut cursor = Cursor::new(atomic_words(&mut memory));
                let text: Vec<u8> = (1..=from as u8 + len as u8).collect();
                put_bytes(&mut cursor, &text);
                cursor.make_place(8 + from, by);
                assert_eq!(cursor.pos(), 8 + text.len() + by);
                let all = bytes(cursor.words);
                assert_eq!((&all[..from], &all[from + by..][..len]), text.split_at(from));
            }
        }
    }
}

#[test]
fn a_size_field_is_filled_at_any_offset_and_writing_goes_on() {
    for offset in 0..8 {
        let mut memory = [0u32; 6];
        let mut cursor = Cursor::new(atomic_words(&mut memory));
        put_bytes(&mut cursor, &[9; 12]);
        cursor.put(7, 1);
        cursor.fill_size(8 + offset, 0x0123_4567);
        cursor.put(8, 1);
        let mut expected = [9; 14];
        expected[offset..offset + 4].copy_from_slice(&[0xE7, 0x8A, 0x8D, 0x09]);
        expected[12..].copy_from_slice(&[7, 8]);
        assert_eq!(bytes(cursor.words)[..14], expected[..]);
    }
}

#[test]
fn fragments_are_counted_in_the_header_up_to_the_most_it_may_say() {
    let header = SmbChunkHeader { chunk_id: 7, writer_id: 2, fragments: 1021, ..SmbChunkHeader::default() };
    let mut memory = header.to_words().map(u32::to_le);
    let cursor = Cursor::new(atomic_words(&mut memory));
    assert!(cursor.count_fragment(1022) && !cursor.count_fragment(1022));
    let words = [0, 1].map(|index| load(cursor.words, index));
    assert_eq!(SmbChunkHeader::from_words(words), SmbChunkHeader { fragments: 1022, ..header });
}

#[test]
fn varints_are_those_of_the_format() {
    for bits in 0..64 {
        for value in [(1 << bits) - 1, 1 << bits, u64::MAX >> bits] {
            let (words, len) = varint_words(value);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let number =
                bytes[..len].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7F));
            assert_eq!(number, value);
            assert!(bytes[..len - 1].iter().all(|byte| byte & 0x80 != 0) && bytes[len - 1] & 0x80 == 0);
            assert!(bytes[len..].iter().all(|byte| *byte == 0) && (len == 1 || bytes[len - 1] != 0));
        }
    }
}

#[test]
fn redundant_varints_are_those_of_the_format() {
    assert_eq!(redundant_varint(1).to_le_bytes(), [0x81, 0x80, 0x80, 0x00]);
    assert_eq!(redundant_varint(0x0FFF_FFFF).to_le_bytes(), [0xFF, 0xFF, 0xFF, 0x7F]);
}
