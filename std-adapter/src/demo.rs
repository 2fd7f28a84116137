//! `tracebuf demo`: a program that traces itself, and accounts for every packet.
//!
//! Eight threads sort numbers and count the words of a source tree. Each writes what it does through shared memory; a
//! service thread moves it into a ring; at the end the ring becomes a trace file. The counters of everything involved
//! are compared.
//!
//! ```no_run
//! use tracebuf_std::demo::{Options, run};
//!
//! let report = run(&Options::new("demo.pftrace"))?;
//! print!("{report}");
//! assert!(report.agrees());
//! # Ok::<(), std::io::Error>(())
//! ```

mod report;
mod service;
mod work;

pub use report::{Report, WriterReport};

use crate::PagedMemory;
use crate::figures::Count;
use crate::file_error::{about, about_writing};
use crate::pftrace::TraceFile;
use crate::thread_id::thread_id;
use crate::trace_stats::TraceReport;
use crate::whole_file::{check_writable, write_atomically};
use service::{Queue, Service};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Instant, SystemTime};
use tracebuf::buffer::{Config, DataLoss, FillPolicy, TraceBuffer};
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track};
use tracebuf::producer::{Exhaustion, Layout, Producer, ProducerStorage, SharedMemory, atomic_words};
use tracebuf::proto::PacketValidator;

/// Threads that work, and writers.
pub const THREADS: usize = 8;
/// Bytes of shared memory.
pub const SHARED_MEMORY: usize = 256 << 10;
/// Bytes of a page of it; each is divided into four chunks.
pub const PAGE: u32 = 4096;
const CHUNKS: usize = SHARED_MEMORY / PAGE as usize * 4;

/// What the demonstration does.
///
/// ```
/// use tracebuf_std::demo::{Options, run};
///
/// # let folder = std::env::temp_dir().join(format!("doc-demo-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("words"), "a few words")?;
/// # let (out, sources) = (folder.join("demo.pftrace"), folder.clone());
/// // A ring in which most is overwritten: all of it is accounted for.
/// let options = Options { ring: Options::LEAST_RING, numbers: 20_000, sources, ..Options::new(out) };
/// let report = run(&options)?;
/// assert!(report.buffer.chunks_overwritten > 0 && report.agrees());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The trace file, which appears when it is complete, and is then read again to be counted. Data written to a pipe
    /// is counted on its way; data written to a device is not.
    pub out: PathBuf,
    /// Bytes of the ring, at least [`LEAST_RING`](Self::LEAST_RING).
    pub ring: u32,
    /// What writers do when shared memory is full.
    pub exhaustion: Exhaustion,
    /// How many numbers to sort.
    pub numbers: usize,
    /// The source tree whose words are counted.
    pub sources: PathBuf,
}

impl Options {
    /// A few chunks: a chunk longer than the ring could not be kept, and the numbers would not agree.
    pub const LEAST_RING: u32 = 4 << 10;

    /// A ring of 16 MiB, writers that wait, two million numbers, the words of the current folder.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Options {
            out: out.into(),
            ring: 16 << 20,
            exhaustion: Exhaustion::Stall,
            numbers: 2 << 20,
            sources: ".".into(),
        }
    }
}

/// The wall clock's nanoseconds at the start, plus those that have passed since: they never go backwards, whoever sets
/// the clock.
#[derive(Clone, Copy)]
struct WallClock {
    start: Instant,
    at_start: u64,
}

impl WallClock {
    /// The wall clock's number among a trace's builtin clocks.
    const REALTIME: u32 = 1;

    fn new() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallClock { start: Instant::now(), at_start: since_1970.as_nanos() as u64 }
    }
}

impl Clock for WallClock {
    fn now(&self) -> u64 {
        self.at_start + self.start.elapsed().as_nanos() as u64
    }
}

/// Where the trace goes, and a copy in memory.
struct Tee<'b> {
    file: &'b mut File,
    /// `None` if the output can be read again, or if it is unknown what becomes of it.
    written: Option<&'b mut Vec<u8>>,
}

impl Write for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        if let Some(written) = &mut self.written {
            written.extend(&bytes[..count]);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Does the work, writes the trace, and reports.
///
/// # Errors
/// A ring too small; more numbers than the system has memory for; before any work is done, what the file system says
/// about the trace file or the folder of the sources; or what the system says about memory and threads. Sources in the
/// folder that cannot be read are left out.
pub fn run(options: &Options) -> io::Result<Report> {
    let writing = |error| about_writing(&options.out, &error);
    if options.ring < Options::LEAST_RING {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a ring has 4 KiB at least"));
    }
    fs::read_dir(&options.sources).map_err(|error| about(&options.sources, &error))?;
    work::check_memory(options.numbers)?;
    check_writable(&options.out).map_err(writing)?;
    let mut written = Vec::new();
    let mut words = vec![0u32; SHARED_MEMORY / 4];
    let memory = SharedMemory::new(atomic_words(&mut words), PAGE).map_err(io::Error::other)?;
    let (storage, queue) = (ProducerStorage::<CHUNKS, THREADS>::new(), Queue::new());
    let producer = Producer::new(memory, Layout::Four, &storage, &queue).map_err(io::Error::other)?;
    let config = Config::new(FillPolicy::RingBuffer).sequences(THREADS as u16);
    let ring = PagedMemory::new(config.region_size(options.ring) as usize).map_err(|error| {
        let what = format!("memory for a ring of {}: {error}", Count(options.ring.into(), "byte"));
        io::Error::new(error.kind(), what)
    })?;
    let buffer = TraceBuffer::new(ring, config).map_err(io::Error::other)?;
    let mut service = Service::new(memory, buffer);

    let process = Track::process(std::process::id(), "tracebuf demo");
    let counters = work::Counters::new(&process);
    let workload = work::Workload::new(options, &counters);
    // All writers share the ring, and the state of the writer that writes least must still be in it.
    let config = TracerConfig::new(1_000_000_000).clock_id(WallClock::REALTIME).state_every(options.ring / 4);
    let (clock, done) = (WallClock::new(), AtomicBool::new(false));
    let names: Vec<String> = (0..THREADS).map(|index| format!("worker {index}")).collect();

    let (done, workload, process, producer) = (&done, &workload, &process, &producer);
    let (mut report, is_known) = thread::scope(|scope| {
        let drain = thread::Builder::new().name("service".into()).spawn_scoped(scope, || {
            service.run(&queue, producer, done);
            service
        })?;
        // All are made before the first thread ends and returns its writer's id, so that each id belongs to one thread.
        let writers: Vec<_> = names.iter().filter_map(|_| producer.writer(0, options.exhaustion)).collect();
        let workers: Vec<_> = work::relay()
            .into_iter()
            .zip(writers)
            .zip(&names)
            .map(|((hands, writer), name)| {
                thread::Builder::new().name(name.clone()).spawn_scoped(scope, move || {
                    let id = writer.id();
                    let track = Track::thread(std::process::id(), thread_id(), name).within(process);
                    let tracer = Tracer::new(writer, clock, &track, config);
                    let result = work::run(&tracer, workload, hands);
                    tracer.flush();
                    (id, tracer.stats(), result)
                })
            })
            .collect();
        // Joins all of them, whatever became of one: the service must run as long as any does.
        let join = |worker: io::Result<ScopedJoinHandle<'_, _>>| {
            worker?.join().map_err(|_| io::Error::other("a worker panicked"))
        };
        let ended: Vec<_> = workers.into_iter().map(join).collect();
        done.store(true, Ordering::Release);
        let service = drain.join().map_err(|_| io::Error::other("the service panicked"))?;
        let mut report = Report::default();
        for (ended, name) in ended.into_iter().zip(&names) {
            let (id, stats, result) = ended?;
            report.add_writer(name, id, &stats);
            report.add_work(&result);
        }
        report.add_service(&service);
        let is_known = write_atomically(&options.out, |file| {
            let kind = file.metadata()?.file_type();
            let tee = Tee { file, written: kind.is_fifo().then_some(&mut written) };
            write_trace(service, queue.packets_dropped(), TraceFile::new(tee), &mut report)?;
            if kind.is_file() {
                file.rewind()?;
                file.read_to_end(&mut written)?;
            }
            Ok(kind.is_file() || kind.is_fifo())
        });
        io::Result::Ok((report, is_known.map_err(writing)?))
    })?;
    if is_known {
        report.add_file(&TraceReport::of(&written));
    }
    Ok(report)
}

/// Reads the ring into the file, which ends with the buffer's counters, including the packets that the buffer never
/// saw.
fn write_trace(
    mut service: Service<'_>,
    dropped: u64,
    mut file: TraceFile<impl Write>,
    report: &mut Report,
) -> io::Result<()> {
    let buffer = service.buffer();
    let mut reader = buffer.read();
    while let Some(packet) = reader.next_packet() {
        let said = PacketValidator::check(packet.slices()).map_or(0, |valid| valid.previous_packet_dropped);
        let said = DataLoss::from_bits_truncate(said as u16);
        report.add_packet(packet.writer_id(), packet.len() as u64, packet.loss() | said);
        file.write_packet(&packet)?;
    }
    let sequences: Vec<_> = buffer.sequences().collect();
    let mut stats = buffer.stats();
    stats.trace_writer_packet_loss += dropped;
    report.add_buffer(&stats, &sequences);
    report.invalid = file.finish(Some((&stats, &sequences)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebuf::producer::track_event::TracerStats;

    #[test]
    fn a_trace_that_is_there_is_replaced_and_not_emptied() {
        let folder = std::env::temp_dir().join(format!("tracebuf-demo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (out, old) = (folder.join("demo.pftrace"), folder.join("old"));
        fs::write(&out, "an older trace").unwrap();
        fs::hard_link(&out, &old).unwrap();
        let report = run(&Options { numbers: 1000, sources: folder.clone(), ..Options::new(&out) }).unwrap();
        assert!(report.agrees(), "{report}");
        assert_eq!(fs::read_to_string(old).unwrap(), "an older trace");
        assert_eq!(fs::metadata(out).unwrap().len(), report.file_bytes);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn packets_given_up_without_a_chunk_are_in_the_files_counters_too() {
        let mut words = vec![0u32; 1024];
        let memory = SharedMemory::new(atomic_words(&mut words), PAGE).unwrap();
        let (storage, queue) = (ProducerStorage::<CHUNKS, THREADS>::new(), Queue::new());
        let producer = Producer::new(memory, Layout::Four, &storage, &queue).unwrap();
        let config = Config::new(FillPolicy::RingBuffer);
        let ring = PagedMemory::new(config.region_size(64 << 10) as usize).unwrap();
        let mut service = Service::new(memory, TraceBuffer::new(ring, config).unwrap());
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        // No service comes before memory is full: the first packet given up ends its chunk, the others have none.
        (0..100).for_each(|_| writer.packet().bytes(1, &[7; 300]));
        let stats = TracerStats { writer: writer.stats(), ..TracerStats::default() };
        let mut report = Report::default();
        report.add_writer("worker", writer.id(), &stats);
        drop(writer);
        service.run(&queue, &producer, &AtomicBool::new(true));
        let path = std::env::temp_dir().join(format!("tracebuf demo {}.pftrace", std::process::id()));
        write_trace(service, queue.packets_dropped(), TraceFile::create(&path).unwrap(), &mut report)
            .unwrap();
        report.add_file(&TraceReport::of(&fs::read(&path).unwrap()));
        fs::remove_file(path).unwrap();
        let dropped = stats.writer.dropped;
        assert!(dropped > 50 && queue.packets_dropped() == dropped - 1, "{stats:?}");
        assert_eq!(report.file_dropped, dropped);
        assert!(report.agrees(), "{report}");
        report.file_dropped -= 1;
        assert!(!report.agrees());
    }
}
