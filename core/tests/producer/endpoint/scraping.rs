//! Scraped chunks: offered once, and again where that is not enough.

use super::{IDENTITY, Queue, World};
use std::sync::atomic::Ordering;
use tracebuf::buffer::{Chunk, ChunkHeader, Config, DataLoss, FillPolicy, Packet, TraceBuffer};
#[cfg(feature = "patches")]
use tracebuf::producer::ChunkToMove;
use tracebuf::producer::{
    CommitRequest, Consumer, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory, atomic_words,
};
use tracebuf::service::{EndpointStats, ProducerEndpoint};

#[test]
fn scraping_leaves_out_writers_that_are_unknown_or_have_no_buffer() {
    let mut world = World::new();
    world.writer.packet().varint(8, 1);
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 0, "unknown");
    world.endpoint.allow(5);
    assert!(world.endpoint.register_writer(world.writer.id(), 5));
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 0, "there are only two buffers");
    world.endpoint.allow(1);
    assert!(world.endpoint.register_writer(world.writer.id(), 1));
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    assert_eq!((world.written(), world.endpoint.stats().chunks_scraped), ([0, 1], 1));
}

#[test]
fn a_chunk_that_was_scraped_whole_is_not_offered_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    let early = [(); 3].map(|()| world.write());
    // The first one's commit comes before it is read, the others' after. A second scrape sees what the first saw.
    assert_eq!([(); 2].map(|()| world.endpoint.scrape(&mut world.buffers)), [3, 0]);
    world.move_to(0, early[0]);
    let read = |world: &mut World| {
        let mut reader = world.buffers[0].read();
        let whole = |packet: Packet<'_>| assert!(packet.loss().is_empty());
        std::iter::from_fn(|| reader.next_packet().map(whole)).count()
    };
    assert_eq!(read(&mut world), 3);
    world.move_to(0, early[1]);
    world.move_to(0, early[2]);
    // Their places are free again, and what comes next is offered.
    let late = [(); 20].map(|()| {
        let chunk = world.write();
        world.move_to(0, chunk);
    });
    assert_eq!(read(&mut world), late.len());
    let buffer = world.buffers[0].stats();
    assert_eq!((buffer.chunks_offered(), buffer.chunks_written, buffer.chunks_discarded), (23, 23, 0));
    let stats = EndpointStats { chunks_moved: 20, chunks_scraped: 3, ..EndpointStats::default() };
    assert_eq!(world.endpoint.stats(), EndpointStats { chunks_scraped_before: 3, ..stats });
}

/// A buffer whose table is full of other sequences, which have chunks there.
fn full_table(policy: FillPolicy) -> TraceBuffer<Vec<u8>> {
    let mut buffer = TraceBuffer::new(vec![0; 8192], Config::new(policy).sequences(4)).unwrap();
    for producer_id in 9..13 {
        let header = ChunkHeader { producer_id, fragments: 1, ..ChunkHeader::default() };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
    }
    buffer
}

#[test]
fn a_chunk_that_a_buffer_did_not_take_from_a_scrape_is_offered_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    // Nobody gives up a place in a buffer that discards.
    world.buffers[0] = full_table(FillPolicy::Discard);
    let chunk = world.write();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    assert_eq!(world.buffers[0].stats().chunks_refused, 1);
    while world.buffers[0].read().next_packet().is_some() {}
    world.move_to(0, chunk);
    assert_eq!(world.written(), [5, 0]);
    assert_eq!(world.endpoint.stats().chunks_scraped_before, 0);
}

#[test]
fn in_a_ring_that_nobody_reads_a_newcomer_has_the_place_of_who_was_silent_for_the_longest() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    world.buffers[0] = full_table(FillPolicy::RingBuffer);
    let chunks = [(); 2].map(|()| world.write());
    world.move_to(0, chunks[0]);
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    let stats = world.buffers[0].stats();
    assert_eq!((stats.chunks_written, stats.chunks_refused, stats.chunks_overwritten), (6, 0, 1));
    assert_eq!(world.read(), [DataLoss::empty(); 2]);
}

#[test]
fn a_chunk_that_was_scraped_and_overwritten_before_it_was_read_is_offered_again() {
    for gone in [false, true] {
        let mut world = World::new();
        assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
        let chunk = world.write();
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
        world.lap();
        if gone {
            world.endpoint.disconnect(&mut world.buffers);
        } else {
            world.move_to(0, chunk);
        }
        assert_eq!(world.read(), [DataLoss::empty()], "{gone}");
        assert_eq!(world.endpoint.stats().chunks_scraped_before, 0);
    }
}

#[test]
#[cfg(feature = "patches")]
fn a_chunk_that_was_scraped_while_it_waited_for_patches_is_offered_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    let mut packet = world.writer.packet();
    packet.message(900).bytes(1, &[1; 3000]);
    // The third is being written, and has no whole fragment.
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 2);
    drop(packet);
    world.writer.flush();
    let chunks: Vec<ChunkToMove> = world.queue.0.lock().unwrap().drain(..).collect();
    for chunk in chunks {
        world.move_to(0, chunk);
    }
    // The size is in the first one.
    let stats = world.endpoint.stats();
    assert_eq!((stats.chunks_moved, stats.chunks_scraped_before), (2, 1));
}

#[test]
#[cfg(feature = "patches")]
fn a_chunk_that_was_scraped_whole_before_one_that_waits_for_patches_is_not_offered_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    let first = world.write();
    // Of the next three chunks, the first has the size.
    world.writer.packet().message(900).bytes(1, &[1; 2500]);
    world.writer.flush();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 4);
    assert_eq!(world.read(), [DataLoss::empty()]);
    world.move_to(0, first);
    let chunks: Vec<ChunkToMove> = world.queue.0.lock().unwrap().drain(..).collect();
    for chunk in chunks {
        world.move_to(0, chunk);
    }
    assert_eq!(
        world.buffers[0].stats().chunks_discarded,
        0,
        "a chunk that was read is not one that came too late"
    );
    assert_eq!(world.endpoint.stats().chunks_scraped_before, 1);
    // Those scraped after these are recognised again.
    let late = [(); 2].map(|()| world.write());
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 2);
    late.into_iter().for_each(|chunk| world.move_to(0, chunk));
    assert_eq!(world.endpoint.stats().chunks_scraped_before, 3);
}

#[test]
fn a_chunk_that_is_still_written_is_offered_again_when_there_is_more_in_it() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    for _ in 0..3 {
        world.writer.packet().varint(8, 1);
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
        assert_eq!(world.read(), [DataLoss::empty()]);
        // Whatever becomes of the copy: its thread has nothing to do, and others lap over it.
        for _ in 0..3 {
            assert_eq!(world.endpoint.scrape(&mut world.buffers), 0);
            world.lap();
            world.read();
        }
    }
    world.write();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    assert_eq!(world.read(), [DataLoss::empty()]);
    assert_eq!(world.buffers[0].stats().chunks_discarded, 0);
}

#[test]
fn a_chunk_that_is_still_written_and_was_overwritten_before_it_was_read_is_offered_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    world.writer.packet().varint(8, 1);
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    world.lap();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    assert_eq!(world.read(), [DataLoss::empty()]);
}

#[test]
fn a_chunk_behind_one_that_was_not_complete_when_it_was_looked_at_waits_for_that() {
    const CHUNKS: usize = 8;
    let (mut words, storage) = (vec![0u32; CHUNKS * 16], ProducerStorage::<CHUNKS, 1>::new());
    let words = atomic_words(&mut words);
    let memory = SharedMemory::new(words, 64).unwrap();
    let queue = Queue::default();
    let producer = Producer::new(memory, Layout::One, &storage, &queue).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    let mut endpoint = ProducerEndpoint::<1>::new(Consumer::new(memory), IDENTITY);
    let mut buffers = [TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).unwrap()];
    assert!(endpoint.allow(0) && endpoint.register_writer(writer.id(), 0));
    writer.packet().varint(1, 1);
    assert_eq!(endpoint.scrape(&mut buffers), 1);
    // Over the end of the chunk, and one packet after it.
    writer.packet().bytes(1, &[2; 60]);
    writer.packet().varint(1, 3);
    let (being_written, complete) = (1, 3);
    let set_first = |state| words[0].store(words[0].load(Ordering::Relaxed) & !3 | state, Ordering::Relaxed);
    let mut lens = Vec::new();
    let mut read = |buffer: &mut TraceBuffer<Vec<u8>>| {
        let mut reader = buffer.read();
        while let Some(packet) = reader.next_packet() {
            assert_eq!(packet.loss(), DataLoss::empty());
            lens.push(packet.len());
        }
        lens.clone()
    };
    // The first chunk as seen by a scrape that looked at it before the writer went on, and at the second one after
    // that.
    set_first(being_written);
    assert_eq!(endpoint.scrape(&mut buffers), 0);
    assert_eq!(read(&mut buffers[0]), [5], "with what a first packet says");
    set_first(complete);
    assert_eq!(endpoint.scrape(&mut buffers), 2);
    assert_eq!(read(&mut buffers[0]), [5, 62, 2]);
}

#[test]
fn writers_that_are_not_registered_take_no_room_in_a_scrape() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    let mut writers = [(); 3].map(|()| world.producer.writer(0, Exhaustion::Drop).unwrap());
    world.writer.packet().varint(8, 1);
    for writer in &mut writers {
        writer.packet().varint(8, 1);
    }
    // As many as the endpoint has room for; those before them come first in memory.
    for writer in &writers[1..] {
        assert!(world.endpoint.register_writer(writer.id(), 0));
    }
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 2);
}

#[test]
#[cfg_attr(miri, ignore = "many chunks, and nothing unsafe")]
fn what_a_producer_leaves_in_a_large_memory_comes_out_wherever_in_it_the_oldest_is() {
    // On both sides, more than chunks may be late by in a buffer.
    const CHUNKS: usize = 12_000;
    let (mut words, storage) = (vec![0u32; CHUNKS * 16], ProducerStorage::<CHUNKS, 1>::new());
    let memory = SharedMemory::new(atomic_words(&mut words), 64).unwrap();
    let queue = Queue::default();
    let producer = Producer::new(memory, Layout::One, &storage, &queue).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    let mut endpoint = ProducerEndpoint::<1>::new(Consumer::new(memory), IDENTITY);
    assert!(endpoint.allow(0) && endpoint.register_writer(writer.id(), 0));
    let mut buffers = [TraceBuffer::new(vec![0; 2 << 20], Config::new(FillPolicy::RingBuffer)).unwrap()];
    let mut write = |chunks: usize| {
        for _ in 0..chunks {
            writer.packet().varint(8, 1);
            writer.flush();
        }
        std::mem::take(&mut *queue.0.lock().unwrap())
    };
    let chunks_to_move = &write(CHUNKS / 2)[..];
    endpoint.carry_out(&CommitRequest { chunks_to_move, ..CommitRequest::default() }, &mut buffers);
    write(CHUNKS);
    assert_eq!(endpoint.disconnect(&mut buffers), CHUNKS as u64);
    let (mut reader, mut packets) = (buffers[0].read(), 0);
    while let Some(packet) = reader.next_packet() {
        assert!(packet.loss().is_empty());
        packets += 1;
    }
    assert_eq!(packets, CHUNKS / 2 + CHUNKS);
}
