//! Every packet that was begun is read, or counted once by the part that lost it: with writers, a slow service and a
//! ring smaller than the shared memory, step by step in one thread, in many thousands of orders.

use std::collections::VecDeque;
use std::sync::Mutex;
use tracebuf::buffer::{self, Chunk, ChunkFlags, Config, FillPolicy, TraceBuffer};
use tracebuf::producer::*;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

const WRITERS: usize = 2;

#[derive(Default)]
struct Queue(Mutex<VecDeque<Request>>);

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().unwrap().extend(request.each());
    }
}

struct Service<'m> {
    endpoint: ProducerEndpoint<'m, WRITERS>,
    buffers: [TraceBuffer<Vec<u8>>; 1],
    read: [u64; WRITERS],
}

impl Service<'_> {
    fn carry_out(&mut self, queue: &Queue, most: u32) {
        for _ in 0..most {
            let Some(request) = queue.0.lock().unwrap().pop_front() else { break };
            let _nobody_waits_for_it = self.endpoint.carry_out_one(&request, &mut self.buffers);
        }
    }

    fn read(&mut self, most: u32) {
        let [buffer] = &mut self.buffers;
        let mut reader = buffer.read();
        for _ in 0..most {
            let Some(packet) = reader.next_packet() else { break };
            self.read[usize::from(packet.writer_id()) - 1] += 1;
        }
    }
}

fn run(seed: u64, steps: u32, ring: u32) -> Result<(), String> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut dice = |sides: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % sides
    };
    let mut words = [0u32; 8 * 16];
    let memory = SharedMemory::new(atomic_words(&mut words), 64).unwrap();
    let (storage, queue) = (ProducerStorage::<8, WRITERS>::new(), Queue::default());
    let producer = Producer::new(memory, Layout::One, &storage, &queue).unwrap();
    let mut writers = [(); WRITERS].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 0 };
    let mut service = Service {
        endpoint: ProducerEndpoint::new(Consumer::new(memory), identity),
        buffers: [TraceBuffer::new(vec![0u8; config.region_size(ring) as usize], config).unwrap()],
        read: [0; WRITERS],
    };
    service.endpoint.allow(0);
    for writer in &writers {
        service.endpoint.register_writer(writer.id(), 0);
    }
    for _ in 0..steps {
        let writer = &mut writers[dice(WRITERS as u64) as usize];
        match dice(10) {
            0..=4 => {
                let size = match dice(8) {
                    0..=4 => dice(12),
                    5..=6 => 40 + dice(30),
                    _ => dice(200),
                };
                let mut packet = writer.packet();
                let mut message = packet.message(2);
                message.bytes(3, &[7; 200][..size as usize]);
                if dice(3) == 0 {
                    // Open until the writer goes on.
                    std::mem::forget(message);
                    std::mem::forget(packet);
                }
            }
            5 => drop(writer.flush()),
            6 => service.carry_out(&queue, 1 + dice(4) as u32),
            7 | 8 => drop(service.endpoint.scrape(&mut service.buffers)),
            _ => service.read(dice(6) as u32),
        }
    }
    for writer in &mut writers {
        writer.flush();
        service.carry_out(&queue, u32::MAX);
    }
    service.read(u32::MAX);
    let [buffer] = &mut service.buffers;
    if buffer.check()?.chunks != 0 {
        return Err("not all can be read".into());
    }
    for (writer, read) in writers.iter().zip(service.read) {
        let stats = writer.stats();
        // The buffer knows nothing of a writer that lost everything in shared memory.
        let sequence = buffer.sequences().find(|s| s.writer_id == writer.id());
        let lost = sequence.map_or(0, |s| s.packets_evicted + s.packets_broken + s.chunks_malformed);
        if read + stats.dropped + lost != stats.packets {
            return Err(format!("{read} read, {stats:?}, {sequence:?}"));
        }
    }
    Ok(())
}

#[test]
fn packets_read_dropped_evicted_and_broken_add_up_to_those_begun() {
    let (runs, lengths) = if cfg!(miri) { (1, &[6, 12][..]) } else { (3_000, &[6, 12, 25, 50][..]) };
    for steps in lengths {
        for seed in 1..=runs {
            for ring in [96, 200, 400, 1000] {
                run(seed, *steps, ring)
                    .unwrap_or_else(|what| panic!("seed {seed}, {steps} steps, ring of {ring}: {what}"));
            }
        }
    }
}

#[test]
fn a_packet_given_up_is_not_broken_though_its_middle_came_back_after_its_beginning_was_overwritten() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffer = TraceBuffer::new(vec![0u8; config.region_size(256) as usize], config).unwrap();
    let mut commit = |writer_id, chunk_id, flags: u8, payload: &[u8]| {
        let flags = ChunkFlags::from_bits_truncate(flags);
        let header = buffer::ChunkHeader {
            producer_id: 1,
            writer_id,
            chunk_id,
            fragments: 1,
            flags,
            ..Default::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload });
    };
    // Four chunks fill the ring.
    let payload = [&[39u8][..], &[1; 39]].concat();
    commit(1, 0, 2, &payload);
    commit(1, 1, 3, &payload);
    for filler in 0..4 {
        commit(2, filler, 0, &payload);
    }
    commit(1, 1, 3, &payload);
    commit(1, 2, 1, &[0xFF, 0xFF, 0xFF, 0x7F]);
    let mut reader = buffer.read();
    while reader.next_packet().is_some() {}
    let sequence = buffer.sequences().find(|s| s.writer_id == 1).unwrap();
    assert_eq!((sequence.packets_evicted, sequence.packets_broken), (0, 0));
}

#[test]
fn a_scrape_shows_older_chunks_of_a_writer_first_wherever_they_are() {
    let mut words = [0u32; 40 * 16];
    let memory = SharedMemory::new(atomic_words(&mut words), 64).unwrap();
    let (storage, queue) = (ProducerStorage::<40, WRITERS>::new(), Queue::default());
    let producer = Producer::new(memory, Layout::One, &storage, &queue).unwrap();
    let mut writers = [(); WRITERS].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    let mut consumer = Consumer::new(memory);
    // 40 chunks, of which the first 15 make room for newer ones.
    for chunk in 0..40 {
        writers[chunk % WRITERS].packet().bytes(1, &[0; 36]);
    }
    for page in 0..15 {
        drop(consumer.take(page, 0));
    }
    for chunk in 0..13 {
        writers[chunk % WRITERS].packet().bytes(1, &[0; 36]);
    }
    let mut shown = Vec::new();
    consumer.scrape::<WRITERS>(|chunk| shown.push((chunk.header().writer_id, chunk.header().chunk_id)));
    assert_eq!(shown.len(), 38);
    for writer in 1..=WRITERS as u16 {
        let ids: Vec<_> = shown.iter().filter(|(w, _)| *w == writer).map(|(_, id)| *id).collect();
        assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
    }
}

#[test]
fn chunks_that_bring_nothing_new_take_no_room_however_often_they_come() {
    let (ring, times) = if cfg!(miri) { (1 << 12, 4) } else { (1 << 16, 200) };
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffer = TraceBuffer::new(vec![0u8; config.region_size(ring) as usize], config).unwrap();
    let commit = |buffer: &mut TraceBuffer<Vec<u8>>, writer_id, chunk_id| {
        let header =
            buffer::ChunkHeader { producer_id: 1, writer_id, chunk_id, fragments: 1, ..Default::default() };
        // 40 bytes of packet, and slack after it as a chunk in shared memory has.
        buffer.commit_with(&header, 1000, |offset, to| {
            to.fill(1);
            to.iter_mut().take(1 - offset.min(1)).for_each(|size| *size = 40);
        })
    };
    let laps = 3 * ring / 64;
    for chunk_id in 0..laps {
        assert_eq!(commit(&mut buffer, 1, chunk_id), buffer::Commit::Written);
    }
    let mut reader = buffer.read();
    while reader.next_packet().is_some() {}
    let wraps = buffer.stats().write_wrap_count;
    for chunk_id in 0..10 {
        commit(&mut buffer, 2, chunk_id);
        for _ in 0..times {
            assert_eq!(commit(&mut buffer, 1, laps - 1), buffer::Commit::Discarded);
        }
    }
    assert_eq!(buffer.stats().write_wrap_count, wraps);
    let mut reader = buffer.read();
    assert_eq!(std::iter::from_fn(|| reader.next_packet().map(|_| ())).count(), 10);
}
