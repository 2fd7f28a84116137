//! `tracebuf recover` of firmware's memory: a mark, shared memory, and then the ring.

mod marks;

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
