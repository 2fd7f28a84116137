//! Discarded chunks: a loss of what comes after them.

use super::*;

/// What is lost before each packet of a writer, where the service takes nothing of its first chunks.
fn after_discarded(scraped: bool, begin: impl Fn(&mut World)) -> Vec<DataLoss> {
    let mut world = World::new();
    for _ in 0..3 {
        let chunk = world.write();
        world.move_to(0, chunk);
    }
    assert_eq!((world.written(), world.endpoint.stats().chunks_discarded), ([0, 0], 3));
    begin(&mut world);
    if scraped {
        assert!(world.endpoint.register_writer(world.writer.id(), 0));
        world.writer.packet().varint(8, 1);
        assert_eq!(world.endpoint.scrape(&mut world.buffers), 1);
    }
    for _ in 0..2 {
        let chunk = world.write();
        world.move_to(0, chunk);
    }
    assert_eq!(world.endpoint.stats().chunks_discarded, 3);
    world.read()
}

const GAP: DataLoss = DataLoss::ANY.union(DataLoss::READ_GAP);

#[test]
fn what_a_producer_sent_before_it_was_allowed_is_a_loss_of_the_first_packet_after_it() {
    let allow = |world: &mut World| assert!(world.endpoint.allow(0));
    assert_eq!(after_discarded(false, allow), [GAP, DataLoss::empty()]);
    // Two packets in the first of the chunks.
    assert_eq!(after_discarded(true, allow), [GAP, DataLoss::empty(), DataLoss::empty()]);
}

#[test]
fn what_is_discarded_for_want_of_a_place_is_a_loss_where_there_is_one_later() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    for writer_id in [7, 8] {
        assert!(world.endpoint.register_writer(writer_id, 0));
    }
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.endpoint.stats().chunks_discarded, 1);
    world.endpoint.unregister_writer(7);
    for _ in 0..2 {
        let chunk = world.write();
        world.move_to(0, chunk);
    }
    assert_eq!(world.read(), [GAP, DataLoss::empty()]);
}

#[test]
fn what_is_discarded_between_chunks_is_told_once_and_of_no_other_writer() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0));
    let mut other = world.producer.writer(0, Exhaustion::Drop).expect("a second writer");
    for target in [0, 1, 0, 0] {
        let chunk = world.write();
        world.move_to(target, chunk);
        other.packet().varint(8, 1);
        other.flush();
        let chunk = world.completed();
        world.move_to(0, chunk);
    }
    let told = world.read();
    assert_eq!((told.len(), told.iter().filter(|loss| **loss == GAP).count()), (7, 1));
    assert_eq!(told.iter().filter(|loss| loss.is_empty()).count(), 6);
}

#[test]
fn where_a_buffer_refuses_the_first_chunk_after_it_the_next_one_tells_of_the_loss() {
    let mut world = World::new();
    let chunk = world.write();
    world.move_to(0, chunk);
    assert!(world.endpoint.allow(0));
    // Its table is full, and it keeps what it has.
    world.buffers[0] =
        TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::Discard).sequences(4)).unwrap();
    for writer_id in 1..=4 {
        let header = ChunkHeader { producer_id: 9, writer_id, fragments: 1, ..ChunkHeader::default() };
        world.buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
    }
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.buffers[0].stats().chunks_refused, 1);
    assert_eq!(world.read(), []);
    let chunk = world.write();
    world.move_to(0, chunk);
    assert_eq!(world.read(), [GAP]);
}

#[test]
fn what_is_discarded_of_one_writer_is_told_by_no_other_whatever_their_numbers() {
    let (memory, queue) = (memory(4 * 4096, 4096), Queue::default());
    let storage = ProducerStorage::<64, 40>::new();
    let producer = Producer::new(memory, Layout::Four, &storage, &queue).unwrap();
    let mut writers: Vec<_> = (0..33).map(|_| producer.writer(0, Exhaustion::Drop).unwrap()).collect();
    let mut endpoint = ProducerEndpoint::<2>::new(Consumer::new(memory), IDENTITY);
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffers = [TraceBuffer::new(vec![0; 8192], config).unwrap()];
    let mut send = |endpoint: &mut ProducerEndpoint<'_, 2>, writer: usize| {
        writers[writer].packet().varint(8, 1);
        writers[writer].flush();
        let chunks_to_move = &*std::mem::take(&mut *queue.0.lock().unwrap());
        endpoint.carry_out(&CommitRequest { chunks_to_move, ..CommitRequest::default() }, &mut buffers);
    };
    send(&mut endpoint, 0);
    assert!(endpoint.allow(0));
    // Their numbers differ by 32.
    [32, 32, 0, 0].iter().for_each(|writer| send(&mut endpoint, *writer));
    assert_eq!(endpoint.stats().chunks_discarded, 1);
    let mut reader = buffers[0].read();
    let told = std::iter::from_fn(|| reader.next_packet().map(|packet| (packet.writer_id(), packet.loss())));
    let none = DataLoss::empty();
    assert_eq!(told.collect::<Vec<_>>(), [(33, none), (33, none), (1, GAP), (1, none)]);
}
