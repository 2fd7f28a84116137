//! Writers that have the number of an earlier one that has ended and, like Perfetto's, count their chunks from 0 again.

use super::*;

/// The writer ends, and the next one with the same number is there; nothing else is known of it.
fn next_life(world: &mut World) {
    next_writer(world);
    hear_of_it(world);
}

/// Like [`next_life`], before the service has heard of it.
fn next_writer(world: &mut World) {
    let id = world.writer.id();
    world.producer = producer(world.memory, Layout::Four, world.queue);
    world.writer = world.producer.writer(0, Exhaustion::Drop).unwrap();
    assert_eq!(world.writer.id(), id);
}

fn hear_of_it(world: &mut World) {
    let id = world.writer.id();
    world.endpoint.unregister_writer(id);
    assert!(world.endpoint.register_writer(id, 0));
}

fn alive() -> World {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    assert!(world.endpoint.register_writer(world.writer.id(), 0));
    world
}

fn sent(world: &mut World) {
    let chunk = world.write();
    world.move_to(0, chunk);
}

#[test]
fn what_each_has_written_is_there_and_nothing_is_missing() {
    for is_read in [false, true] {
        let mut world = alive();
        let mut packets = 0;
        for count in [3, 5, 2] {
            (0..count).for_each(|_| sent(&mut world));
            packets += count;
            if is_read {
                assert_eq!(world.read(), vec![DataLoss::empty(); count]);
            }
            next_life(&mut world);
        }
        if !is_read {
            assert_eq!(world.read(), vec![DataLoss::empty(); packets]);
        }
        assert_eq!(world.buffers[0].stats().chunks_written, packets as u64);
    }
}

#[test]
fn a_chunk_that_was_scraped_first_is_the_same_when_it_is_committed_and_takes_its_patches() {
    let mut world = alive();
    sent(&mut world);
    next_life(&mut world);
    let id = world.writer.id();
    let chunk = world.write();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    // Registered twice, it is still the same writer.
    assert!(world.endpoint.register_writer(id, 0));
    world.move_to(0, chunk);
    assert_eq!(world.read().len(), 2);
    sent(&mut world);
    // It has two chunks, and its patches are for these: patches for what was already read are counted, but change
    // nothing.
    for (chunk_id, told) in [(1, [1, 0]), (2, [1, 1])] {
        let patches = [ChunkPatch { chunk_id, offset: 0, data: [0; 4] }];
        let patch = ChunkToPatch { writer_id: id, target: 0, chunk_id, patches: &patches, has_more: true };
        let request = CommitRequest { chunks_to_patch: &[patch], ..CommitRequest::default() };
        world.endpoint.carry_out(&request, &mut world.buffers);
        let stats = world.buffers[0].stats();
        assert_eq!([stats.patches_succeeded, stats.patches_failed], told);
    }
    assert_eq!(world.buffers[0].stats().chunks_written, 3);
}

#[test]
fn one_that_goes_on_where_the_last_one_ended_does() {
    let mut world = alive();
    sent(&mut world);
    let id = world.writer.id();
    world.endpoint.unregister_writer(id);
    assert!(world.endpoint.register_writer(id, 0));
    sent(&mut world);
    assert_eq!(world.read(), [DataLoss::empty(); 2]);
}

#[test]
fn chunks_scraped_before_the_service_hears_whose_they_are_are_the_same_when_they_are_committed() {
    for (is_complete, is_read) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = alive();
        // The previous writer has written nothing.
        next_writer(&mut world);
        world.writer.packet().varint(8, 1);
        let first = is_complete.then(|| world.write());
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
        let mut read = if is_read { world.read() } else { Vec::new() };
        hear_of_it(&mut world);
        if let Some(chunk) = first {
            world.move_to(0, chunk);
        }
        (0..3).for_each(|_| sent(&mut world));
        read.extend(world.read());
        let packets = if is_complete { 5 } else { 4 };
        assert_eq!(read, vec![DataLoss::empty(); packets], "complete: {is_complete}, read: {is_read}");
        // From here on it has chunks of its own, and the next writer's follow them.
        next_life(&mut world);
        sent(&mut world);
        assert_eq!(world.read(), [DataLoss::empty()]);
    }
}

#[test]
fn the_same_writer_at_a_new_endpoint_is_known_by_its_ids_if_that_is_told() {
    let mut world = alive();
    let chunk = world.write();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    // As after a crash of the service. What was said earlier about the writer does not matter.
    let id = world.writer.id();
    world.endpoint = ProducerEndpoint::new(Consumer::new(world.memory), IDENTITY);
    assert!(!world.endpoint.register_counting_writer(id, 0), "not allowed");
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(id, 0));
    assert!(world.endpoint.register_counting_writer(id, 0));
    world.move_to(0, chunk);
    sent(&mut world);
    assert_eq!(world.read(), [DataLoss::empty(); 2]);
}

#[test]
fn what_was_scraped_into_the_buffer_of_the_one_before_does_not_count_in_another() {
    let mut world = alive();
    let id = world.writer.id();
    // One writer of this number had the second buffer; the next one has the first and writes nothing.
    assert!(world.endpoint.allow(1) && world.endpoint.register_writer(id, 1));
    for _ in 0..3 {
        let chunk = world.write();
        world.move_to(1, chunk);
    }
    next_life(&mut world);
    // The next one has the second buffer again, and is scraped before the service hears of it.
    next_writer(&mut world);
    let chunk = world.write();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    world.endpoint.unregister_writer(id);
    assert!(world.endpoint.register_writer(id, 1));
    world.move_to(1, chunk);
    world.buffers.swap(0, 1);
    assert_eq!(world.read(), [DataLoss::empty(); 4]);
}

/// A producer with the number of an earlier one, which has written `written` chunks to each buffer.
fn one_of_the_same_number(written: usize) -> World {
    let mut world = World::new();
    for target in [0, 1] {
        let chunk_ids = 0..written as u32;
        for chunk_id in chunk_ids {
            let header = ChunkHeader {
                producer_id: IDENTITY.producer_id,
                writer_id: world.writer.id(),
                chunk_id,
                fragments: 1,
                ..ChunkHeader::default()
            };
            world.buffers[target].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
        }
        assert!(world.endpoint.allow(target as u16));
    }
    assert_eq!(world.read().len(), written);
    world
}

/// This crate's writers count on from where the previous one of their number ended, even if its chunks were counted
/// behind those of another producer.
#[test]
fn writers_of_a_producer_that_has_the_number_of_another_go_on_where_the_last_one_ended() {
    for written in [0, 1, 50] {
        let mut world = one_of_the_same_number(written);
        let id = world.writer.id();
        for lives in 0..4 {
            assert!(world.endpoint.register_writer(id, 0));
            (0..lives).for_each(|_| sent(&mut world));
            world.endpoint.unregister_writer(id);
        }
        assert_eq!(world.read(), [DataLoss::empty(); 6], "{written} before");
        assert_eq!(world.buffers[0].stats().chunks_written, written as u64 + 6);
    }
}

#[test]
fn a_sequence_without_chunks_is_that_of_the_process_that_goes_on_with_it() {
    for is_read in [false, true] {
        let mut world = alive();
        sent(&mut world);
        let pids = |world: &mut World| {
            let mut reader = world.buffers[0].read();
            std::iter::from_fn(|| reader.next_packet().map(|packet| (packet.uid(), packet.pid()))).collect()
        };
        let before: Vec<_> = if is_read { pids(&mut world) } else { Vec::new() };
        // Another process has the number.
        let identity = ProducerIdentity { uid: 2000, pid: 43, ..IDENTITY };
        world.endpoint = ProducerEndpoint::new(Consumer::new(world.memory), identity);
        assert!(world.endpoint.allow(0));
        next_life(&mut world);
        sent(&mut world);
        let both = [before, pids(&mut world)].concat();
        assert_eq!(both, [(1000, 42), if is_read { (2000, 43) } else { (1000, 42) }]);
    }
}

#[test]
fn their_packets_are_all_there_where_they_write_to_one_buffer_after_the_other() {
    for written in [0, 50] {
        let mut world = one_of_the_same_number(written);
        let id = world.writer.id();
        // Some write nothing.
        for (target, chunks) in [(0, 3), (1, 0), (1, 3), (0, 3), (0, 0), (0, 3), (1, 0), (0, 0), (1, 3)] {
            assert!(world.endpoint.register_writer(id, target));
            for _ in 0..chunks {
                let chunk = world.write();
                world.move_to(target, chunk);
            }
            world.endpoint.unregister_writer(id);
        }
        assert_eq!(world.written(), [written as u64 + 9, written as u64 + 6], "{written} before");
        // Where its ids were another buffer's meanwhile, it may seem that some are missing.
        assert_eq!(world.read().len(), 9);
    }
}

#[test]
fn writers_that_have_ended_leave_their_places_to_others() {
    let mut world = one_of_the_same_number(50);
    let id = world.writer.id();
    for _ in 0..3 {
        assert!(world.endpoint.register_writer(id, 0));
        sent(&mut world);
        world.endpoint.unregister_writer(id);
        // As many at a time as there are places for, registered or not.
        assert!(world.endpoint.register_writer(id + 1, 0) && world.endpoint.register_writer(id + 2, 0));
        assert!(!world.endpoint.register_writer(id + 3, 0));
        world.endpoint.unregister_writer(id + 1);
        world.endpoint.unregister_writer(id + 2);
        sent(&mut world);
        assert!(world.endpoint.register_writer(id + 1, 0));
        assert!(!world.endpoint.register_writer(id + 2, 0));
        assert_eq!(world.endpoint.stats().chunks_discarded, 0);
        world.endpoint.unregister_writer(id + 1);
        world.endpoint.unregister_writer(id);
    }
}

/// The service restarts when it has heard of a writer that has since ended without a chunk, but not of the next one.
#[test]
fn what_a_new_endpoint_scrapes_before_it_hears_whose_it_is_does_not_come_again() {
    for is_counting in [false, true] {
        let mut world = alive();
        let id = world.writer.id();
        world.endpoint = ProducerEndpoint::new(Consumer::new(world.memory), IDENTITY);
        assert!(world.endpoint.allow(0));
        assert!(if is_counting {
            world.endpoint.register_counting_writer(id, 0)
        } else {
            world.endpoint.register_writer(id, 0)
        });
        let chunk = world.write();
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
        assert_eq!(world.read(), [DataLoss::empty()]);
        hear_of_it(&mut world);
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1, "offered, and known");
        world.move_to(0, chunk);
        sent(&mut world);
        assert_eq!(world.read(), [DataLoss::empty()], "counting: {is_counting}");
    }
}

#[test]
fn where_the_buffer_has_forgotten_those_before_nothing_seems_to_be_missing() {
    let mut world = alive();
    for chunks in [3, 1] {
        (0..chunks).for_each(|_| sent(&mut world));
        next_life(&mut world);
    }
    assert_eq!(world.read(), [DataLoss::empty(); 4]);
    // The table is full of others.
    for writer_id in 1..=64 {
        let header = ChunkHeader { producer_id: 9, writer_id, fragments: 1, ..ChunkHeader::default() };
        world.buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
    }
    assert_eq!(world.read(), []);
    (0..2).for_each(|_| sent(&mut world));
    assert_eq!(world.read(), [DataLoss::empty(); 2]);
}

#[test]
fn patches_that_come_late_are_for_the_chunks_of_their_own_writer() {
    for is_gone in [false, true] {
        let mut world = alive();
        sent(&mut world);
        next_life(&mut world);
        sent(&mut world);
        if is_gone {
            world.endpoint.disconnect(&mut world.buffers);
        } else {
            world.endpoint.unregister_writer(world.writer.id());
        }
        // Its first chunk is the buffer's second, and another has not come.
        for (chunk_id, told) in [(1, [0, 1]), (0, [1, 1])] {
            let patches = [ChunkPatch { chunk_id, offset: 0, data: [0; 4] }];
            let writer_id = world.writer.id();
            let patch = ChunkToPatch { writer_id, target: 0, chunk_id, patches: &patches, has_more: true };
            let request = CommitRequest { chunks_to_patch: &[patch], ..CommitRequest::default() };
            world.endpoint.carry_out(&request, &mut world.buffers);
            let stats = world.buffers[0].stats();
            assert_eq!([stats.patches_succeeded, stats.patches_failed], told, "gone: {is_gone}");
        }
    }
}
