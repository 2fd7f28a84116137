//! Eight threads, a drain thread, flushes, scrapes and reads at random moments: every packet comes out whole and in
//! order, or is counted by the part that lost it.
//!
//! 1,000,000 packets a thread in release builds, fewer in debug; `TRACEBUF_STRESS_EVENTS` sets another number.

mod four_gigabytes;
mod load;
mod memory;
mod packets;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
use tracebuf::producer::*;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};
use tracebuf_std::PagedMemory;
use tracebuf_testing::mix::mix;

const THREADS: usize = 8;
const MEMORY: usize = 64 << 10;
const PAGE: u32 = 4096;

fn events() -> u64 {
    let default = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    std::env::var("TRACEBUF_STRESS_EVENTS").map_or(default, |text| text.parse().expect("a number"))
}

/// A transport that only carries: whoever completes a chunk goes on at once.
struct Queue {
    requests: Mutex<VecDeque<Request>>,
    /// Steps that a writer waits for memory.
    patience: u32,
}

impl Queue {
    fn push(&self, requests: impl IntoIterator<Item = Request>) {
        self.requests.lock().expect("no thread panics").extend(requests);
    }
}

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.push(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.push([Request::Register { writer_id, target }]);
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.push([Request::Unregister { writer_id }]);
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        if micros == 0 {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(micros.min(500).into()));
        }
        step < self.patience
    }
}

/// What the reader knows of a writer.
#[derive(Clone, Copy, Default)]
struct Progress {
    read: u64,
    /// The packet that comes next if nothing is lost.
    next: u64,
    /// Losses seen, in packets.
    lost: u64,
}

struct Service<'m> {
    endpoint: ProducerEndpoint<'m, THREADS>,
    buffers: [TraceBuffer<PagedMemory>; 1],
    progress: [Progress; THREADS],
    packet: Vec<u8>,
}

impl Service<'_> {
    fn carry_out(&mut self, request: &Request, producer: &Producer<'_>) {
        if let Request::Register { writer_id, target } = *request {
            assert!(self.endpoint.register_writer(writer_id, target));
        } else if let Some(flush) = self.endpoint.carry_out_one(request, &mut self.buffers) {
            producer.flushed(flush);
        }
    }

    /// Reads up to this many packets.
    fn read(&mut self, most: u64) {
        let [buffer] = &mut self.buffers;
        let mut reader = buffer.read();
        for _ in 0..most {
            let Some(packet) = reader.next_packet() else { break };
            self.packet.clear();
            packet.slices().for_each(|slice| self.packet.extend_from_slice(slice));
            let writer = packet.writer_id();
            let seen = packets::read(writer, &self.packet)
                .unwrap_or_else(|what| panic!("writer {writer}: {what}, {:x?}", self.packet));
            let progress = &mut self.progress[usize::from(writer) - 1];
            assert!(seen.number >= progress.next, "writer {writer}: {} again", seen.number);
            assert!(!seen.first || progress.read == 0, "writer {writer}: {} is first", seen.number);
            let lost = seen.number - progress.next;
            let mask = u64::from(packet.loss().bits()) | seen.dropped_before;
            assert_eq!(
                mask != 0,
                lost != 0,
                "writer {writer}, packet {}: mask {mask:#x} after {lost} lost packets",
                seen.number
            );
            *progress =
                Progress { read: progress.read + 1, next: seen.number + 1, lost: progress.lost + lost };
        }
    }
}

/// How a run goes.
struct Plan {
    policy: Exhaustion,
    layout: Layout,
    /// Bytes of the ring.
    ring: u32,
    /// Rounds of the drain thread between reads.
    read_every: u64,
    /// The drain thread sleeps a little from time to time.
    sleepy: bool,
}

/// What all writers together lost.
#[derive(Debug, Default)]
struct Losses {
    dropped: u64,
    evicted: u64,
    broken: u64,
}

fn run(plan: &Plan) -> Losses {
    let events = events();
    let mut words = vec![0u32; MEMORY / 4];
    let memory = SharedMemory::new(atomic_words(&mut words), PAGE).unwrap();
    let storage = Box::new(ProducerStorage::<224, THREADS>::new());
    let patience = if plan.policy == Exhaustion::StallThenDrop { 2 } else { u32::MAX };
    let queue = Queue { requests: Mutex::default(), patience };
    let producer = Producer::new(memory, plan.layout, &storage, &queue).unwrap();

    let config = Config::new(FillPolicy::RingBuffer).sequences(THREADS as u16);
    let ring = PagedMemory::new(config.region_size(plan.ring) as usize).unwrap();
    let identity = ProducerIdentity { producer_id: 1, uid: 1000, pid: 42 };
    let mut service = Service {
        endpoint: ProducerEndpoint::new(Consumer::new(memory), identity),
        buffers: [TraceBuffer::new(ring, config).unwrap()],
        progress: [Progress::default(); THREADS],
        packet: Vec::new(),
    };
    service.endpoint.allow(0);

    let done = AtomicBool::new(false);
    let (stats, mut service) = thread::scope(|scope| {
        let producer = &producer;
        let writers = [(); THREADS].map(|()| producer.writer(0, plan.policy).expect("one of eight"));
        let threads = writers.map(|writer| scope.spawn(move || write(writer, producer, events)));
        let (done, queue) = (&done, &queue);
        let drain = scope.spawn(move || {
            drain(&mut service, producer, queue, plan, done);
            service
        });
        let stats = threads.map(|thread| thread.join().expect("a writer's thread"));
        done.store(true, Relaxed);
        (stats, drain.join().expect("the drain thread"))
    });
    service.read(u64::MAX);
    account(&mut service, &stats, events)
}

/// One thread: its packets, and now and then a flush.
fn write(mut writer: TraceWriter<'_>, producer: &Producer<'_>, events: u64) -> TraceWriterStats {
    let mut scratch = Vec::new();
    for number in 0..events {
        packets::write(&mut writer, number, &mut scratch);
        let dice = mix(number ^ u64::from(writer.id()) << 32) % 50_000;
        if dice < 10 {
            let flush = writer.flush();
            while dice == 0 && !producer.is_flushed(flush) {
                thread::yield_now();
            }
        }
    }
    writer.flush();
    writer.stats()
}

/// The drain thread: carries requests out, scrapes and reads at random moments.
fn drain(service: &mut Service<'_>, producer: &Producer<'_>, queue: &Queue, plan: &Plan, done: &AtomicBool) {
    for round in 0u64.. {
        let last = done.load(Relaxed);
        let some = mix(round);
        // Not always all: then chunks are scraped that are complete and sent, but not taken yet.
        let most = match some % 4 {
            _ if last => usize::MAX,
            0 => some as usize >> 8 & 3,
            // So few that no writer's work fills the ring before the next read.
            _ => 16,
        };
        for _ in 0..most {
            let Some(request) = queue.requests.lock().expect("no thread panics").pop_front() else { break };
            service.carry_out(&request, producer);
        }
        if some % 16 == 1 {
            service.endpoint.scrape(&mut service.buffers);
        }
        if (some >> 16).is_multiple_of(plan.read_every) {
            service.read(if (some >> 32).is_multiple_of(4) { (some >> 40) % 1_000 } else { u64::MAX });
        }
        if last {
            break;
        }
        if plan.sleepy && some % 8 == 2 {
            thread::sleep(Duration::from_micros(some >> 20 & 255));
        }
        thread::yield_now();
    }
}

/// Every packet is accounted for, writer by writer.
fn account(service: &mut Service<'_>, stats: &[TraceWriterStats; THREADS], events: u64) -> Losses {
    let endpoint = service.endpoint.stats();
    assert_eq!((endpoint.chunks_discarded, endpoint.chunks_missing, endpoint.patches_discarded), (0, 0, 0));
    let [buffer] = &mut service.buffers;
    let counters = buffer.stats();
    assert_eq!((counters.abi_violations, counters.chunks_refused), (0, 0), "{counters:?}");
    assert_eq!(
        buffer.check().unwrap().chunks,
        0,
        "all can be read: {:?}, {counters:?}, {endpoint:?}",
        buffer.sequences().collect::<Vec<_>>()
    );

    let mut total = Losses::default();
    for (index, (writer, progress)) in stats.iter().zip(&service.progress).enumerate() {
        // A writer that never got a chunk has no sequence.
        let sequence = buffer.sequences().find(|s| usize::from(s.writer_id) == index + 1);
        let [evicted, broken, malformed] =
            sequence.map_or([0; 3], |s| [s.packets_evicted, s.packets_broken, s.chunks_malformed]);
        let what = format!("writer {}: {writer:?} {sequence:?}", index + 1);
        assert_eq!((writer.packets, malformed), (events, 0), "{what}");
        let counted = writer.dropped + evicted + broken;
        assert_eq!(progress.read + counted, events, "{} read; {what}", progress.read);
        // What the reader saw missing, and what was lost after the last packet that came out.
        assert_eq!(progress.lost + (events - progress.next), counted, "{what}");
        total.dropped += writer.dropped;
        total.evicted += evicted;
        total.broken += broken;
    }
    let written: u64 = stats.iter().map(|s| s.chunks).sum();
    println!("{total:?} of {}; {written} chunks, {endpoint:?}, {counters:?}", events * THREADS as u64);
    total
}

/// A ring so large that nothing is lapped of a thread that the system left alone for a while.
const ROOMY: u32 = 64 << 20;
/// A ring that laps all the time: as large as the shared memory.
const TIGHT: u32 = 64 << 10;

#[test]
fn stalling_writers_lose_nothing() {
    let plan =
        Plan { policy: Exhaustion::Stall, layout: Layout::Four, ring: ROOMY, read_every: 8, sleepy: false };
    let losses = run(&plan);
    assert_eq!((losses.dropped, losses.evicted, losses.broken), (0, 0, 0));
}

#[test]
fn stalling_writers_lose_only_what_a_small_ring_overwrites() {
    let plan = Plan {
        policy: Exhaustion::Stall,
        layout: Layout::Fourteen,
        ring: TIGHT,
        read_every: 8,
        sleepy: false,
    };
    let losses = run(&plan);
    assert_eq!(losses.dropped, 0);
    assert_ne!(losses.evicted, 0);
}

#[test]
fn what_dropping_writers_drop_is_counted_by_them() {
    let plan =
        Plan { policy: Exhaustion::Drop, layout: Layout::Four, ring: ROOMY, read_every: 8, sleepy: true };
    let losses = run(&plan);
    assert_ne!(losses.dropped, 0);
    assert_eq!((losses.evicted, losses.broken), (0, 0));
}

#[test]
fn what_dropping_writers_drop_and_a_small_ring_overwrites_adds_up() {
    let plan = Plan {
        policy: Exhaustion::Drop,
        layout: Layout::Seven,
        ring: TIGHT,
        // Seldom: where everything is slow, most is dropped, and what is left fills two rings.
        read_every: 1024,
        sleepy: true,
    };
    let losses = run(&plan);
    assert_ne!(losses.dropped, 0);
    assert_ne!(losses.evicted, 0);
}

#[test]
fn what_writers_drop_that_have_waited_is_counted_by_them() {
    let plan = Plan {
        policy: Exhaustion::StallThenDrop,
        layout: Layout::Two,
        ring: ROOMY,
        read_every: 8,
        sleepy: true,
    };
    let losses = run(&plan);
    assert_eq!((losses.evicted, losses.broken), (0, 0));
}

#[test]
fn what_writers_drop_that_have_waited_and_a_small_ring_overwrites_adds_up() {
    let plan = Plan {
        policy: Exhaustion::StallThenDrop,
        layout: Layout::One,
        ring: TIGHT,
        read_every: 16,
        sleepy: true,
    };
    let losses = run(&plan);
    assert_ne!(losses.evicted, 0);
}
