//! A writer and somebody else who sends: patches, and the ends of writers.

use crate::{leak, model};
use loom::sync::Mutex;
use loom::thread;
use tracebuf::producer::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Register { writer: u16, target: u16 },
    Unregister { writer: u16 },
    Move { writer: u16, chunk: u32, target: u16, needs_patching: bool },
    Patch { writer: u16, chunk: u32, has_more: bool },
}

/// A service that is a call away, and keeps what it was asked for.
struct Service(Mutex<(Consumer<'static>, Vec<Asked>)>);

impl Service {
    fn note(&self, asked: Asked) {
        self.0.lock().unwrap().1.push(asked);
    }

    fn asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().1.clone()
    }
}

impl CommitSink for Service {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (consumer, asked) = &mut *self.0.lock().unwrap();
        for wanted in request.chunks_to_move {
            let chunk = consumer.take(wanted.page, wanted.chunk).expect("what is sent is complete");
            let SmbChunkHeader { writer_id, chunk_id, flags, .. } = chunk.header();
            let needs_patching = flags.contains(HeaderFlags::NEEDS_PATCHING);
            asked.push(Asked::Move {
                writer: writer_id,
                chunk: chunk_id,
                target: wanted.target,
                needs_patching,
            });
        }
        for wanted in request.chunks_to_patch {
            let ChunkToPatch { writer_id, chunk_id, has_more, .. } = *wanted;
            asked.push(Asked::Patch { writer: writer_id, chunk: chunk_id, has_more });
        }
    }

    fn register_writer(&self, writer: u16, target: u16) {
        self.note(Asked::Register { writer, target });
    }

    fn unregister_writer(&self, writer: u16) {
        self.note(Asked::Unregister { writer });
    }
}

/// A producer with room for one writer, of `pages` pages of two chunks of 32 bytes.
fn producer(pages: usize) -> (&'static Producer<'static>, &'static Service) {
    let words: &'static [AtomicU32] = Vec::leak((0..18 * pages).map(|_| AtomicU32::new(0)).collect());
    let memory = SharedMemory::new(words, 72).unwrap();
    let service: &'static Service = leak(Service(Mutex::new((Consumer::new(memory), Vec::new()))));
    let storage: &'static ProducerStorage<4, 1> = leak(ProducerStorage::new());
    (leak(Producer::new(memory, Layout::Two, storage, service).unwrap()), service)
}

#[test]
fn a_chunk_given_away_with_a_promise_is_patched_once_after_it_was_sent() {
    model(2, || {
        let (producer, service) = producer(2);
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let other = thread::spawn(move || producer.commit());
        // A message over three chunks, and one that has the same place in the list of patches.
        for _ in 0..2 {
            writer.packet().message(1).bytes(2, &[0x2A; 36]);
        }
        let dropped = writer.stats().dropped;
        std::mem::forget(writer);
        other.join().unwrap();
        producer.commit();
        let asked = service.asked();
        let mut promised = 0;
        for (place, one) in asked.iter().enumerate() {
            if let Asked::Move { writer, chunk, needs_patching: true, .. } = *one {
                promised += 1;
                let (before, after) = asked.split_at(place);
                let patch = |has_more| Asked::Patch { writer, chunk, has_more };
                assert!(!before.contains(&patch(false)) && !before.contains(&patch(true)));
                assert_eq!(after.iter().filter(|other| **other == patch(false)).count(), 1, "{asked:?}");
            }
        }
        let patched = asked.iter().filter(|one| matches!(one, Asked::Patch { .. })).count();
        assert_eq!(patched, promised, "one field each: {asked:?}");
        assert!(promised as u64 + dropped >= 2);
    });
}

#[test]
fn all_chunks_of_a_writer_come_between_its_start_and_its_end() {
    model(3, || {
        let (producer, service) = producer(1);
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let other = thread::spawn(move || producer.commit());
        writer.packet().varint(1, 0x2A);
        drop(writer);
        // Its id is free once somebody has told of its end.
        if let Some(mut next) = producer.writer(1, Exhaustion::Drop) {
            next.packet().varint(1, 0x2A);
        }
        other.join().unwrap();
        producer.commit();
        let mut open = None;
        let mut chunks = 0..;
        for one in service.asked() {
            match one {
                Asked::Register { target, .. } => assert_eq!(open.replace(target), None),
                Asked::Move { chunk, target, .. } => {
                    assert_eq!((open, Some(chunk)), (Some(target), chunks.next()));
                }
                Asked::Unregister { .. } => assert!(open.take().is_some()),
                Asked::Patch { .. } => panic!("nothing was promised"),
            }
        }
        assert_eq!(open, None, "everybody has ended");
        assert!(producer.writer(0, Exhaustion::Drop).is_some());
    });
}
