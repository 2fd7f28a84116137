//! Writers that have the number of one that has ended, and count their chunks from 0 again, as Perfetto's do.

use super::*;

/// The writer ends, and the next one of the same number, of which nothing is known but that, is there.
fn next_life(world: &mut World) {
    let id = world.writer.id();
    world.endpoint.unregister_writer(id);
    world.producer = producer(world.memory, Layout::Four, world.queue);
    world.writer = world.producer.writer(0, Exhaustion::Drop).unwrap();
    assert_eq!(world.writer.id(), id);
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
    // Said twice, it is still the same writer.
    assert!(world.endpoint.register_writer(id, 0));
    world.move_to(0, chunk);
    assert_eq!(world.read().len(), 2);
    sent(&mut world);
    // It has two chunks, and its patches are for these: to what was read they are counted, and change nothing.
    for (chunk_id, told) in [(1, [1, 0]), (2, [1, 1])] {
        let patches = [Patch { chunk_id, offset: 0, data: [0; 4] }];
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
