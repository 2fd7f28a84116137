//! Generated seeds: one for each thing that a buffer has to cope with.

use crate::ops::{Op, Setup};

/// A target, the seed's name, its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// All seeds that are not written by hand.
pub fn all() -> Vec<Seed> {
    let named = |target: &'static str, seeds: Vec<(&'static str, Vec<u8>)>| {
        seeds.into_iter().map(move |(name, bytes)| (target, name.to_owned(), bytes))
    };
    named("ops", ops())
        .chain(named("commit", commit()))
        .chain(named("smb", smb()))
        .chain(named("validator", validator()))
        .chain(named("attach", attach()))
        .chain(named("differential", differential()))
        .chain(named("receive", receive()))
        .chain(named("sockets", sockets()))
        .chain(named("vm", vm()))
        .collect()
}

fn produce(writer: u8, how: u8, sizes: &[u8]) -> Op {
    Op::Produce { writer, how, sizes: sizes.to_vec() }
}

const READ: Op = Op::Read { limit: 255, reject: 0 };

/// Bits of a chunk's `how`.
const ON: u8 = 1;
const PATCHES: u8 = 2;
const ABORT: u8 = 4;
const KEPT: u8 = 8;
const SLACK: u8 = 0x60;

fn ops() -> Vec<(&'static str, Vec<u8>)> {
    let ring = Setup { ring: 100, layout: 3, mode: 4 };
    let small = Setup { ring: 16, layout: 3, mode: 4 };
    let wrapping_ids = Setup { mode: 6, ..ring };
    let discard = Setup { layout: 0x83, ..ring };
    let misaligned = Setup { layout: 0x5C, mode: 0, ..ring };
    let keeper = Setup { mode: 8, ..small };
    let script = |setup: Setup, ops: &[Op]| {
        let mut bytes = setup.to_bytes();
        ops.iter().for_each(|op| bytes.extend(op.to_bytes()));
        bytes
    };
    let back = |back: u8| Op::Commit { writer: 0, back, how: 0 };
    let scrape = |back: u8, fragments: u8| Op::Scrape { writer: 0, back, how: fragments << 3 };
    let lapped: Vec<Op> = (0..12).map(|i| produce(i % 3, 0, &[20, 9, 30])).chain([READ]).collect();
    let split = [
        produce(0, ON, &[9, 20]),
        produce(0, ON, &[40]),
        produce(0, 0, &[12, 8]),
        Op::Read { limit: 1, reject: 1 },
        READ,
    ];
    let patched = [
        produce(0, ON | PATCHES, &[9, 20]),
        READ,
        produce(0, 0, &[10]),
        Op::Patch { writer: 0, back: 1, how: 1 },
        READ,
        Op::Patch { writer: 0, back: 1, how: 0 },
        READ,
    ];
    let scraped = [
        produce(0, KEPT | SLACK, &[9, 20, 30]),
        scrape(0, 2),
        READ,
        scrape(0, 3),
        produce(1, 0, &[60]),
        READ,
        back(0),
        READ,
    ];
    let disordered = [
        produce(0, KEPT | ON, &[9, 20]),
        produce(0, KEPT, &[20, 30]),
        produce(0, KEPT, &[0, 5]),
        back(2),
        back(0),
        Op::Read { limit: 1, reject: 0 },
        back(1),
        READ,
    ];
    let aborted = [produce(0, ON, &[9, 20]), produce(0, ABORT, &[9]), produce(0, 0, &[9]), READ];
    let readmitted = [
        produce(0, KEPT | SLACK, &[9, 20, 30]),
        scrape(0, 2),
        Op::Read { limit: 1, reject: 0 },
        produce(1, 0, &[200]),
        produce(2, 0, &[200]),
        back(0),
        READ,
    ];
    let leased = [
        produce(0, 0, &[9, 20]),
        produce(0, ON, &[40]),
        produce(0, 0, &[40]),
        Op::Lease { limit: 3 },
        Op::Hostile { writer: 1, step: 1, fragments: 9, flags: 0x18, payload: vec![0xFF; 60] },
        Op::GiveUp { index: 1 },
        produce(1, 0, &[250]),
        produce(0, 0, &[9]),
        READ,
    ];
    let cloned = [produce(0, 0, &[9, 20]), Op::Clone { offset: 3 }, READ, Op::Clone { offset: 0 }];
    let hostile = [
        produce(0, 0, &[9, 20]),
        Op::Hostile { writer: 2, step: 1, fragments: 3, flags: 2, payload: vec![1, 9, 2, 9, 9, 0x80] },
        Op::Hostile { writer: 2, step: 0x80, fragments: 3, flags: 0x3B, payload: vec![1, 9, 2, 9, 9, 4, 5] },
        Op::Hostile { writer: 0, step: 1, fragments: 3, flags: 8, payload: vec![1, 9] },
        Op::HostilePatch { writer: 2, step: 0, offset: 0, data: 0x7F },
        READ,
    ];
    vec![
        ("a_lap", script(small, &lapped)),
        ("a_lap_kept_by_the_observer", script(keeper, &lapped)),
        ("a_full_discard_buffer", script(Setup { layout: 0x83, ..small }, &lapped)),
        ("split_and_rejected", script(ring, &split)),
        ("split_over_wrapping_ids", script(wrapping_ids, &split)),
        ("patched_in_two_steps", script(ring, &patched)),
        ("scraped_then_committed", script(ring, &scraped)),
        ("scraped_in_a_discard_buffer", script(discard, &scraped)),
        ("out_of_order", script(misaligned, &disordered)),
        ("given_up", script(ring, &aborted)),
        ("erased_and_back", script(Setup { ring: 120, ..ring }, &readmitted)),
        ("leased", script(ring, &leased)),
        ("cloned", script(misaligned, &cloned)),
        ("hostile", script(small, &hostile)),
    ]
}

fn commit() -> Vec<(&'static str, Vec<u8>)> {
    // Kind, writer, id, fragments, size, payload, and how the memory changes.
    let chunk = |kind: u8, who: u8, id: u8, fragments: u8, payload: &[u8]| {
        let mut record = vec![kind, who, id, fragments, payload.len() as u8];
        record.extend(payload);
        if kind & 1 != 0 {
            record.push(0);
        }
        record
    };
    let with = |size: u16, layout: u8, records: &[Vec<u8>]| {
        let mut bytes = size.to_le_bytes().to_vec();
        bytes.push(layout);
        bytes.extend(records.concat());
        bytes
    };
    let whole = chunk(0, 0x05, 0, 2, b"\x02hi\x05there");
    let begin = chunk(0, 0x25, 1, 1, b"\x03one");
    let end = chunk(1, 0x15, 2, 1, b"\x03two\xEE\xEE");
    let scraped = chunk(2, 0x05, 3, 2, b"\x03one\x03two\x00\x00");
    let rest = chunk(0, 0x05, 3, 3, b"\x03one\x03two\x00");
    let aborted = chunk(0, 0x05, 4, 3, b"\x03one\xFF\xFF\xFF\x7F\x03two");
    let huge = vec![0, 0x05, 9, 1, 255, 0xD3, 0xFE];
    let mut changing = chunk(3, 0x09, 0, 3, b"\x03one\x03two\x03six");
    *changing.last_mut().expect("a record") = 0x55;
    let patch = vec![13, 0x05, 1, 1, 0, 0, 0x83, 0x80, 0x80, 0];
    let (read, clone) = (vec![14, 255], vec![15]);
    vec![
        ("whole_and_split", with(200, 0, &[whole.clone(), begin, end, clone, read.clone()])),
        ("scraped", with(60, 2, &[scraped.clone(), read.clone(), rest.clone(), read.clone(), rest])),
        ("given_up", with(100, 1, &[whole, aborted, read.clone()])),
        ("too_large", with(8191, 0x30, &[huge.clone(), read.clone(), huge])),
        ("changing", with(40, 0, &[changing.clone(), changing, scraped, read.clone()])),
        ("patched", with(100, 0, &[chunk(0, 0x65, 1, 1, b"\0\0\0\0abc"), patch, read])),
    ]
}

/// A page of 256 bytes: layout, states, then chunks.
fn page(layout: u32, states: u32, chunk_words: usize, chunks: &[[u32; 6]]) -> Vec<u32> {
    let mut words = vec![layout << 28 | states, 0];
    for chunk in chunks {
        let mut all = chunk.to_vec();
        all.resize(chunk_words, 0);
        words.extend(all);
    }
    words.resize(64, 0);
    words
}

fn smb() -> Vec<(&'static str, Vec<u8>)> {
    let chunk = |id: u32, writer: u32, count: u32, flags: u32| {
        let packets = writer | (count | flags << 10) << 16;
        [id, packets, 0x6968_0302, 0x6968_0300, 0x0068_6903, 0x4141_0101]
    };
    let two = page(2, 0b1101, 31, &[chunk(7, 1, 3, 0), chunk(6, 1, 2, 2)]);
    let fourteen = page(5, 0x0F7D_B6D7, 4, &[chunk(1, 1, 2, 0); 14]);
    let stray = page(1, 0x0FFF_FFFF, 62, &[chunk(1, 2, 1023, 63)]);
    let reserved = page(7, 3, 62, &[chunk(0, 0, 0, 0)]);
    let with = |ring: u8, steps: &[[u8; 4]], pages: &[&Vec<u32>]| {
        let mut bytes = vec![3, ring, steps.len() as u8];
        bytes.extend(steps.concat());
        bytes.extend(pages.iter().flat_map(|page| page.iter().flat_map(|word| word.to_le_bytes())));
        bytes
    };
    let (scrape, take, read) = ([0, 0, 0, 0], [2, 0, 0, 0], [7, 0, 0, 0]);
    vec![
        ("scrape_then_take", with(64, &[scrape, take, read], &[&two])),
        ("fourteen", with(200, &[scrape, take, [2, 0, 3, 0], read], &[&fourteen, &two])),
        ("changing_under_a_scrape", with(90, &[[4, 0, 1, 0xFF], [5, 1, 2, 0x3F], read], &[&two, &fourteen])),
        ("stray_states_and_a_reserved_layout", with(90, &[scrape, take, [2, 1, 0, 1]], &[&stray, &reserved])),
        ("patches_for_others", with(60, &[take, [2, 1, 0, 9], [10, 9, 2, 7]], &[&two, &two])),
    ]
}

fn validator() -> Vec<(&'static str, Vec<u8>)> {
    let cut = |packet: &[u8]| [&[0x34, 0x12], packet].concat();
    vec![
        ("timestamp", cut(&[0x40, 0xAC, 0x02])),
        ("all_wire_types", cut(&[0x40, 1, 0x5D, 1, 2, 3, 4, 0x61, 1, 2, 3, 4, 5, 6, 7, 8, 0x5A, 2, 9, 9])),
        ("producer_drops", cut(&[0xD0, 0x02, 0x81, 0x80, 0x02, 0x40, 1])),
        ("forged", cut(&[0x40, 1, 0x18, 0])),
        ("group", cut(&[0x0B, 0x0C])),
        ("long_tag", cut(&[0xC0, 0x80, 0x80, 0x80, 0x80, 0x00, 1])),
        ("long_length", cut(&[0x5A, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])),
        ("long_value", cut(&[0x40, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1])),
        ("wide_value", cut(&[0xD0, 0x02, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2])),
        ("ends_in_a_field", cut(&[0x5A, 0x85, 0x80, 0x80, 0x00, 1, 2])),
    ]
}

/// Decisions for the generators: any numbers will do.
fn tape(seed: u32, len: usize) -> Vec<u8> {
    let mut number = seed;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn attach() -> Vec<(&'static str, Vec<u8>)> {
    // Without the last operation, which reads everything, each of these regions holds packets.
    let worked = |how: u8, seed: u32, damage: &[u8]| {
        let tape = tape(seed, 700);
        [&[how][..], &(tape.len() as u16).to_le_bytes(), &tape, &[0, 0], damage].concat()
    };
    let noise = |how: u8, seed: u32| [&[how, 3, 100, 1, 0][..], &tape(seed, 300)].concat();
    vec![
        ("rubbish", [&[0][..], &tape(1, 300)].concat()),
        ("rubbish_behind_a_header", noise(1, 2)),
        ("rubbish_with_checksums", noise(5, 3)),
        ("rubbish_with_histograms", noise(9, 9)),
        ("sound", worked(2, 4, &[])),
        ("sound_with_checksums", worked(6, 5, &[])),
        ("sound_with_histograms", worked(0x0A, 10, &[])),
        ("sound_under_another_policy", worked(0x12, 11, &[])),
        ("flipped", worked(2, 6, &[0x70, 2, 1, 0, 3, 0x80])),
        ("flipped_with_checksums", worked(6, 7, &[0x70, 2, 1, 0, 3, 0x80, 9, 2, 0x10])),
        ("flipped_with_histograms", worked(0x0E, 12, &[0x70, 2, 1, 0, 3, 0x80])),
        ("cut_off", worked(3, 8, &[0, 0x12, 0])),
    ]
}

fn differential() -> Vec<(&'static str, Vec<u8>)> {
    let case = |kind: u8, seed: u32, len: usize| [&[kind][..], &tape(seed, len)].concat();
    vec![
        ("hostile", case(0, 1, 900)),
        ("hostile_and_short", case(1, 2, 200)),
        ("hostile_and_long", case(2, 3, 1900)),
        ("ids_from_anywhere", case(3, 4, 900)),
        ("honest", case(4, 5, 900)),
        ("honest_and_short", case(5, 6, 200)),
        ("honest_and_long", case(6, 7, 1900)),
    ]
}

fn receive() -> Vec<(&'static str, Vec<u8>)> {
    // The example of the receiver's documentation: one packet of sequence 2.
    let line = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";
    let bytes = |cut: u8, line: &[u8]| [&[cut, 0][..], line].concat();
    vec![
        ("a_packet", bytes(3, line)),
        ("a_packet_twice", bytes(1, &[&line[..], &line[..]].concat())),
        ("a_damaged_packet", bytes(255, &[&line[..9], &line[12..], &line[..]].concat())),
        ("zeros", bytes(2, &[0; 20])),
        // Sizes, each with the number of its frames that are sent before a reset: from 3 on, all.
        ("many", [&[7, 1, 12, 0xFF][..], &[5, 9, 90, 9, 200, 9, 31, 9], &[0, 9, 7, 9].repeat(4)].concat()),
        (
            "many_damaged",
            [&[7, 1, 5, 0xFF, 5, 9, 90, 9, 200, 9, 31, 9, 7, 9][..], &[9, 1, 1, 80, 0, 0, 200, 2, 0x55]]
                .concat(),
        ),
        ("resets", vec![64, 1, 6, 0xFF, 90, 1, 90, 9, 200, 2, 90, 1, 90, 1, 40, 9]),
        // The zero and the first frame of the next start are cut out.
        ("a_second_frame_of_another_start", vec![64, 1, 3, 0xFF, 90, 0, 90, 1, 90, 9, 74, 0, 3, 37]),
    ]
}

fn sockets() -> Vec<(&'static str, Vec<u8>)> {
    const RECORD: &[u8] = &[1, 0];
    const FLUSH: &[u8] = &[2, 3];
    const READY: &[u8] = &[3, 0];
    const HEAR: &[u8] = &[10, 0];
    const GO: &[u8] = &[11, 0];
    let come = |protocol: u8| [0, protocol];
    // A packet with a timestamp and an event of its own.
    let packet = [&[0x40, 1, 0x5A, 28][..], &[0x48, 3].repeat(14)].concat();
    let chunk = |page: u8, writer: u8, how: u8| [&[5, 0, page, writer, how][..], &packet].concat();
    let patch = |to: u8, chunk: u8, offset: u8| [4, 0, 3, 1, to, chunk, offset, 0, 0x84, 0x80, 0x80, 0];
    let scene = |steps: &[&[u8]]| [&[3][..], &steps.concat()].concat();
    // For the buffer of the protocol's number.
    let works = |protocol: u8| {
        let chunk = |page, writer, how| chunk(page, writer, how | protocol << 7);
        let steps = [&chunk(0, 1, 1)[..], RECORD, &chunk(1, 1, 1), FLUSH, &chunk(2, 2, 0x20), HEAR, FLUSH];
        scene(&[&come(protocol), READY, &steps.concat(), GO])
    };
    let patches = |protocol: u8| {
        // Its last packet continues in the next chunk, and it needs patches.
        let chunks = [chunk(0, 1, 1 | 6 << 2 | protocol << 7), chunk(1, 1, 1 | 1 << 2 | protocol << 7)];
        let patches = [patch(protocol, 0, 1), patch(protocol, 0, 200)];
        scene(&[&come(protocol), READY, &chunks.concat(), FLUSH, &patches.concat(), FLUSH])
    };
    // Nine arguments of all kinds for each method.
    let calls = (0..16).map(|method| [&[6, 0, method, 0x87][..], &tape(method.into(), 60)].concat());
    let calls: Vec<u8> = calls.flatten().collect();
    let rubbish = [&[7, 0][..], &tape(5, 64)].concat();
    let files = [&[8, 0, 3][..], &tape(6, 64)].concat();
    vec![
        ("own_works", works(0)),
        ("perfetto_works", works(1)),
        ("own_patches", patches(0)),
        ("perfetto_patches", patches(1)),
        ("own_calls", scene(&[&come(0), READY, &calls, FLUSH])),
        ("perfetto_calls", scene(&[&come(1), READY, &calls, FLUSH])),
        ("rubbish_and_files", scene(&[&come(0), &rubbish, &come(1), &rubbish, &come(0), &files, FLUSH])),
        (
            "all_come_and_go",
            scene(&[&come(0), &come(1), GO, &come(1), READY, &come(0), &come(0), &chunk(0, 1, 1), GO, GO]),
        ),
        ("memory_that_changes", scene(&[&come(1), READY, &chunk(0, 1, 1), &[9, 0], &tape(9, 18), FLUSH])),
    ]
}

fn vm() -> Vec<(&'static str, Vec<u8>)> {
    let decisions = |seed: u32, len: usize| [&[0][..], &tape(seed, len)].concat();
    let given = |kind: u8, pieces: &[&[u8]]| {
        let pieces = pieces.iter().flat_map(|piece| [&[piece.len() as u8][..], piece].concat());
        std::iter::once(kind).chain(pieces).collect()
    };
    // Merges the message in each field 1 into the element of field 1 with its number.
    let map = b"\x12\x2c\x0a\x06\x12\x04\x08\x01\x28\x01\x3a\x0a\x0a\x04\x12\x02\x08\x01\x3a\x02\x12\x00\
        \x3a\x16\x0a\x10\x08\x02\x12\x02\x08\x01\x12\x04\x18\x01\x30\x00\x18\x01\x30\x00\x3a\x02\x1a\x00";
    let element = |key: u8, value: u8| [0x0A, 6, 8, key, 0x12, 2, value, value];
    let merge = b"\x12\x02\x1a\x00";
    let elements = [&element(1, 7)[..], &element(2, 8)].concat();
    vec![
        ("decisions", decisions(110, 400)),
        ("more_decisions", decisions(3, 1500)),
        ("decisions_with_loops", decisions(180, 900)),
        ("a_map", given(192, &[map, b"", &element(1, 7), &elements, &element(1, 9), b""])),
        ("a_map_in_little_memory", given(195, &[map, &elements, &element(3, 7), &element(2, 9), b""])),
        ("a_merge", given(192, &[merge, b"", b"\x08\x01\x08\x02", b"\x08\x03", b"\x12\x00", b""])),
    ]
}
