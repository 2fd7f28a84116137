//! Producers that have gone.

use super::{IDENTITY, World};
use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, DataLoss, FillPolicy, TraceBuffer};
use tracebuf::producer::Consumer;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

#[test]
#[cfg_attr(miri, ignore = "many buffers, and nothing unsafe")]
fn a_producer_can_go_whatever_the_number_of_buffers() {
    let mut world = World::new();
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let small = || TraceBuffer::new(vec![0; config.region_size(64) as usize], config).unwrap();
    let mut buffers: Vec<_> = (0..=1 << 16).map(|_| small()).collect();
    assert_eq!(world.endpoint.disconnect(&mut buffers[..]), 0);
}

#[test]
fn producers_that_have_gone_leave_their_places_to_others() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffers = [TraceBuffer::new(vec![0; 1 << 20], config).unwrap()];
    for producer_id in 1..20 {
        let mut world = World::new();
        let identity = ProducerIdentity { producer_id, ..IDENTITY };
        world.endpoint = ProducerEndpoint::new(Consumer::new(world.memory), identity);
        assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
        world.writer.packet().varint(8, 1);
        // Ends in the middle of another packet.
        std::mem::forget(world.writer);
        assert_eq!(world.endpoint.disconnect(&mut buffers), 1);
        let (mut reader, mut packets) = (buffers[0].read(), 0);
        while let Some(packet) = reader.next_packet() {
            assert!((packet.producer_id(), packet.loss()) == (producer_id, DataLoss::empty()));
            packets += 1;
        }
        assert_eq!(packets, 1, "of producer {producer_id}");
    }
    assert_eq!(buffers[0].stats().chunks_refused, 0);
}

#[test]
fn nothing_waits_for_a_producer_that_has_gone_in_the_buffers_that_it_may_write_to() {
    let mut world = World::new();
    assert!(world.endpoint.allow(1) && world.endpoint.register_writer(world.writer.id(), 1));
    // In both buffers, a packet that was to go on and one behind it, each in a chunk of its own.
    for buffer in &mut world.buffers {
        for (writer_id, flags) in [(1, ChunkFlags::CONTINUES_ON_NEXT), (2, ChunkFlags::empty())] {
            let header = ChunkHeader {
                producer_id: IDENTITY.producer_id,
                writer_id,
                fragments: 1,
                flags,
                complete: true,
                ..ChunkHeader::default()
            };
            buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x01" });
        }
    }
    assert_eq!(world.endpoint.disconnect(&mut world.buffers), 0);
    for (buffer, given_up) in world.buffers.iter_mut().zip([0, 1]) {
        let mut reader = buffer.read();
        assert_eq!(std::iter::from_fn(|| reader.next_packet().map(|packet| packet.len())).count(), 1);
        assert_eq!(buffer.stats().trace_writer_packet_loss, given_up);
    }
}

#[test]
fn a_producer_that_has_gone_is_not_scraped_again() {
    let mut world = World::new();
    assert!(world.endpoint.allow(0) && world.endpoint.register_writer(world.writer.id(), 0));
    let chunk = world.write();
    world.writer.packet().varint(8, 1);
    assert_eq!(world.endpoint.disconnect(&mut world.buffers), 2);
    // Nobody has read its chunks before they are overwritten.
    world.lap();
    assert_eq!(world.endpoint.scrape(&mut world.buffers), 0);
    assert_eq!(world.endpoint.disconnect(&mut world.buffers), 0);
    world.move_to(0, chunk);
    assert_eq!(world.endpoint.stats().chunks_missing, 0);
}
