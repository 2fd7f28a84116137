//! A thread with few events, in a ring that others fill, and from which snapshots are taken.

use crate::model::{Model, Pace, Value, fields, memory};
use std::sync::Mutex;
use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

const RING: u32 = 16 * 1024;
/// In pages of 256 bytes.
const CHUNK: usize = 248;

static SLOW: Track<'static> = Track::thread(1, 2, "slow");

struct Service<'m>(Mutex<(ProducerEndpoint<'m, 2>, [TraceBuffer<Vec<u8>>; 1])>);

impl CommitSink for Service<'_> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (endpoint, buffers) = &mut *self.0.lock().unwrap();
        endpoint.carry_out(request, buffers);
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        assert!(self.0.lock().unwrap().0.register_writer(writer_id, target));
    }
}

impl Service<'_> {
    fn scrape(&self) {
        let (endpoint, buffers) = &mut *self.0.lock().unwrap();
        endpoint.scrape(buffers);
    }

    /// Whether the last packet that the first writer has in the ring is an event, with the state that it needs.
    fn ends_in_an_event(&self) -> bool {
        let (_, [ring]) = &mut *self.0.lock().unwrap();
        let (mut reader, mut has_state, mut ends_well) = (ring.read(), false, false);
        while let Some(packet) = reader.next_packet() {
            if packet.writer_id() != 1 {
                continue;
            }
            let mut bytes = vec![0; packet.len()];
            packet.copy_to(&mut bytes).unwrap();
            let all = fields(&bytes);
            let starts = all.contains(&(13, Value::Int(3)));
            has_state = starts || has_state && packet.loss().is_empty();
            ends_well = has_state && all.iter().any(|(field, _)| *field == 11);
        }
        ends_well
    }
}

#[test]
fn a_state_is_not_begun_in_a_chunk_that_a_scrape_has_put_where_the_ring_will_soon_be_overwritten() {
    let step = if cfg!(miri) { 24 } else { 1 };
    // As many chunks as fill the ring, and a little less than a quarter of it.
    for before in (1..60).step_by(step) {
        for behind in (0..15).step_by(step.min(7)) {
            let mut words = vec![0; 16 * 64];
            let memory = SharedMemory::new(atomic_words(&mut words), 256).unwrap();
            let config = Config::new(FillPolicy::RingBuffer).sequences(4);
            let ring = TraceBuffer::new(vec![0; config.region_size(RING) as usize], config).unwrap();
            let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 0 };
            let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
            endpoint.allow(0);
            let service = Service(Mutex::new((endpoint, [ring])));
            let storage = ProducerStorage::<16, 2>::new();
            let producer = Producer::new(memory, Layout::One, &storage, &service).unwrap();
            let [slow, mut other] = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
            let config = TracerConfig::new(1_000_000_000).state_every(RING / 4);
            let slow = Tracer::new(slow, || 0, &SLOW, config);
            let mut fill = |chunks: usize| {
                (0..chunks).for_each(|_| other.packet().bytes(900, &[7; CHUNK - 26]));
            };
            slow.track().instant("seen by a scrape");
            service.scrape();
            fill(before);
            // The last of them go on in the next chunk.
            (0..12).for_each(|_| slow.track().instant("of a new state"));
            fill(behind);
            slow.track().instant("last");
            slow.flush();
            assert!(service.ends_in_an_event(), "{before} chunks before the state, {behind} behind it");
        }
    }
}

/// Whether a state begins in a chunk of its own if the one that the writer has is `age` chunks old.
fn has_its_own_chunk<const WRITERS: usize>(lifetime: u32, age: usize) -> bool {
    let memory = memory(32 * 1024, 1024);
    let model = Model::new(memory, Pace::Prompt);
    let storage = ProducerStorage::<32, WRITERS>::new();
    let producer = Producer::new(memory, Layout::One, &storage, model).unwrap();
    let [slow, mut other] = [(); 2].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
    let config = TracerConfig::new(1_000_000_000).state_every(lifetime * 1020);
    let slow = Tracer::new(slow, || 0, &SLOW, config);
    slow.track().instant("in a state");
    for _ in 0..age {
        other.packet().varint(1, 1);
        other.flush();
    }
    producer.clear_incremental_state();
    slow.track().instant("in the next");
    slow.flush();
    let chunks = model.state().chunks.keys().filter(|(writer, _)| *writer == 1).count();
    assert!(chunks == 1 || chunks == 2, "{chunks} chunks");
    chunks == 2
}

#[test]
fn a_chunk_is_old_by_how_long_states_last_and_by_how_many_writers_there_can_be() {
    // One and a half times as long as a state, but at least 16 chunks, or two for each writer if that is less.
    for (has_its_own_chunk, lifetime, oldest) in [
        (has_its_own_chunk::<2> as fn(_, _) -> _, 1, 4),
        (has_its_own_chunk::<2>, 5, 7),
        (has_its_own_chunk::<2>, 8, 12),
        (has_its_own_chunk::<3>, 1, 6),
        (has_its_own_chunk::<8>, 1, 16),
        (has_its_own_chunk::<32>, 1, 16),
        (has_its_own_chunk::<32>, 12, 18),
    ] {
        let ages = [oldest, oldest + 1, oldest - 1, 0, 3, 20];
        for age in ages.into_iter().take(if cfg!(miri) { 2 } else { 6 }) {
            assert_eq!(has_its_own_chunk(lifetime, age), age > oldest, "{age} of {oldest}");
        }
    }
}
