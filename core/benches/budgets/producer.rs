//! Track events: a slice's begin or end, within a chunk and with all that chunks bring with them.

use crate::sheet::{Sheet, median, seconds};
use crate::workload::{MIB, ring};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;
use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track};
use tracebuf::producer::*;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

/// A service that is a function call away.
struct Inline<'m>(Mutex<(ProducerEndpoint<'m, 4>, [TraceBuffer<Vec<u8>>; 1])>);

impl CommitSink for Inline<'_> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut service = self.0.lock().expect("nobody panics");
        let (endpoint, buffers) = &mut *service;
        endpoint.carry_out(request, buffers);
    }
}

/// Nanoseconds for one event, the median of many rounds: `pairs` slices each round.
fn event_ns(page_size: u32, pairs: u32, rounds: u32, clock: impl Clock) -> f64 {
    let mut words = vec![0u32; 64 * 1024];
    let memory = SharedMemory::new(atomic_words(&mut words), page_size).expect("a page size");
    let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 0 };
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    endpoint.allow(0);
    let sink = Inline(Mutex::new((endpoint, [ring(16 * MIB, 4)])));
    let storage = ProducerStorage::<64, 4>::new();
    let producer = Producer::new(memory, Layout::One, &storage, &sink).expect("enough storage");
    let writer = producer.writer(0, Exhaustion::Drop).expect("the first");
    let track = Track::thread(1, 2, "bench");
    let tracer = Tracer::new(writer, clock, &track, TracerConfig::new(1_000_000_000));
    let on = tracer.track();
    let mut times = Vec::new();
    for _ in 0..rounds {
        // A fresh chunk, and a state that stays valid.
        tracer.flush();
        on.slice("work", || ());
        let (time, ()) = seconds(|| {
            for _ in 0..pairs {
                on.begin("work");
                black_box(());
                on.end();
            }
        });
        times.push(time * 1e9 / f64::from(pairs * 2));
    }
    assert_eq!(tracer.stats().writer.dropped, 0);
    median(times)
}

pub(crate) fn events(sheet: &mut Sheet) {
    let start = Instant::now();
    let real = || start.elapsed().as_nanos() as u64;
    let clock = median(
        (0..101)
            .map(|_| {
                let (time, ()) = seconds(|| (0..1000).for_each(|_| _ = black_box(real())));
                time * 1e9 / 1000.0
            })
            .collect(),
    );
    // Costs one addition, and gives times of two bytes, like real ones.
    let ticks = Cell::new(0);
    let free = || {
        ticks.set(ticks.get() + 300);
        ticks.get()
    };
    // 1,022 fragments are the most that a chunk can count.
    let within = event_ns(65_536, 450, 1001, free);
    let draining = event_ns(4096, 20_000, 101, free);
    println!(
        "events: with the real clock {:.1} ns within a chunk, {:.1} ns on average; that clock alone {clock:.1} ns",
        event_ns(65_536, 450, 301, real),
        event_ns(4096, 20_000, 31, real),
    );
    sheet.timed_at_most("slice-event", within, 25.0, "ns");
    sheet.timed_at_most("slice-event-drained", draining, 40.0, "ns");
}
