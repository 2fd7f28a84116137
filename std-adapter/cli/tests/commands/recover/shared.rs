//! `tracebuf recover` of firmware's memory: a mark, shared memory, and then the ring.

use std::collections::VecDeque;
use std::mem;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
use tracebuf::producer::{
    CommitRequest, CommitSink, Consumer, Exhaustion, HeaderFlags, Layout, Producer, ProducerStorage, Request,
    SharedMemory, SmbChunkHeader, TraceWriter, atomic_words,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity, StartMark};
use tracebuf_analysis::recover::{Dump, Found, Place};

use super::{hex, recover, region};
use crate::text;
use crate::trace::{number, scratch};

pub(super) const PAGE: u32 = 8 + 4 * 120;
const PAGES: usize = 4;
/// Bytes before the ring.
pub(super) const BEFORE: usize = 8 + PAGE as usize * PAGES;
const CONFIG: Config = Config::new(FillPolicy::RingBuffer).sequences(4);

/// What the drain has to do.
#[derive(Default)]
struct Requests(Mutex<VecDeque<Request>>);

impl CommitSink for Requests {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().expect("no panic").extend(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.0.lock().expect("no panic").push_back(Request::Register { writer_id, target });
    }
}

/// A start of firmware while its work goes on: two writers, and what moves a number of their chunks.
pub(super) struct Start<'a, 'd> {
    writers: [TraceWriter<'a>; 2],
    drain: &'d mut dyn FnMut(usize),
}

impl Start<'_, '_> {
    /// Short packets of a writer, with these numbers.
    pub(super) fn say(&mut self, writer: usize, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| self.writers[writer].packet().varint(8, number));
    }

    /// A packet over three chunks or more.
    fn say_long(&mut self, writer: usize, number: u64) {
        let mut packet = self.writers[writer].packet();
        packet.varint(8, number);
        packet.bytes(900, &[7; 300]);
    }

    pub(super) fn drain(&mut self, chunks: usize) {
        (self.drain)(chunks);
    }
}

/// What is in memory after firmware whose ring has this many bytes did this work and was reset.
pub(super) fn memory(ring: u32, work: impl FnOnce(&mut Start<'_, '_>)) -> Vec<u8> {
    let mut words = vec![0; PAGE as usize / 4 * PAGES];
    let (mark, ring) = record(&mut words, ring, work);
    let shared = words.iter().flat_map(|word| word.to_ne_bytes());
    mark.to_word().to_ne_bytes().into_iter().chain(shared).chain(ring).collect()
}

/// The mark, and the ring's region.
fn record(words: &mut [u32], ring: u32, work: impl FnOnce(&mut Start<'_, '_>)) -> (StartMark, Vec<u8>) {
    let pages = SharedMemory::new(atomic_words(words), PAGE).expect("pages");
    let mark = StartMark::new(3, &pages);
    let region = vec![0u8; CONFIG.region_size(ring) as usize];
    let mut rings = [TraceBuffer::new(region, CONFIG).expect("room")];
    let (storage, requests) = (ProducerStorage::<16, 2>::new(), Requests::default());
    let producer = Producer::new(pages, Layout::Four, &storage, &requests).expect("room");
    let identity = ProducerIdentity { producer_id: mark.start(), uid: 0, pid: -1 };
    let mut endpoint = ProducerEndpoint::<2>::new(Consumer::new(pages), identity);
    endpoint.allow(0);
    let mut drain = |chunks| {
        producer.commit();
        let mut left = chunks;
        while left > 0
            && let Some(request) = requests.0.lock().expect("no panic").pop_front()
        {
            left -= usize::from(matches!(request, Request::Move(_)));
            let _ = endpoint.carry_out_one(&request, &mut rings);
        }
    };
    let writers = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).expect("two"));
    let mut start = Start { writers, drain: &mut drain };
    work(&mut start);
    // A reset: no destructor runs.
    mem::forget(start);
    let [ring] = rings;
    (mark, ring.into_memory())
}

fn find(dump: &[u8]) -> Found {
    Dump::parse(dump).expect("a dump").find(Place::Anywhere).expect("a buffer")
}

/// Who wrote a packet, its number, and whether something before it is missing.
type Said = (u16, u64, bool);

/// What can be read.
fn said(found: &mut Found) -> Vec<Said> {
    let (mut all, mut reader) = (Vec::new(), found.buffer.read());
    while let Some(packet) = reader.next_packet() {
        let bytes: Vec<u8> = packet.slices().flatten().copied().collect();
        all.push((packet.writer_id(), number(&bytes, 8).expect("a number"), !packet.loss().is_empty()));
    }
    all
}

/// Everything that is there, and how many chunks of it were brought in.
fn read_all(found: Found) -> (Vec<Said>, u64) {
    let (mut found, brought_in) = found.bring_in();
    (said(&mut found), brought_in)
}

/// All the numbers that are there, each writer's separately; there must be no losses.
fn all(dump: &[u8]) -> [Vec<u64>; 2] {
    let (all, _) = read_all(find(dump));
    assert!(all.iter().all(|(_, _, lost)| !lost), "{all:?}");
    [1, 2].map(|writer| all.iter().filter(|said| said.0 == writer).map(|said| said.1).collect())
}

#[test]
fn what_was_not_moved_into_the_ring_is_in_the_trace_and_how_much_that_is_is_said() {
    let memory = memory(4096, |start| {
        start.say(0, 0..100);
        start.say(1, 200..210);
        start.drain(2);
    });
    let text = hex(0x2000, 0x100, &[&[0xEE; 24], &memory[..]].concat());
    let ring = 0x2000_0100 + 24 + BEFORE;
    for place in [&[][..], &["--address", "0x20000118"], &["--address", &format!("{ring:#x}")]] {
        let (ok, said, _) = recover("shared", text.as_bytes(), place);
        assert!(
            ok && said.contains(&format!("buffer at {ring:#x}: 2 chunks of 1 sequence kept\n")),
            "{said}"
        );
        let brought_in = "shared memory: 2 chunks of 2 writers brought in\n110 packets in ";
        assert!(said.contains(brought_in), "{said}");
    }
    let [first, second] = all(&memory);
    assert!(first.into_iter().eq(0..100) && second.into_iter().eq(200..210));
}

#[test]
fn a_packet_that_begins_in_the_ring_and_ends_in_shared_memory_is_whole_and_in_its_place() {
    for moved in 0..5 {
        let memory = memory(4096, |start| {
            start.say(0, 0..10);
            start.say_long(0, 10);
            start.say(0, 11..14);
            start.drain(moved);
        });
        assert!(all(&memory)[0].iter().copied().eq(0..14), "{moved}");
    }
}

#[test]
fn nothing_in_a_ring_that_is_full_is_lost_for_what_is_in_shared_memory() {
    // With several lengths, so that the ring is lapped at any place in a chunk.
    for ring in (1200..1400).step_by(4) {
        let memory = memory(ring, |start| {
            for n in 0..40 {
                start.say(0, 30 * n..30 * n + 30);
                start.drain(2);
            }
            start.say_long(0, 1200);
            start.drain(1);
            start.say(0, 1201..1300);
        });
        let oldest = said(&mut find(&memory))[0].1;
        let (all, _) = read_all(find(&memory));
        // What the ring has lapped over was before the first one. None is missing between the others.
        assert!(all.iter().map(|said| said.1).eq(oldest..1300), "{ring}: {all:?}");
        assert!(all[0].2 && all.iter().skip(1).all(|said| !said.2), "{ring}: {all:?}");
    }
}

#[test]
fn more_than_the_ring_has_room_for_is_brought_in() {
    // The ring has room for three chunks, shared memory for sixteen.
    let memory = memory(400, |start| {
        start.say(0, 0..100);
        start.drain(3);
        start.say(0, 100..200);
        start.say(1, 0..100);
    });
    let mut found = find(&memory);
    let chunks = found.shared.as_ref().expect("a mark").chunks;
    assert!(chunks >= 6);
    let oldest = said(&mut found)[0].1;
    let (all, brought_in) = read_all(find(&memory));
    let of = |writer| all.iter().filter(move |said| said.0 == writer).map(|said| said.1);
    assert!(of(1).eq(oldest..200) && of(2).eq(0..100), "{all:?}");
    assert_eq!(brought_in, chunks);
}

#[test]
fn what_was_moved_and_not_yet_freed_comes_once() {
    let work = |moved| {
        memory(4096, |start| {
            start.say(0, 0..100);
            start.drain(moved);
        })
    };
    // Shared memory as it was before the ring took some of it.
    let before = work(0);
    for moved in 0..5 {
        let after = work(moved);
        let both = [&before[..BEFORE], &after[BEFORE..]].concat();
        assert!(all(&both)[0].iter().copied().eq(0..100), "{moved}");
    }
}

#[test]
fn a_dump_that_ends_before_the_ring_does_has_what_is_in_shared_memory_too() {
    let memory = memory(4096, |start| {
        start.say(0, 0..200);
        start.drain(4);
        start.say(0, 200..250);
    });
    let ring = BEFORE + CONFIG.region_size(0) as usize;
    for cut in (0..2000).step_by(136) {
        let dump = &memory[..ring + cut];
        let (ok, told, _) = recover("shared-cut", dump, &[]);
        assert!(
            ok != told.contains("unreadable")
                && told.contains("shared memory: 5 chunks of 1 writer brought in\n"),
            "{told}"
        );
        let (all, _) = read_all(find(dump));
        let newest = all.iter().map(|said| said.1).skip_while(|number| *number < 200);
        assert!(newest.eq(200..250), "{cut}: {all:?}");
        for pair in all.windows(2) {
            assert_eq!(pair[1].1 != pair[0].1 + 1, pair[1].2, "{cut}: {pair:?}");
        }
    }
}

#[test]
fn nothing_is_said_of_shared_memory_that_is_not_there_and_little_of_one_with_nothing_in_it() {
    let (_, said, _) = recover("shared-none", &region(), &[]);
    assert!(!said.contains("shared memory"), "{said}");
    let moved = memory(4096, |_| ());
    let (ok, said, _) = recover("shared-empty", &moved, &[]);
    assert!(
        ok && said
            .contains("shared memory: nothing to bring in that the buffer does not have, or has room for\n"),
        "{said}"
    );
}

#[test]
fn inspect_shows_the_ring_as_it_is_and_says_what_lies_before_it() {
    let memory = memory(4096, |start| {
        start.say(0, 0..100);
        start.say(1, 0..10);
        start.drain(1);
    });
    let path = scratch("recover/shared.inspected");
    std::fs::write(&path, &memory).expect("a file");
    let shown = crate::inspect::inspect(&path, &[]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("shared memory at 0x8: 3 chunks of 2 writers; `tracebuf recover` takes"),
        "{shown}"
    );
    assert!(shown.contains("\n1 chunk:\n"), "{shown}");
}

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
