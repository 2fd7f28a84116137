//! Start marks and shared memory that something else has overwritten, or that are none.

use super::*;

#[test]
fn only_what_lies_from_a_mark_to_a_ring_is_shared_memory() {
    let good = memory(2048, |start| start.say(0, 0..100));
    assert_eq!(find(&good).shared.expect("a mark").to_string(), "shared memory at 0x8: 3 chunks of 1 writer");
    let second = [&good[..], &good].concat();
    let second = Dump::parse(&second).expect("a dump").find(Place::Address(good.len() as u64));
    assert_eq!(second.expect("a buffer").shared.expect("a mark").address, good.len() as u64 + 8);
    // More or less than the mark says, zeros, and a snapshot after a recorder's memory.
    let (mark, rest) = good.split_at(8);
    let more = [mark, &[0; 8], rest].concat();
    let less = [mark, &rest[8..]].concat();
    let zeros = [&[0; BEFORE], &good[BEFORE..]].concat();
    let ones = [&[0xFF; BEFORE], &good[BEFORE..]].concat();
    for none in [more, less, zeros, ones] {
        assert!(find(&none).shared.is_none());
    }
    let snapshot = [&good[..], &region()].concat();
    let found = Dump::parse(&snapshot).expect("a dump").find(Place::Address(good.len() as u64));
    assert!(found.expect("a buffer").shared.is_none());
    // Farther than shared memory is looked for, although a mark says so, or with very many pages.
    for (size, page, is_found) in [
        (128 << 10, 4096, true),
        (768 << 10, 1 << 16, true),
        (1 << 20, 1 << 16, false),
        (780 * 172, 172, true),
        (781 * 172, 172, false),
        (2047 * 64, 64, true),
    ] {
        let mut words = vec![0; size / 4];
        let pages = SharedMemory::new(atomic_words(&mut words), page).expect("pages");
        let mark = StartMark::new(1, &pages).to_word().to_ne_bytes();
        let dump = [&mark[..], &vec![0; pages.size()], &vec![0; pages.size() % 8], &region()].concat();
        assert_eq!(find(&dump).shared.is_some(), is_found, "{size} bytes in pages of {page}");
    }
}

#[test]
fn whatever_lies_in_a_dump_nothing_panics_and_a_mark_that_was_changed_is_none() {
    let good = memory(2048, |start| {
        for n in 0..10 {
            start.say(0, 30 * n..30 * n + 30);
            start.say(1, 30 * n..30 * n + 20);
            start.drain(1);
        }
        start.say_long(0, 300);
    });
    let mut state = 42u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut brought_in = 0;
    for round in 0..3000 {
        let mut dump = good.clone();
        // The mark, pages, or all of it; a bit, or a run of bytes.
        let within = [8, BEFORE, dump.len()][round % 3];
        for _ in 0..1 + random(8) {
            let at = random(within);
            if round % 2 == 0 {
                dump[at] ^= 1 << random(8);
            } else {
                let end = (at + random(64)).min(within);
                dump[at..end].fill_with(|| random(256) as u8);
            }
        }
        let Ok(found) = Dump::parse(&dump).expect("raw").find(Place::Anywhere) else { continue };
        if within == 8 && dump[..8] != good[..8] {
            assert!(found.shared.is_none());
        }
        let (mut found, chunks) = found.bring_in();
        brought_in += chunks;
        let mut reader = found.buffer.read();
        while reader.next_packet().is_some() {}
    }
    assert!(brought_in > 1000, "{brought_in}");
}

#[test]
fn pages_that_something_else_has_overwritten_give_no_packets() {
    let good = memory(2048, |start| start.say(0, 0..100));
    let moved = said(&mut find(&good)).len();
    let mut state = 7u64;
    for _ in 0..300 {
        let mut dump = good.clone();
        for byte in &mut dump[8..BEFORE] {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (state >> 56) as u8;
        }
        let found = find(&dump);
        assert_eq!(found.shared.as_ref().expect("a mark").chunks, 0);
        assert_eq!(read_all(found).0.len(), moved);
    }
    // If one of the pages is not as it was, the others still count.
    let mut dump = good.clone();
    dump[8 + 4] = 1;
    assert_eq!(read_all(find(&dump)).0.len(), 0);
    dump[8 + 4] = 0;
    dump[8 + PAGE as usize + 4] = 1;
    assert_eq!(all(&dump)[0].len(), 100);
}

#[test]
fn the_largest_shared_memory_full_of_chunks_out_of_order_is_brought_in_soon() {
    // Complete chunks of 12 bytes, smaller than writers use, of one writer, the newest first.
    const PAGE_WORDS: usize = 2 + 14 * 3;
    let pages = (128 << 10) / 4 / PAGE_WORDS;
    let mut words = vec![0u32; pages * PAGE_WORDS];
    let mut id = 14 * pages as u32;
    for page in words.as_chunks_mut::<PAGE_WORDS>().0 {
        page[0] = ((Layout::Fourteen as u32) << 28 | 0x0FFF_FFFF).to_le();
        for words in page[2..].as_chunks_mut::<3>().0 {
            id -= 1;
            let header =
                SmbChunkHeader { chunk_id: id, writer_id: 1, fragments: 1, flags: HeaderFlags::empty() };
            words[..2].copy_from_slice(&header.to_words().map(u32::to_le));
            words[2] = u32::from_ne_bytes([3, 0x40, 0x80, 0x01]);
        }
    }
    let shared = SharedMemory::new(atomic_words(&mut words), 4 * PAGE_WORDS as u32).expect("pages");
    let mark = StartMark::new(1, &shared).to_word().to_ne_bytes();
    let ring = TraceBuffer::new(vec![0u8; 1 << 20], CONFIG).expect("room").into_memory();
    let shared = words.iter().flat_map(|word| word.to_ne_bytes());
    let dump: Vec<u8> = mark.into_iter().chain(shared).chain(ring).collect();
    let start = Instant::now();
    let found = find(&dump);
    let chunks = 14 * pages as u64;
    assert_eq!(found.shared.as_ref().expect("a mark").chunks, chunks);
    let (packets, brought_in) = read_all(found);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // Those that no walk put into order come too late.
    assert!(packets.len() as u64 == brought_in && brought_in > chunks / 10, "{brought_in} of {chunks}");
}
