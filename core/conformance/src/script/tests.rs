//! Tests of scripts: lines that are operations, and lines that are none.

use super::*;

fn parse(line: &str) -> Result<Option<Op>, Malformed> {
    parse_line(line.as_bytes())
}

fn reason(line: &str) -> String {
    parse(line).expect_err(line).to_string()
}

#[test]
fn a_copy_carries_every_field_of_the_chunk() {
    let Ok(Some(Op::Copy { header, payload })) = parse("copy 0x10 2 4294967295 3 5 0 -1 -7 02aBff") else {
        panic!("a well-formed copy");
    };
    assert_eq!((header.producer_id, header.writer_id, header.chunk_id), (16, 2, u32::MAX));
    assert_eq!((header.fragments, header.complete), (3, false));
    assert_eq!(header.flags, ChunkFlags::CONTINUES_FROM_PREVIOUS | ChunkFlags::NEEDS_PATCHING);
    assert_eq!((header.uid, header.pid), (u32::MAX, -7));
    assert_eq!(payload, [2, 0xAB, 0xFF]);
}

#[test]
fn flags_beyond_the_three_of_a_producer_are_cut_off() {
    let Ok(Some(Op::Copy { header, .. })) = parse("copy 1 1 0 0 0xFFFFFF82 1 0 0 -") else {
        panic!("a well-formed copy");
    };
    assert_eq!(header.flags, ChunkFlags::CONTINUES_ON_NEXT);
}

#[test]
fn patch_offsets_reach_to_the_last_u64_and_are_cut_off_at_the_last_u32() {
    let Ok(Some(Op::Patch { patches, pending, .. })) =
        parse("patch 1 1 0 1 7:00010203,18446744073709551615:ffffffff")
    else {
        panic!("a well-formed patch");
    };
    assert!(pending);
    let expected = [Patch { offset: 7, data: [0, 1, 2, 3] }, Patch { offset: u32::MAX, data: [0xFF; 4] }];
    assert_eq!(patches, expected);
}

#[test]
fn a_patch_list_may_be_empty() {
    let Ok(Some(Op::Patch { patches, .. })) = parse("patch 1 1 0 0 -") else {
        panic!("a well-formed patch");
    };
    assert!(patches.is_empty());
}

#[test]
fn blanks_comments_and_line_ends_are_no_operations() {
    for line in ["", " \t ", "# new 4096 ring", "\r\n", "   # x"] {
        assert_eq!(parse(line), Ok(None), "{line:?}");
    }
    assert_eq!(parse("\tread # and so on\r\n"), Ok(Some(Op::Read)));
    assert_eq!(parse("stats#now"), Ok(Some(Op::Stats)));
}

#[test]
fn every_malformed_line_has_a_reason() {
    for (line, expected) in [
        ("reed", "no operation is called 'reed'"),
        ("new", "the size is missing"),
        ("new 4096", "the policy is missing"),
        ("new 4096 heap", "the policy is not ring or discard: 'heap'"),
        ("new 18446744073709551616 ring", "the size is out of range: '18446744073709551616'"),
        ("new -1 ring", "the size is out of range: '-1'"),
        ("new 0x ring", "the size is not a number: '0x'"),
        ("copy 65536 1 0 0 0 1 0 0 -", "the producer is out of range: '65536'"),
        ("copy 1 1 4294967296 0 0 1 0 0 -", "the chunk id is out of range: '4294967296'"),
        ("copy 1 1 0 65536 0 1 0 0 -", "the number of fragments is out of range: '65536'"),
        ("copy 1 1 0 0 0 2 0 0 -", "the complete mark is out of range: '2'"),
        ("copy 1 1 0 0 0 1 4294967296 0 -", "the uid is out of range: '4294967296'"),
        ("copy 1 1 0 0 0 1 0 2147483648 -", "the pid is out of range: '2147483648'"),
        ("copy 1 1 0 0 0 1 0 x -", "the pid is not a number: 'x'"),
        ("copy 1 1 0 0 0 1 0 0", "the payload is missing"),
        ("copy 1 1 0 0 0 1 0 0 abc", "the payload is not pairs of hex digits: 'abc'"),
        ("copy 1 1 0 0 0 1 0 0 0g", "the payload is not pairs of hex digits: '0g'"),
        ("patch 1 1 0 0", "the patch list is missing"),
        ("patch 1 1 0 0 5", "a patch is not OFFSET:HEX8: '5'"),
        ("patch 1 1 0 0 5:0011", "a patch is not OFFSET:HEX8: '5:0011'"),
        ("patch 1 1 0 0 5:00112233,", "a patch is not OFFSET:HEX8: ''"),
        (
            "patch 1 1 0 0 18446744073709551616:00112233",
            "the patch offset is out of range: '18446744073709551616'",
        ),
        ("readn +1", "the count is not a number: '+1'"),
        ("read 1", "the line should end before '1'"),
    ] {
        assert_eq!(reason(line), expected, "{line}");
    }
}

#[test]
fn a_long_or_binary_token_is_shown_short_and_printable() {
    let line = [&[0xFF, 0x1B][..], &[b'z'; 100]].concat();
    let message = parse_line(&line).expect_err("no such operation").to_string();
    assert!(message.chars().all(|c| !c.is_control()), "{message:?}");
    assert!(message.len() < 100, "{message}");
}

/// Every line that can be made by cutting, doubling and replacing bytes of good lines gets an answer.
#[test]
fn no_bytes_make_the_parser_panic() {
    let seeds: [&[u8]; 3] = [
        b"copy 1 2 3 4 5 0 -1 -1 0011ff",
        b"patch 1 2 3 1 0xFFFFFFFFFFFFFFFF:00112233,1:aabbccdd",
        b"new 0x10000 ring # made",
    ];
    let mut random = 42_u64;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    for round in 0..if cfg!(miri) { 50 } else { 20_000 } {
        let mut line = seeds[round % seeds.len()].to_vec();
        for _ in 0..1 + next() % 4 {
            let at = next() % line.len();
            match next() % 3 {
                0 => line[at] = next() as u8,
                1 => line.insert(at, b"0:-,x# \xFF"[next() % 8]),
                _ if line.len() > 1 => drop(line.remove(at)),
                _ => {}
            }
        }
        let _ = parse_line(&line);
    }
}
