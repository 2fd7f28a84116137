//! Numbers that start again at 0 after 2³²: chunk ids, flushes, and the counts of what is sent. And how long a sender
//! has to go on sending.

use super::*;
use crate::buffer::{Config, FillPolicy, TraceBuffer};
use crate::producer::{Consumer, Exhaustion, PATCHES, PacketHandle, TraceWriter, atomic_words};
use crate::proto::varint;
use crate::service::{ProducerEndpoint, ProducerIdentity};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::{vec, vec::Vec};

/// Carries out at once what it is asked; or leaves everything in shared memory, for a scrape.
struct Service<'m> {
    endpoint: ProducerEndpoint<'m, 1>,
    buffers: [TraceBuffer<Vec<u8>>; 1],
    is_away: bool,
    moved: usize,
    flushes: Vec<u32>,
}

struct Sink<'m>(Mutex<Service<'m>>);

impl<'m> Sink<'m> {
    fn service(&self) -> MutexGuard<'_, Service<'m>> {
        // A failing assertion must not make the writers' drops panic too.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommitSink for Sink<'_> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let service = &mut *self.service();
        service.moved += request.chunks_to_move.len();
        service.flushes.extend((request.flush != 0).then_some(request.flush));
        if !service.is_away {
            service.endpoint.carry_out(request, &mut service.buffers);
        }
    }
}

struct World<'a, 'm> {
    producer: &'a Producer<'a>,
    storage: &'a ProducerStorage<16, 1>,
    sink: &'a Sink<'m>,
}

/// Pages of one chunk of 64 bytes; the only writer's ids begin with this one.
fn with_world(pages: usize, first_chunk: u32, test: impl FnOnce(&World<'_, '_>)) {
    let (mut words, storage) = (vec![0; pages * 18], ProducerStorage::new());
    let memory = SharedMemory::new(atomic_words(&mut words), 72).unwrap();
    let identity = ProducerIdentity { producer_id: 1, uid: 2, pid: 3 };
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    assert!(endpoint.allow(0) && endpoint.register_writer(1, 0));
    let buffer = TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).unwrap();
    let service = Service { endpoint, buffers: [buffer], is_away: false, moved: 0, flushes: Vec::new() };
    let sink = Sink(Mutex::new(service));
    // As the previous writer left it, which had written that many chunks.
    storage.writers[0].next_chunk.store(first_chunk, Ordering::Relaxed);
    let producer = Producer::new(memory, Layout::One, &storage, &sink).unwrap();
    test(&World { producer: &producer, storage: &storage, sink: &sink });
}

impl<'a, 'm> World<'a, 'm> {
    fn writer(&self) -> TraceWriter<'a> {
        self.producer.writer(0, Exhaustion::Drop).unwrap()
    }

    fn service(&self) -> MutexGuard<'a, Service<'m>> {
        self.sink.service()
    }

    fn scrape(&self) -> u64 {
        let service = &mut *self.service();
        service.endpoint.scrape(&mut service.buffers)
    }

    /// Reads the packets that there are, in order; nothing is lost before any.
    fn read(&self) -> Vec<(u8, usize)> {
        let service = &mut *self.service();
        let mut reader = service.buffers[0].read();
        let mut packets = Vec::new();
        while let Some(packet) = reader.next_packet() {
            assert!(packet.loss().is_empty(), "{:?} before packet {}", packet.loss(), packets.len());
            let mut bytes = vec![0; packet.len()];
            packet.copy_to(&mut bytes).unwrap();
            packets.push(parse(&bytes));
        }
        packets
    }
}

/// A message whose size is written before it ends, with `len` bytes of one value in it.
fn write(mut packet: PacketHandle<'_, '_>, value: u8, len: usize) {
    packet.message(900).bytes(1, &vec![value; len]);
}

/// The value and the length of what [`write`] wrote.
fn parse(bytes: &[u8]) -> (u8, usize) {
    // A first packet says in front that it is one.
    let bytes = bytes.strip_prefix(&[0xB8, 0x05, 1]).unwrap_or(bytes);
    let bytes = bytes.strip_prefix(&[0xA2, 0x38]).expect("the message's tag");
    let (size, field) = varint::decode(bytes).unwrap();
    let bytes = &bytes[field..];
    assert_eq!(size, bytes.len() as u64);
    let (len, field) = varint::decode(&bytes[1..]).unwrap();
    let (bytes, value) = (&bytes[1 + field..], bytes[1 + field]);
    assert_eq!((bytes[0], len), (value, bytes.len() as u64));
    assert!(bytes.iter().all(|byte| *byte == value));
    (value, bytes.len())
}

#[test]
fn packets_of_any_length_pass_the_last_chunk_id_and_none_is_missed() {
    // Without patches a message may begin no further back than in the chunk before.
    let longest = if PATCHES { 300 } else { 40 };
    for before in (0..10).step_by(if cfg!(miri) { 5 } else { 1 }) {
        with_world(16, u32::MAX - before, |world| {
            let mut writer = world.writer();
            let packets = [(1, 10), (2, longest / 4), (3, longest), (4, 40), (5, longest), (6, 10)];
            for (value, len) in packets {
                write(writer.packet(), value, len);
            }
            writer.flush();
            assert_eq!(writer.stats().dropped, 0);
            assert_eq!(world.read(), packets, "{before} ids before the last");
            let chunks = writer.stats().chunks as u32;
            drop(writer);
            // The next writer goes on after that.
            let next = world.storage.writers[0].next_chunk.load(Ordering::Relaxed);
            assert_eq!(next, (u32::MAX - before).wrapping_add(chunks));
            let mut writer = world.writer();
            write(writer.packet(), 7, 10);
            writer.flush();
            assert_eq!(world.read(), [(7, 10)]);
            assert_eq!(world.service().buffers[0].stats().chunks_written, u64::from(chunks) + 1);
        });
    }
}

#[test]
fn a_scrape_shows_chunks_in_order_over_the_last_chunk_id_wherever_they_lie() {
    for before in (0..6).step_by(if cfg!(miri) { 3 } else { 1 }) {
        with_world(4, u32::MAX - before, |world| {
            let mut writer = world.writer();
            // The first two are drained: the last two come to lie before the others.
            for value in 1..7 {
                world.service().is_away = value > 2;
                write(writer.packet(), value, 30);
                if value < 6 {
                    writer.flush();
                }
            }
            assert_eq!(world.scrape(), 4, "three complete, and one that is being written");
            let expected: [_; 6] = core::array::from_fn(|index| (index as u8 + 1, 30));
            assert_eq!(world.read(), expected, "{before} ids before the last");
            // Nothing new: what has been read does not come again.
            world.scrape();
            assert_eq!(world.read(), []);
            core::mem::forget(writer);
        });
    }
}

#[test]
fn flushes_are_done_in_order_over_the_last_number() {
    with_world(4, 0, |world| {
        let producer = world.producer;
        // After very many flushes, all done. Their numbers are odd.
        producer.next_flush.store(u32::MAX - 2, Ordering::Relaxed);
        producer.flush_sent.store(u32::MAX - 2, Ordering::Relaxed);
        producer.flush_done.store(u32::MAX - 4, Ordering::Relaxed);
        let mut writer = world.writer();
        let flushes = [(); 4].map(|()| writer.flush());
        assert_eq!(flushes, [u32::MAX - 2, u32::MAX, 1, 3]);
        assert_eq!(world.service().flushes, flushes);
        assert!(flushes.iter().all(|flush| !producer.is_flushed(*flush)));
        for (done, flush) in flushes.into_iter().enumerate() {
            producer.flushed(flush);
            // An earlier one's acknowledgement comes late, and changes nothing.
            producer.flushed(flushes[0]);
            let said = flushes.map(|flush| producer.is_flushed(flush));
            assert_eq!(said, core::array::from_fn(|index| index <= done));
        }
    });
}

#[test]
fn half_of_the_memory_is_sent_over_the_last_of_the_counts() {
    for before in 0..3 {
        with_world(4, 0, |world| {
            world.producer.completed.store(u32::MAX - before, Ordering::Relaxed);
            world.producer.taken.store(u32::MAX - before, Ordering::Relaxed);
            let mut writer = world.writer();
            for chunks in 1..7 {
                // Fills a chunk except for a few bytes.
                write(writer.packet(), 1, 40);
                assert_eq!(writer.stats().chunks, chunks);
                assert_eq!(world.service().moved as u64, chunks / 2 * 2, "{before} before the last");
            }
        });
    }
}

/// While it carries out a request, a packet of another writer is given up.
struct Meanwhile;

static GIVEN_UP: Mutex<Option<TraceWriter<'static>>> = Mutex::new(None);
static WORDS: [AtomicU32; 4 * 18] = [const { AtomicU32::new(0) }; 4 * 18];
static STORAGE: ProducerStorage<4, 5> = ProducerStorage::new();
static PRODUCER: LazyLock<Producer<'static>> = LazyLock::new(|| {
    let memory = SharedMemory::new(&WORDS, 72).unwrap();
    Producer::new(memory, Layout::One, &STORAGE, &Meanwhile).unwrap()
});

impl CommitSink for Meanwhile {
    fn commit(&self, _: &CommitRequest<'_>) {
        let Some(mut writer) = GIVEN_UP.lock().unwrap().take() else { return };
        let state = || PRODUCER.sending.load(Ordering::Relaxed);
        assert_eq!(state(), SENDING);
        write(writer.packet(), 1, 100);
        assert_eq!((writer.stats().packets, writer.stats().dropped), (1, 1));
        assert_eq!(state(), SENDING, "nothing is there to be sent once more");
        // Its end is something to send, and so is a flush.
        drop(writer);
        assert_eq!(state(), AGAIN);
        assert!(!PRODUCER.commit(), "who sends does it once more");
    }
}

#[test]
fn a_packet_given_up_for_want_of_a_chunk_keeps_nobody_at_sending() {
    let mut writers = [(); 5].map(|()| PRODUCER.writer(0, Exhaustion::Drop));
    *GIVEN_UP.lock().unwrap() = writers[4].take();
    let [Some(first), rest @ ..] = &mut writers else { panic!("five writers") };
    // One chunk is complete and waits; the others are being written.
    write(first.packet(), 1, 40);
    rest.iter_mut().flatten().for_each(|writer| write(writer.packet(), 2, 2));
    assert!(PRODUCER.acquire().is_none() && PRODUCER.has_completed());
    assert!(PRODUCER.commit());
    assert!(GIVEN_UP.lock().unwrap().is_none());
    assert_eq!(PRODUCER.sending.load(Ordering::Relaxed), IDLE);
}

#[test]
fn a_chunk_that_the_other_side_took_away_while_it_was_written_is_not_sent() {
    with_world(4, 0, |world| {
        let (producer, chunk) = (world.producer, world.producer.acquire().unwrap());
        let word = producer.memory().bitmap(chunk >> 4).unwrap();
        assert!(change_state(word, chunk & 15, ChunkState::BeingWritten, ChunkState::Free));
        assert!(!producer.complete(chunk) && !producer.complete(NONE));
        assert_eq!((producer.has_completed(), producer.completed()), (false, 0));
    });
}

/// How often each chunk was named; a chunk is asked for at most that often.
struct Named(Mutex<Vec<u32>>);

impl CommitSink for Named {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut named = self.0.lock().unwrap();
        named.extend(request.chunks_to_move.iter().map(|chunk| chunk.page));
        assert!(named.len() < 100, "there is no end of them");
    }
}

#[test]
fn a_chunk_that_a_service_takes_before_it_is_sent_makes_no_endless_request() {
    // In the order that they are completed in; the service takes each at once.
    for order in
        [&[0, 0, 0][..], &[0, 1, 0], &[0, 1, 0, 2], &[0, 1, 2, 1], &[0, 1, 2, 1, 0, 2, 2], &[3, 3, 1, 2]]
    {
        let (mut words, storage, sink) =
            (vec![0; 64 * 18], ProducerStorage::<64, 1>::new(), Named(Mutex::default()));
        let memory = SharedMemory::new(atomic_words(&mut words), 72).unwrap();
        let producer = Producer::new(memory, Layout::One, &storage, &sink).unwrap();
        let mut consumer = Consumer::new(memory);
        for page in order {
            producer.hint.store(*page, Ordering::Relaxed);
            let chunk = producer.acquire().unwrap();
            assert_eq!(chunk >> 4, *page);
            assert!(!producer.complete(chunk));
            assert!(consumer.take(*page, 0).is_some());
        }
        producer.commit();
        let named = sink.0.lock().unwrap();
        assert!(
            named.len() <= 2 * order.len() && named.contains(order.last().unwrap()),
            "{order:?}: {named:?}"
        );
        assert!(!producer.has_completed());
    }
}

/// While it carries out a request, another writer fills a chunk: there is always something to send. Once, it asks for a
/// flush.
struct Always;

struct Writing {
    /// `None` while nobody writes meanwhile.
    writer: Option<TraceWriter<'static>>,
    requests: u32,
    chunks: u32,
    flushes: Vec<u32>,
    flushes_at: u32,
}

static WRITING: Mutex<Writing> =
    Mutex::new(Writing { writer: None, requests: 0, chunks: 0, flushes: Vec::new(), flushes_at: 0 });
static ALWAYS_WORDS: [AtomicU32; 8 * 18] = [const { AtomicU32::new(0) }; 8 * 18];
static ALWAYS_STORAGE: ProducerStorage<8, 2> = ProducerStorage::new();
static ALWAYS: LazyLock<Producer<'static>> = LazyLock::new(|| {
    let memory = SharedMemory::new(&ALWAYS_WORDS, 72).unwrap();
    Producer::new(memory, Layout::One, &ALWAYS_STORAGE, &Always).unwrap()
});

impl CommitSink for Always {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut consumer = Consumer::new(ALWAYS.memory());
        for chunk in request.chunks_to_move {
            assert!(consumer.take(chunk.page, chunk.chunk).is_some());
        }
        let mut writing = WRITING.lock().unwrap();
        writing.flushes.extend((request.flush != 0).then_some(request.flush));
        writing.chunks += request.chunks_to_move.len() as u32;
        writing.requests += 1;
        assert!(writing.requests < 100, "whoever sends is kept at it");
        let has_to_flush = writing.requests == writing.flushes_at;
        if let Some(writer) = &mut writing.writer {
            // As many as it takes to be asked for room.
            (0..4).for_each(|_| write(writer.packet(), 1, 40));
            if has_to_flush {
                writer.flush();
            }
        }
    }
}

#[test]
#[cfg_attr(tracebuf_small, ignore = "on microcontrollers whoever sends goes on")]
fn who_sends_has_done_its_share_when_that_is_as_much_as_there_is_memory_and_no_flush_is_forgotten() {
    // The flush is asked for before the sender has done its share, when it has, and never.
    for flushes_at in [1, 2, 0] {
        let other = ALWAYS.writer(0, Exhaustion::Drop);
        let mut writing = WRITING.lock().unwrap();
        *writing = Writing { writer: other, requests: 0, chunks: 0, flushes: Vec::new(), flushes_at };
        drop(writing);
        let mut first = ALWAYS.writer(0, Exhaustion::Drop).unwrap();
        write(first.packet(), 1, 40);
        assert!(ALWAYS.commit());
        assert_eq!(ALWAYS.sending.load(Ordering::Relaxed), IDLE);
        let mut writing = WRITING.lock().unwrap();
        let other = writing.writer.take();
        assert_eq!(writing.flushes.len(), usize::from(flushes_at > 0), "at {flushes_at}");
        let sent = writing.chunks;
        assert!((8..16).contains(&sent), "{sent} chunks, of eight that there are");
        assert!(ALWAYS.has_completed(), "what was written last");
        drop(writing);
        // The writer that completes the next one sends.
        write(first.packet(), 1, 40);
        assert!(WRITING.lock().unwrap().chunks >= sent + 4);
        drop((first, other));
    }
}
