//! A program that traces itself with nothing but `tracebuf` and `std`: from events to a file for ui.perfetto.dev.
//!
//! `cargo run -p tracebuf --example first_trace` writes `first_trace.pftrace`, or the file named after `--`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tracebuf::buffer::{Config, FillPolicy, SequenceInfo, TraceBuffer};
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track, Unit};
use tracebuf::producer::{
    CommitRequest, CommitSink, Consumer, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory,
    atomic_words,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity, TraceExporter, sequence_id, writer_stats};

/// Bytes of shared memory, in pages of 4 KiB with four chunks each; and the most writers there are at a time.
const SHARED: usize = 64 * 1024;
const CHUNKS: usize = SHARED / 1024;
const WRITERS: usize = 8;
const RING: u32 = 1 << 20;

/// The service: its end of the producer, and the central buffers. Here threads call it as they complete chunks; if they
/// must not wait for it, put a queue in between, and let a thread of its own carry out requests.
struct Service<'m>(Mutex<Parts<'m>>);

type Parts<'m> = (ProducerEndpoint<'m, WRITERS>, [TraceBuffer<Vec<u8>>; 1]);

impl<'m> Service<'m> {
    fn parts(&self) -> MutexGuard<'_, Parts<'m>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommitSink for Service<'_> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (endpoint, buffers) = &mut *self.parts();
        endpoint.carry_out(request, buffers);
        // Anyone who waits for a flush is told here, with `Producer::flushed`. Nobody does in this program: at its end,
        // all that writers have left is taken at once.
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.parts().0.register_writer(writer_id, target);
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.parts().0.unregister_writer(writer_id);
    }
}

/// Nanoseconds since the program began.
#[derive(Clone, Copy)]
struct Nanos(Instant);

impl Clock for Nanos {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "first_trace.pftrace".into());
    let (clock, pid) = (Nanos(Instant::now()), std::process::id());

    // The service, and a ring that holds the last of what was recorded.
    let mut words = vec![0; SHARED / 4];
    let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
    let config = Config::new(FillPolicy::RingBuffer);
    let ring = TraceBuffer::new(vec![0; config.region_size(RING) as usize], config)?;
    let identity = ProducerIdentity { producer_id: 1, uid: u32::MAX, pid: pid as i32 };
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    endpoint.allow(0);
    let service = Service(Mutex::new((endpoint, [ring])));

    // The producer: a writer and a tracer for each thread. Names and clock are written anew each quarter of the ring.
    let storage = ProducerStorage::<CHUNKS, WRITERS>::new();
    let producer = Producer::new(memory, Layout::Four, &storage, &service)?;
    let process = Track::process(pid, "first_trace");
    let sums = Track::counter("sum", Unit::Count).within(&process);
    std::thread::scope(|scope| {
        for (tid, name) in [(1, "first"), (2, "second")] {
            let (producer, process, sums) = (&producer, &process, &sums);
            scope.spawn(move || {
                let track = Track::thread(pid, tid, name).within(process);
                let writer = producer.writer(0, Exhaustion::Drop).expect("one of eight");
                let config = TracerConfig::new(1_000_000_000).state_every(RING / 4);
                let tracer = Tracer::<_, 32, 8>::with_tables(writer, clock, &track, config);
                for round in 0..1_000 {
                    let sum: i64 = tracer.track().slice("work", || (0..round).map(|i| i % 7).sum());
                    tracer.on(sums).count(sum);
                }
            });
        }
    });

    // Whole packets come out of the ring; the file's end has what readers use to find losses.
    let (endpoint, buffers) = &mut *service.parts();
    endpoint.disconnect(buffers);
    let [ring] = buffers;
    let mut file = vec![0; 2 * RING as usize];
    let mut exporter = TraceExporter::new(&mut file[..]);
    let packets = exporter.drain(&mut ring.read(), sequence_id)?;
    let id = |of: &SequenceInfo| sequence_id(of.producer_id, of.writer_id);
    let writers: Vec<_> = ring.sequences().map(|of| writer_stats(&of, id(&of), 0)).collect();
    exporter.stats(&ring.stats().of_trace(FillPolicy::RingBuffer), writers)?;
    let unused = exporter.into_output().len();
    file.truncate(file.len() - unused);
    std::fs::write(&path, &file)?;
    println!("{packets} packets in {path}: open it in ui.perfetto.dev");
    Ok(())
}
