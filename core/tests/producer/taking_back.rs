//! Chunks of idle writers, taken back for those that need one.
#![cfg(not(tracebuf_small))]

use crate::model::{self, memory};
use std::sync::Mutex;
use tracebuf::producer::*;
use tracebuf::proto::varint;

/// Takes chunks at once, and says that all threads have passed a fence: there is only one.
struct Service {
    consumer: Mutex<Consumer<'static>>,
    /// The writer, number and payload of each chunk.
    moved: Mutex<Vec<(u16, u32, Vec<u8>)>>,
    fences: bool,
}

impl CommitSink for Service {
    fn commit(&self, request: &CommitRequest<'_>) {
        for ChunkToMove { page, chunk, .. } in request.chunks_to_move {
            let mut consumer = self.consumer.lock().unwrap();
            let chunk = consumer.take(*page, *chunk).expect("what is sent is complete");
            let SmbChunkHeader { writer_id, chunk_id, fragments, .. } = chunk.header();
            let mut payload = vec![0; chunk.len()];
            chunk.fill(0, &mut payload);
            let (mut values, mut at) = (Vec::new(), 0);
            for _ in 0..fragments {
                let (size, header) = varint::decode(&payload[at..]).expect("a size");
                at += header + size as usize;
                values.extend((size > 0).then(|| payload[at - 1]));
            }
            self.moved.lock().unwrap().push((writer_id, chunk_id, values));
        }
    }

    fn thread_fence(&self) -> Option<fn() -> bool> {
        self.fences.then_some(|| true)
    }

    fn stall(&self, _: u32, _: u32) -> bool {
        false
    }
}

/// So many chunks of 64 bytes.
fn world(chunks: usize, fences: bool) -> (&'static Service, &'static Producer<'static>) {
    let memory = memory(72 * chunks, 72);
    let service = Service { consumer: Mutex::new(Consumer::new(memory)), moved: Mutex::default(), fences };
    let service: &'static Service = Box::leak(Box::new(service));
    (service, model::producer(memory, Layout::One, service))
}

fn write(writer: &mut TraceWriter<'_>, value: u8) {
    writer.packet().varint(1, value.into());
}

impl Service {
    fn moved(&self) -> Vec<(u16, u32, Vec<u8>)> {
        self.moved.lock().unwrap().clone()
    }
}

#[test]
fn a_writer_that_finds_no_chunk_gets_one_of_those_that_write_nothing_and_these_go_on_behind() {
    let (service, producer) = world(2, true);
    let [mut one, mut two, mut three] = [(); 3].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
    write(&mut one, 1);
    write(&mut one, 2);
    write(&mut two, 1);
    assert_eq!(service.moved(), []);
    write(&mut three, 1);
    assert_eq!(service.moved(), [(1, 0, vec![1, 2]), (2, 0, vec![1])]);
    write(&mut one, 3);
    write(&mut two, 2);
    for writer in [&mut one, &mut two, &mut three] {
        writer.flush();
    }
    let mut rest = service.moved().split_off(2);
    rest.sort();
    assert_eq!(rest, [(1, 1, vec![3]), (2, 1, vec![2]), (3, 0, vec![1])]);
    for writer in [&one, &two] {
        assert_eq!((writer.stats().dropped, writer.stats().chunks), (0, 2));
    }
}

#[test]
fn without_a_fence_and_within_a_packet_writers_keep_their_chunks() {
    for fences in [false, true] {
        let (service, producer) = world(2, fences);
        let [mut one, mut two, mut three] = [(); 3].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
        write(&mut one, 1);
        let mut open = one.packet();
        open.varint(1, 2);
        write(&mut two, 1);
        write(&mut three, 1);
        let taken = if fences { &[(2, 0, vec![1])][..] } else { &[] };
        assert_eq!((&service.moved()[..], three.stats().dropped), (taken, u64::from(!fences)));
        drop(open);
        one.flush();
        assert_eq!(service.moved().last(), Some(&(1, 0, vec![1, 2])));
    }
}

#[test]
fn a_packet_that_was_forgotten_keeps_its_chunk_until_the_next_one_has_ended() {
    let (service, producer) = world(2, true);
    let [mut one, mut two, mut three] = [(); 3].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
    let mut forgotten = one.packet();
    forgotten.varint(1, 1);
    std::mem::forget(forgotten);
    write(&mut two, 1);
    write(&mut three, 1);
    assert_eq!(service.moved(), [(2, 0, vec![1])]);
    write(&mut one, 2);
    // Both of its packets are whole now, and there is no free chunk.
    write(&mut two, 2);
    assert!(service.moved().contains(&(1, 0, vec![1, 2])), "{:?}", service.moved());
}

#[test]
fn when_writers_hold_much_of_the_memory_those_that_write_nothing_lose_their_chunks_before_it_is_full() {
    let (service, producer) = world(16, true);
    let mut busy = producer.writer(40, Exhaustion::Drop).unwrap();
    let mut idle: Vec<_> = (0..7).map(|_| producer.writer(40, Exhaustion::Drop).unwrap()).collect();
    // A chunk each.
    let mut fill = |chunks| (0..chunks).for_each(|_| busy.packet().bytes(1, &[9; 44]));
    idle[..3].iter_mut().for_each(|writer| write(writer, 1));
    fill(100);
    let of_idle = || service.moved().into_iter().filter(|(writer, ..)| *writer != 1).collect::<Vec<_>>();
    assert_eq!(of_idle(), [], "a quarter of it is not much");
    idle[3..].iter_mut().for_each(|writer| write(writer, 1));
    fill(100);
    let taken = (2..=5).map(|writer| (writer, 0, vec![1])).collect::<Vec<_>>();
    assert_eq!(of_idle(), taken, "and then they hold no more than that");
    assert_eq!((busy.stats().dropped, busy.stats().chunks), (0, 200));
}
