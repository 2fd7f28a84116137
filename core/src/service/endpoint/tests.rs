//! Tests of what an endpoint costs.

use super::*;
use crate::buffer::{Config, FillPolicy};
use crate::producer::{
    CommitSink, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory, atomic_words,
};
use crate::steps::steps_of;
use std::{sync::Mutex, vec, vec::Vec};

const WRITERS: u16 = if cfg!(miri) { 32 } else { 1024 };

#[derive(Default)]
struct Queue(Mutex<Vec<ChunkToMove>>);

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().unwrap().extend(request.chunks_to_move);
    }
}

#[test]
fn a_chunk_of_one_of_many_writers_costs_some_looks_at_others() {
    let mut memory = vec![0u32; 16 * usize::from(WRITERS)];
    let memory = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
    let (queue, storage) =
        (Queue::default(), ProducerStorage::<{ WRITERS as usize }, { WRITERS as usize }>::new());
    let producer = Producer::new(memory, Layout::One, &storage, &queue).unwrap();
    let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 0 };
    let mut endpoint = ProducerEndpoint::<{ WRITERS as usize }>::new(Consumer::new(memory), identity);
    endpoint.allow(0);
    let mut writers: Vec<_> = (0..WRITERS).map(|_| producer.writer(0, Exhaustion::Drop).unwrap()).collect();
    for writer in &mut writers {
        writer.packet().varint(8, 1);
        writer.flush();
        assert!(endpoint.register_writer(writer.id(), 0));
    }
    let looks = u64::from(WRITERS.ilog2() + 1);
    // Twice for the endpoint, in three walks for the scrape, the first of which also joins new writers to those that it
    // has seen, many at once. There is no buffer, whose steps would be counted as well.
    let (_, steps) = steps_of(|| endpoint.scrape::<[TraceBuffer<Vec<u8>>]>(&mut []));
    let most = u64::from(WRITERS) * 6 * looks;
    assert!(steps > u64::from(WRITERS) && steps <= most, "{steps} steps for a scrape, at most {most}");
    // A buffer that has no place for most of them, so that it takes few steps.
    let config = Config::new(FillPolicy::Discard).sequences(4);
    let mut buffers = [TraceBuffer::new(vec![0; 2048], config).unwrap()];
    let chunks = queue.0.lock().unwrap();
    assert_eq!(chunks.len(), usize::from(WRITERS));
    for chunk in chunks.iter() {
        let request = CommitRequest { chunks_to_move: core::slice::from_ref(chunk), ..Default::default() };
        let ((), steps) = steps_of(|| endpoint.carry_out(&request, &mut buffers));
        assert!(steps >= looks - 2 && steps <= looks + 16, "{steps} steps for a chunk");
    }
}
