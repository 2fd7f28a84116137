//! A writer that writes again just when its chunk is taken back by another one, which has none.

use crate::{leak, model};
use loom::sync::Mutex;
use loom::sync::atomic::{Ordering, fence};
use loom::thread;
use tracebuf::producer::*;

/// A chunk that was moved: its writer, its number, and the value in each of its packets.
type Moved = (u16, u32, Vec<u8>);

struct Service(Mutex<(Consumer<'static>, Vec<Moved>)>);

impl CommitSink for Service {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (consumer, moved) = &mut *self.0.lock().unwrap();
        for ChunkToMove { page, chunk, .. } in request.chunks_to_move {
            let chunk = consumer.take(*page, *chunk).expect("what is sent is complete");
            let SmbChunkHeader { writer_id, chunk_id, fragments, .. } = chunk.header();
            let byte = |offset| {
                let mut byte = [0];
                chunk.fill(offset, &mut byte);
                byte[0]
            };
            let (mut offset, mut values) = (0, Vec::new());
            for _ in 0..fragments {
                let size = usize::from(byte(offset));
                offset += 1 + size;
                // The packet that was counted and not written is empty.
                values.extend((size != 0).then(|| byte(offset - 1)));
            }
            moved.push((writer_id, chunk_id, values));
        }
    }

    fn thread_fence(&self) -> Option<fn() -> bool> {
        Some(|| {
            fence(Ordering::SeqCst);
            true
        })
    }
}

/// Pages of one chunk of 64 bytes.
fn producer(pages: usize) -> (&'static Producer<'static>, &'static Service) {
    let words: &'static [AtomicU32] = Vec::leak((0..18 * pages).map(|_| AtomicU32::new(0)).collect());
    let memory = SharedMemory::new(words, 72).unwrap();
    let service: &'static Service = leak(Service(Mutex::new((Consumer::new(memory), Vec::new()))));
    let storage: &'static ProducerStorage<2, 3> = leak(ProducerStorage::new());
    (leak(Producer::new(memory, Layout::One, storage, service).unwrap()), service)
}

fn write(writer: &mut TraceWriter<'_>, value: u8) {
    writer.packet().varint(1, value.into());
}

/// Each writer's chunks are there once and in order, and so are its packets, except those that it gave up.
fn check(service: &Service, written_and_dropped: &[(u64, u64)]) {
    let (_, moved) = &*service.0.lock().unwrap();
    for (writer, (written, dropped)) in (1..).zip(written_and_dropped) {
        let its = moved.iter().filter(|(id, ..)| *id == writer);
        assert!(its.clone().map(|(_, chunk, _)| *chunk).eq(0..its.clone().count() as u32), "{moved:?}");
        let values: Vec<u8> = its.flat_map(|(_, _, values)| values.clone()).collect();
        assert!(values.is_sorted_by(|one, next| one < next), "{moved:?}");
        assert_eq!(values.len() as u64 + dropped, *written, "of writer {writer}: {moved:?}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn what_two_writers_write_that_share_a_chunk_is_there_or_counted() {
    model(1, || {
        let (producer, service) = producer(1);
        let mut one = producer.writer(0, Exhaustion::Drop).unwrap();
        let mut other = producer.writer(0, Exhaustion::Drop).unwrap();
        write(&mut one, 1);
        let thread = thread::spawn(move || {
            write(&mut one, 2);
            one
        });
        // There is no free chunk.
        write(&mut other, 1);
        let mut one = thread.join().unwrap();
        one.flush();
        other.flush();
        let dropped = [&one, &other].map(|writer| writer.stats().dropped);
        check(service, &[(2, dropped[0]), (1, dropped[1])]);
    });
}

#[test]
#[ignore = "takes an hour"]
fn a_chunk_that_is_taken_back_comes_after_those_before_it_and_before_those_after_it() {
    model(1, || {
        let (producer, service) = producer(2);
        let [mut one, mut other, mut idle] = [(); 3].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
        write(&mut one, 1);
        write(&mut idle, 1);
        let thread = thread::spawn(move || {
            // There is no free chunk.
            write(&mut other, 1);
            other.flush();
            let dropped = other.stats().dropped;
            std::mem::forget(other);
            dropped
        });
        for value in [2, 3] {
            write(&mut one, value);
            one.flush();
        }
        let dropped = one.stats().dropped;
        let others = thread.join().unwrap();
        idle.flush();
        let _ = [one, idle].map(std::mem::forget);
        producer.commit();
        check(service, &[(3, dropped), (1, others), (1, 0)]);
    });
}
