//! Requests that an endpoint refuses and counts.

mod discarded;
mod gone;
mod lives;
mod numbered;
mod scraping;

use crate::model::{memory, producer};
use std::sync::Mutex;
use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, DataLoss, FillPolicy, TraceBuffer};
use tracebuf::producer::{
    ChunkPatch, ChunkToMove, ChunkToPatch, CommitRequest, CommitSink, Consumer, Exhaustion, Layout, Producer,
    ProducerStorage, Request, SharedMemory, TraceWriter,
};
use tracebuf::service::{EndpointStats, ProducerEndpoint, ProducerIdentity};

const WRITERS: usize = 2;

/// Keeps what it is asked to move.
#[derive(Default)]
struct Queue(Mutex<Vec<ChunkToMove>>);

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().unwrap().extend(request.chunks_to_move);
    }
}

const IDENTITY: ProducerIdentity = ProducerIdentity { producer_id: 1, uid: 1000, pid: 42 };

struct World {
    memory: SharedMemory<'static>,
    producer: &'static Producer<'static>,
    queue: &'static Queue,
    writer: TraceWriter<'static>,
    endpoint: ProducerEndpoint<'static, WRITERS>,
    buffers: [TraceBuffer<Vec<u8>>; 2],
}

impl World {
    /// A writer that writes to buffer 0, of two; the endpoint allows nothing yet.
    fn new() -> Self {
        let memory = memory(4 * 4096, 4096);
        let queue: &'static Queue = Box::leak(Box::default());
        let producer = producer(memory, Layout::Four, queue);
        let buffer = || TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).unwrap();
        assert_eq!((producer.layout(), producer.memory().size()), (Layout::Four, 4 * 4096));
        World {
            memory,
            producer,
            queue,
            writer: producer.writer(0, Exhaustion::Drop).unwrap(),
            endpoint: ProducerEndpoint::new(Consumer::new(memory), IDENTITY),
            buffers: [buffer(), buffer()],
        }
    }

    /// Writes a packet, and says where its chunk is.
    fn write(&mut self) -> ChunkToMove {
        self.writer.packet().varint(8, 1);
        self.writer.flush();
        self.completed()
    }

    /// Where the chunk completed last is.
    fn completed(&self) -> ChunkToMove {
        self.queue.0.lock().unwrap().pop().expect("a complete chunk")
    }

    fn move_to(&mut self, target: u16, chunk: ChunkToMove) {
        let chunks_to_move = &[ChunkToMove { target, ..chunk }];
        self.endpoint
            .carry_out(&CommitRequest { chunks_to_move, ..CommitRequest::default() }, &mut self.buffers);
    }

    /// Offers patches for the writer's first chunk, and returns how many reached a buffer.
    fn patch(&mut self, target: u16, patches: &[ChunkPatch], has_more: bool) -> u64 {
        let patch = ChunkToPatch { writer_id: self.writer.id(), target, chunk_id: 0, patches, has_more };
        let request = CommitRequest { chunks_to_patch: &[patch], ..CommitRequest::default() };
        let tried = |buffers: &[TraceBuffer<Vec<u8>>; 2]| {
            buffers.iter().map(|b| b.stats().patches_succeeded + b.stats().patches_failed).sum::<u64>()
        };
        let before = tried(&self.buffers);
        self.endpoint.carry_out(&request, &mut self.buffers);
        tried(&self.buffers) - before
    }

    /// Reads the first buffer, and says what was lost before each packet of the producer.
    fn read(&mut self) -> Vec<DataLoss> {
        let mut reader = self.buffers[0].read();
        let packets =
            std::iter::from_fn(|| reader.next_packet().map(|packet| (packet.producer_id(), packet.loss())));
        packets.filter(|(id, _)| *id == IDENTITY.producer_id).map(|(_, loss)| loss).collect()
    }

    /// Another producer laps over all that is in the first buffer.
    fn lap(&mut self) {
        let first = self.buffers[0].stats().chunks_written as u32;
        for chunk_id in first..first + 300 {
            let header = ChunkHeader { producer_id: 9, chunk_id, fragments: 1, ..ChunkHeader::default() };
            self.buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
        }
    }

    fn written(&self) -> [u64; 2] {
        self.buffers.each_ref().map(|buffer| buffer.stats().chunks_written)
    }
}

#[test]
fn what_a_queue_held_is_carried_out_one_by_one() {
    let mut world = World::new();
    world.endpoint.allow(0);
    let writer_id = world.writer.id();
    let moved = world.write();
    let patch = ChunkPatch { chunk_id: 5, offset: 0, data: [0; 4] };
    let mut done = |request: Request| world.endpoint.carry_out_one(&request, &mut world.buffers);
    assert_eq!(done(Request::Register { writer_id, target: 0 }), None);
    assert_eq!(done(Request::Move(moved)), None);
    assert_eq!(done(Request::Patch { writer_id, target: 0, patch, has_more: false }), None);
    assert_eq!(done(Request::Flush(7)), Some(7), "that is left to who owns the producer");
    assert_eq!(done(Request::Patch { writer_id, target: 1, patch, has_more: false }), None);
    let stats = world.endpoint.stats();
    assert_eq!((stats.chunks_moved, stats.patches_discarded, world.read().len()), (1, 1, 1));
    assert_eq!(world.buffers[0].stats().patches_failed, 1, "there is no such chunk");
    // A writer that is no longer registered is not scraped.
    world.writer.packet().varint(8, 1);
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    world.writer.packet().varint(8, 2);
    assert_eq!(world.endpoint.carry_out_one(&Request::Unregister { writer_id }, &mut world.buffers), None);
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 0);
}

#[test]
fn a_producer_has_no_more_writers_at_a_time_than_its_endpoint_has_places() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.allow(5));
    let writers: Vec<_> = std::iter::from_fn(|| world.producer.writer(0, Exhaustion::Drop)).collect();
    let mut writers: Vec<_> = writers.into_iter().take(4).collect();
    let ids: Vec<_> = writers.iter().map(TraceWriter::id).collect();
    // Whether a chunk from this writer is taken.
    let mut sends = |world: &mut World, writer: usize, target: u16| {
        writers[writer].packet().varint(8, 1);
        writers[writer].flush();
        let (chunk, before) = (world.completed(), world.endpoint.stats());
        world.move_to(target, chunk);
        let stats = world.endpoint.stats();
        let discarded = stats.chunks_discarded - before.chunks_discarded;
        assert_eq!((stats.chunks_moved - before.chunks_moved) + discarded, 1);
        discarded == 0
    };
    // Those whose chunks go nowhere take no place: one may not write to its buffer, the other's buffer does not exist.
    assert!(!sends(&mut world, 2, 1) && !sends(&mut world, 3, 5));
    assert!([0, 1, 0].iter().all(|writer| sends(&mut world, *writer, 0)));
    assert!(!sends(&mut world, 2, 0) && !world.endpoint.register_writer(ids[2], 0), "a third");
    // A writer that is registered late is the same one, and has only its own buffer.
    assert!(world.endpoint.allow(1) && world.endpoint.register_writer(ids[0], 1));
    assert!(sends(&mut world, 0, 1) && !sends(&mut world, 0, 0) && sends(&mut world, 1, 0));
    assert!(!sends(&mut world, 2, 0));
    // Both kinds give their places back.
    world.endpoint.unregister_writer(ids[0]);
    assert!(sends(&mut world, 2, 0) && !sends(&mut world, 3, 0));
    world.endpoint.unregister_writer(ids[1]);
    assert!(sends(&mut world, 3, 0) && !sends(&mut world, 1, 0));
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 0, "of those that are not registered nothing");
    assert_eq!(world.buffers[0].sequences().count() + world.buffers[1].sequences().count(), 5);
}

#[test]
fn only_the_first_32_buffers_can_be_allowed_and_only_allowed_ones_be_registered_for() {
    let mut world = World::new();
    assert!(world.endpoint.allow(1) && world.endpoint.allow(31));
    assert!(!world.endpoint.allow(32) && !world.endpoint.allow(u16::MAX));
    assert!(!world.endpoint.register_writer(1, 0), "not allowed");
    assert!(!world.endpoint.register_writer(1, 32), "the first that there is not");
    assert!(!world.endpoint.register_writer(1, 33), "not 33 modulo 32 either");
    assert!(world.endpoint.register_writer(1, 1) && world.endpoint.register_writer(2, 31));
    assert!(!world.endpoint.register_writer(3, 1), "as many as there is room for");
    world.endpoint.unregister_writer(2);
    assert!(world.endpoint.register_writer(3, 1));
}

#[test]
fn chunks_that_are_not_there_or_not_complete_are_counted_as_missing() {
    let mut world = World::new();
    world.endpoint.allow(0);
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.written(), [1, 0]);
    world.move_to(0, chunk); // It was taken.
    world.move_to(0, ChunkToMove { page: 99, ..chunk });
    world.move_to(0, ChunkToMove { page: 3, ..chunk }); // It was never divided.
    world.move_to(0, ChunkToMove { chunk: 15, ..chunk });
    assert_eq!(world.written(), [1, 0]);
    let stats = world.endpoint.stats();
    assert_eq!(stats, EndpointStats { chunks_moved: 1, chunks_missing: 4, ..EndpointStats::default() });
}

#[test]
fn chunks_and_patches_for_a_buffer_that_is_not_the_writer_s_are_dropped_and_counted() {
    let mut world = World::new();
    let patches = [ChunkPatch { chunk_id: 0, offset: 0, data: [0; 4] }; 3];
    // Given that nothing is allowed, nothing arrives, and the chunk is free again.
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.patch(0, &patches, false), 0);
    // Given that the writer writes to buffer 0, nothing of it goes to 1, nor to one that does not exist.
    assert!(world.endpoint.allow(0) && world.endpoint.allow(1) && world.endpoint.allow(2));
    assert!(world.endpoint.register_writer(world.writer.id(), 0));
    for target in [1, 2] {
        let chunk = world.write();
        world.move_to(target, chunk);
        assert_eq!(world.patch(target, &patches, false), 0);
        assert_eq!(world.patch(target, &[], false), 0);
    }
    assert_eq!(world.written(), [0, 0]);
    let stats = world.endpoint.stats();
    let dropped = EndpointStats { chunks_discarded: 3, patches_discarded: 11, ..EndpointStats::default() };
    assert_eq!(stats, dropped);
    // What belongs to the writer arrives.
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.written(), [1, 0]);
    assert!(world.patch(0, &patches, false) > 0);
}

#[test]
fn what_was_being_moved_in_a_crash_is_moved_once() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(1, 0));
    let chunks = [(); 5].map(|()| world.write());
    // The first is in the ring and freed. When the program ended, the second was in it and the third had been taken.
    world.move_to(0, chunks[0]);
    let mut dead = Consumer::new(world.memory);
    for (taken, is_in_ring) in [(chunks[1], true), (chunks[2], false)] {
        let taken = dead.take(taken.page, taken.chunk).expect("a complete chunk");
        if is_in_ring {
            let header = ChunkHeader {
                producer_id: 1,
                writer_id: taken.header().writer_id,
                chunk_id: taken.header().chunk_id,
                fragments: taken.header().fragments,
                ..ChunkHeader::default()
            };
            world.buffers[0].commit_with(&header, taken.len(), |from, to| taken.fill(from, to));
        }
        std::mem::forget(taken);
    }

    let mut consumer = Consumer::new(world.memory);
    assert_eq!(consumer.reclaim(), 2);
    assert_eq!(consumer.reclaim(), 0);
    world.endpoint = ProducerEndpoint::new(consumer, IDENTITY);
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(1, 0));
    world.endpoint.scrape(&mut world.buffers);
    let stats = world.buffers[0].stats();
    assert_eq!((stats.chunks_written, stats.chunks_unchanged), (5, 1));
    let (mut reader, mut packets) = (world.buffers[0].read(), 0);
    while let Some(packet) = reader.next_packet() {
        assert!(packet.loss().is_empty());
        packets += 1;
    }
    assert_eq!(packets, 5);
}

#[test]
fn a_chunk_waits_until_no_more_patches_are_said_to_come() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    let flags = ChunkFlags::CONTINUES_ON_NEXT | ChunkFlags::NEEDS_PATCHING;
    for (chunk_id, flags) in [(0, flags), (1, ChunkFlags::CONTINUES_FROM_PREVIOUS)] {
        let header = ChunkHeader {
            producer_id: IDENTITY.producer_id,
            writer_id: world.writer.id(),
            chunk_id,
            fragments: 1,
            flags,
            ..ChunkHeader::default()
        };
        world.buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x04abcd" });
    }
    // Also if there are more than go at once.
    let patches = [ChunkPatch { chunk_id: 0, offset: 1, data: *b"efgh" }; 20];
    for (count, has_more, packets) in [(1, true, 0), (20, true, 0), (20, false, 1)] {
        assert_eq!(world.patch(0, &patches[..count], has_more), count as u64);
        let mut reader = world.buffers[0].read();
        assert_eq!(std::iter::from_fn(|| reader.next_packet().map(|packet| packet.len())).count(), packets);
    }
}

#[test]
fn an_id_goes_on_in_the_buffer_that_has_its_chunks_and_elsewhere_only_when_no_other_is_left() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.allow(1));
    let ids = [0, 1, 0, 1, 0].map(|target| {
        let mut writer = world.producer.writer(target, Exhaustion::Drop).unwrap();
        writer.packet().varint(8, 1);
        let id = writer.id();
        drop(writer);
        let chunk = world.completed();
        world.move_to(target, chunk);
        id
    });
    assert_eq!(ids, [2, 3, 2, 3, 2]);
    for (buffer, expected) in world.buffers.iter_mut().zip([3, 2]) {
        let (mut reader, mut packets) = (buffer.read(), 0);
        while let Some(packet) = reader.next_packet() {
            assert!(packet.loss().is_empty(), "nothing is missing");
            packets += 1;
        }
        assert_eq!(packets, expected);
    }
    let writers: Vec<_> = std::iter::from_fn(|| world.producer.writer(1, Exhaustion::Drop)).collect();
    assert_eq!(writers.iter().map(TraceWriter::id).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 2]);
}

#[test]
fn of_any_number_of_patches_all_are_written_or_none() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    world.writer.packet().bytes(1, &[7; 100]);
    world.writer.flush();
    let chunk = world.completed();
    world.move_to(0, chunk);
    let counts = |world: &World| {
        let stats = world.buffers[0].stats();
        (stats.patches_succeeded, stats.patches_failed)
    };
    let good: Vec<ChunkPatch> =
        (0..20).map(|n| ChunkPatch { chunk_id: 0, offset: 6 + n * 4, data: [n as u8; 4] }).collect();
    for count in [8, 9, 16, 17, 20] {
        let mut bad = good[..count].to_vec();
        bad[count - 1].offset = 60_000;
        let before = counts(&world);
        world.patch(0, &bad, true);
        assert_eq!(counts(&world), (before.0, before.1 + 1), "of {count} with one that is off");
    }
    let before = counts(&world);
    world.patch(0, &good, true);
    assert_eq!(counts(&world), (before.0 + 20, before.1));
    // As many as go at once are written in order: each covers half of the one before it.
    let halves: Vec<ChunkPatch> =
        good.iter().take(8).map(|p| ChunkPatch { offset: 3 + p.offset / 2, ..*p }).collect();
    world.patch(0, &halves, false);
    let mut reader = world.buffers[0].read();
    let packet = reader.next_packet().expect("the packet").slices().collect::<Vec<_>>().concat();
    let mut patched: Vec<u8> = (0..20).flat_map(|n| [n; 4]).collect();
    patched[..18].copy_from_slice(&[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7]);
    assert!(packet.windows(80).any(|bytes| bytes == patched) && packet.len() == 105);
}

#[test]
fn what_an_endpoint_has_counted_is_printed() {
    let endpoint = format!("{:?}", EndpointStats { chunks_missing: 7, ..EndpointStats::default() });
    for text in ["moved: 0", "scraped: 0", "scraped_before: 0", "discarded: 0", "missing: 7"] {
        assert!(endpoint.contains(&format!("chunks_{text}")), "{text} in {endpoint}");
    }
    assert!(endpoint.ends_with("patches_discarded: 0 }"), "{endpoint}");
}
