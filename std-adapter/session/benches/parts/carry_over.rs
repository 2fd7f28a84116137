//! What it costs the drain thread to carry over what packets mean that a ring overwrites.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, OverwriteObserver, TraceBuffer};
use tracebuf::producer::track_event::{Clock, OnTrack, Tracer, TracerConfig, Track};
use tracebuf::producer::{
    CommitRequest, CommitSink, Consumer, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory,
    atomic_words,
};
use tracebuf::proto::fields::{trace, trace_packet};
use tracebuf::proto::{Sink, TracePackets};
use tracebuf::service::{TraceExporter, sequence_id};
use tracebuf_session::CarryOver;
use tracebuf_testing::budget::{Sheet, median};

/// A clock that costs one addition, and gives times of two bytes, like real ones.
struct Ticks(Cell<u64>);

impl Clock for Ticks {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 300);
        self.0.get()
    }
}

/// What a producer has sent.
type Chunks = Vec<(ChunkHeader, Vec<u8>)>;

/// Keeps the chunks that are sent.
struct Kept<'m>(Mutex<(Consumer<'m>, Chunks)>);

impl CommitSink for Kept<'_> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut kept = self.0.lock().expect("nobody panics");
        let (consumer, chunks) = &mut *kept;
        for wanted in request.chunks_to_move {
            let chunk = consumer.take(wanted.page, wanted.chunk).expect("it is there");
            let mut bytes = vec![0; chunk.len()];
            chunk.fill(0, &mut bytes);
            let (header, own) = (chunk.header(), ChunkFlags::from_bits_truncate);
            let header = ChunkHeader {
                producer_id: 1,
                writer_id: header.writer_id,
                chunk_id: header.chunk_id,
                fragments: header.fragments,
                flags: own(header.flags.bits()) - ChunkFlags::NEEDS_PATCHING,
                complete: true,
                ..ChunkHeader::default()
            };
            chunks.push((header, bytes));
        }
    }
}

/// The chunks of one thread that does this so often.
fn chunks(count: u32, work: impl Fn(OnTrack<'_, '_, Ticks>, u32)) -> Chunks {
    let mut words = vec![0u32; 256 * 1024];
    let memory = SharedMemory::new(atomic_words(&mut words), 4096).expect("a page size");
    let sink = Kept(Mutex::new((Consumer::new(memory), Vec::new())));
    let storage = ProducerStorage::<512, 4>::new();
    let producer = Producer::new(memory, Layout::Two, &storage, &sink).expect("enough storage");
    let track = Track::thread(1, 2, "bench");
    let writer = producer.writer(0, Exhaustion::Drop).expect("the first");
    let config = TracerConfig::new(1_000_000_000).state_every(256 << 10);
    let tracer = Tracer::new(writer, Ticks(Cell::new(0)), &track, config);
    for number in 0..count {
        work(tracer.track(), number);
        if number % 64 == 0 {
            tracer.flush();
        }
    }
    tracer.flush();
    assert_eq!(tracer.stats().writer.dropped, 0);
    drop(tracer);
    sink.0.into_inner().expect("nobody panics").1
}

fn ring(bytes: u32) -> TraceBuffer<Vec<u8>> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    TraceBuffer::new(vec![0; config.region_size(bytes) as usize + 8], config).expect("room")
}

/// Nanoseconds for each of so many events in these chunks, which go on behind all those before.
fn commit<O: OverwriteObserver>(
    ring: &mut TraceBuffer<Vec<u8>, O>,
    chunks: &Chunks,
    round: u32,
    events: u32,
) -> f64 {
    let start = Instant::now();
    for (header, payload) in chunks {
        let chunk_id = header.chunk_id.wrapping_add(round * (1 << 16));
        let header = ChunkHeader { chunk_id, ..*header };
        black_box(ring.copy_chunk_untrusted(&Chunk { header, payload }));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(events)
}

/// What an event costs more in a ring that overwrites it when it carries over: both by turns.
fn events(
    sheet: &mut Sheet,
    name: &str,
    limit: f64,
    carried: CarryOver,
    work: impl Fn(OnTrack<'_, '_, Ticks>, u32),
) {
    const SLICES: u32 = 2_000;
    let chunks = chunks(SLICES, work);
    // The ids have no gaps: each round begins with a state, as the first did.
    let (mut plain, mut carries) = (ring(128 << 10), ring(128 << 10).observed_by(carried));
    let (mut more, mut all) = (vec![], vec![]);
    for round in 0..2001 {
        let events = SLICES * 2;
        let alone = commit(&mut plain, &chunks, round, events);
        let carried = commit(&mut carries, &chunks, round, events);
        more.push(carried - alone);
        all.push(carried);
    }
    println!("{name}: {:.1} ns with the commit", median(all));
    sheet.at_most(name, median(more), limit, "ns");
}

/// A state with 8 open slices, each with two arguments, as a new file begins with it.
fn state(sheet: &mut Sheet) {
    let chunks = chunks(20, |on, number| {
        if number < 8 {
            on.begin_with("open", |event| event.arg("number", number).arg("path", "/a/path/of/some/length"));
        }
        for _ in 0..200 {
            on.slice("work", || ());
        }
    });
    let mut ring = ring(1 << 20);
    chunks.iter().for_each(|(header, payload)| {
        ring.copy_chunk_untrusted(&Chunk { header: *header, payload });
    });
    let mut trace = Vec::new();
    let mut exporter = TraceExporter::new(&mut trace);
    exporter.drain(&mut ring.read(), sequence_id).expect("memory");
    let (mut packets, mut last) = (TracePackets::new(&trace), 0);
    while packets.next().is_some() && packets.offset() < trace.len() {
        last = packets.offset();
    }
    let (before, next) = trace.split_at(last);
    let mut carried = CarryOver::default();
    carried.fold(before);
    let mut times = vec![];
    let mut out = Vec::with_capacity(1 << 16);
    for _ in 0..1001 {
        // Its next packet ends a slice.
        let mut carried = carried.clone();
        out.clear();
        let start = Instant::now();
        let mut packets = carried.begin_file(&mut out);
        packets += carried.pass(next, None, &mut out);
        times.push(start.elapsed().as_secs_f64() * 1e6);
        assert!(packets > 8);
    }
    sheet.at_most("carry-over-state", median(times), 2.0, "us");
}

/// Descriptions of a thousand tracks, again and again.
fn descriptions(sheet: &mut Sheet) {
    const TRACKS: u64 = 1000;
    let mut trace = Vec::new();
    for uuid in 0..TRACKS {
        let (mut packet, mut descriptor) = (vec![0x50, 2], Vec::new());
        let Ok(()) = descriptor.varint(1, 1 << 48 | uuid);
        let Ok(()) = descriptor.string(2, "a track's name");
        let Ok(()) = packet.bytes(60, &descriptor);
        let Ok(()) = trace.bytes(1, &packet);
    }
    let mut carried = CarryOver::default().keep_descriptions(1 << 20);
    let mut times = vec![];
    for _ in 0..101 {
        let start = Instant::now();
        carried.fold(&trace);
        times.push(start.elapsed().as_secs_f64() * 1e9 / TRACKS as f64);
    }
    let kept = carried.kept().expect("it keeps");
    assert_eq!((kept.aborts, kept.forgotten), (0, 0));
    sheet.at_most("carry-over-description-kept", median(times), 2000.0, "ns");
    let copies = (0..101).map(|_| {
        let start = Instant::now();
        black_box(carried.clone());
        start.elapsed().as_secs_f64() * 1e6
    });
    sheet.at_most("carry-over-copy-of-1000-kept", median(copies.collect()), 300.0, "us");
}

/// What a packet costs that stays in a trace, of this size, with nothing to be told before it.
fn packets(size: usize) {
    let mut trace = Vec::new();
    for time in 0..10_000 {
        let mut packet = Vec::new();
        let Ok(()) = packet.varint(trace_packet::TIMESTAMP, time);
        let Ok(()) = packet.bytes(trace_packet::FOR_TESTING, &vec![0x55; size]);
        let Ok(()) = packet.varint(trace_packet::TRUSTED_UID, 1000);
        let Ok(()) = packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 2);
        let Ok(()) = packet.varint(trace_packet::TRUSTED_PID, 70_000);
        let Ok(()) = trace.bytes(trace::PACKET, &packet);
    }
    let (mut carried, mut out, mut times) = (CarryOver::default(), Vec::new(), vec![]);
    for _ in 0..101 {
        out.clear();
        let start = Instant::now();
        black_box(carried.pass(&trace, None, &mut out));
        times.push(start.elapsed().as_secs_f64() * 1e9 / 10_000.0);
    }
    println!("carry-over, a packet of {size} bytes that stays: {:.1} ns", median(times));
}

pub(crate) fn carry_over(sheet: &mut Sheet) {
    packets(270);
    let carries = CarryOver::of_ring;
    events(sheet, "carry-over-event", 3.0, carries(), |on, _| on.slice("work", || ()));
    events(sheet, "carry-over-event-with-argument", 8.0, carries(), |on, number| {
        on.slice_with("work", |event| event.arg("number", number), || ());
    });
    let keeps = || carries().keep_descriptions(64 << 10);
    events(sheet, "carry-over-event-beside-kept", 3.0, keeps(), |on, _| on.slice("work", || ()));
    // Two for each number, as of slices.
    events(sheet, "carry-over-counter-kept", 50.0, keeps(), |on, number| {
        on.count(number.into());
        on.count(7);
    });
    descriptions(sheet);
    state(sheet);
}
