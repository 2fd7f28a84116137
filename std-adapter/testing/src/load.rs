//! A service under load, for the test and the benchmark: eight threads, a million events a second or more, a ring of
//! 16 MiB, a snapshot every half second.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf::producer::TraceWriterStats;
use tracebuf::proto::TracePackets;
use tracebuf_session::Session;
use tracebuf_std::system::NULL_DEVICE;

const THREADS: usize = 8;
/// Events at a time.
const BURST: u64 = 150;
/// Events a second of each thread: in all 1.2 million, or what unoptimised code can do alongside others.
pub const RATE: f64 = if cfg!(debug_assertions) { 10_000.0 } else { 150_000.0 };
const RING: u64 = if cfg!(debug_assertions) { 1 << 20 } else { 16 << 20 };

/// The result of a load.
pub struct Load {
    pub seconds: f64,
    pub events: u64,
    pub snapshots: u64,
    /// Nanoseconds of an event, including two readings of a clock, in steps of 16.
    times: Vec<u64>,
    /// Resident bytes after a sixth of the time, and at the end; 0 where that is not known.
    pub memory: (u64, u64),
    /// For each writer: packets that it wrote, and where they are.
    pub writers: Vec<Account>,
    /// Packets of the trace that nobody wrote: what those that the ring has overwritten mean for the others.
    pub carried: u64,
}

impl Load {
    /// Packets of all writers of which it is not known where they are; less than none if there are more than were written.
    pub fn unaccounted(&self) -> i64 {
        self.writers.iter().map(Account::unaccounted).sum::<i64>() + self.carried as i64
    }
}

/// The fate of one writer's packets.
#[derive(Debug, Default)]
pub struct Account {
    pub written: u64,
    pub dropped: u64,
    pub in_trace: u64,
    pub overwritten: u64,
    pub broken: u64,
    pub malformed: u64,
}

impl Account {
    /// Packets less those that are known to be somewhere; 0 when the account is exact.
    pub fn unaccounted(&self) -> i64 {
        let known = self.dropped + self.in_trace + self.overwritten + self.broken + self.malformed;
        self.written as i64 - known as i64
    }
}

impl Load {
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    /// The time that this share of events does not exceed.
    pub fn time_of(&self, share: f64) -> u64 {
        let mut left = (self.times.iter().sum::<u64>() as f64 * share) as u64;
        let step = self.times.iter().position(|count| {
            let over = *count > left;
            left = left.saturating_sub(*count);
            over
        });
        16 * (step.unwrap_or(self.times.len()) as u64 + 1)
    }
}

/// Seconds to run, from `TRACEBUF_LOAD_SECONDS`.
pub fn seconds(otherwise: u64) -> u64 {
    std::env::var("TRACEBUF_LOAD_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(otherwise)
}

pub fn run(seconds: u64) -> Load {
    let builder = Session::builder().ring(RING).shared_memory(8 << 20).fast_clock().prepare_snapshots();
    let session = Arc::new(builder.start().expect("a session"));
    let (stop, measure) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (recorder, stop, measure) = (session.recorder(), stop.clone(), measure.clone());
            std::thread::spawn(move || {
                let (mut times, mut events, mut measured) = (vec![0u64; 65_536], 0u64, 0u64);
                // Every page of it is touched now, not when an event first takes that long.
                times.fill(std::hint::black_box(0));
                let start = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let counts = measure.load(Ordering::Relaxed);
                    for _ in 0..BURST {
                        let before = Instant::now();
                        recorder.instant("event");
                        let time = before.elapsed().as_nanos() as usize;
                        times[(time / 16).min(65_535)] += u64::from(counts);
                    }
                    events += BURST;
                    measured += if counts { BURST } else { 0 };
                    let due = Duration::from_secs_f64(events as f64 / RATE);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
                let stats = recorder.with(|tracer| tracer.stats()).expect("recording");
                assert_eq!(stats.skipped, 0);
                (times, measured, stats.writer)
            })
        })
        .collect();
    // Memory is flat once every page has been touched: the ring, and what snapshots take.
    let snapshot = || {
        let mut null = File::options().write(true).open(NULL_DEVICE).expect("null");
        session.snapshot().expect("a snapshot").write(&mut null).expect("written");
    };
    while session.summary().expect("a summary").buffers[0].write_wrap_count == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    snapshot();
    measure.store(true, Ordering::Relaxed);
    let (start, mut memory) = (Instant::now(), vec![]);
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(500));
        snapshot();
        memory.push(resident());
    }
    measure.store(false, Ordering::Relaxed);
    let elapsed = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let (mut times, mut events, mut written) = (vec![0u64; 65_536], 0, Vec::new());
    for thread in threads {
        let (of_thread, count, stats) = thread.join().expect("a thread");
        times.iter_mut().zip(of_thread).for_each(|(all, one)| *all += one);
        events += count;
        written.push(stats);
    }
    let (writers, carried) = accounts(&session, written);
    let snapshots = memory.len() as u64;
    let memory = (memory[memory.len() / 6], memory[memory.len() - 1]);
    Load { seconds: elapsed, events, snapshots, times, memory, writers, carried }
}

/// Stops, writes what is left, and looks for every packet.
fn accounts(session: &Session, mut written: Vec<TraceWriterStats>) -> (Vec<Account>, u64) {
    let path = std::env::temp_dir().join(format!("tracebuf-load-{}.pftrace", std::process::id()));
    let mut stopped = session.stop().expect("a stop");
    let carried = stopped.write_to(&path).expect("a file").carried;
    let trace = std::fs::read(&path).expect("the trace");
    std::fs::remove_file(&path).expect("it is there");
    let mut accounts: BTreeMap<u64, Account> = BTreeMap::new();
    for packet in TracePackets::new(&trace) {
        // trusted_packet_sequence_id, which the service writes after what is the producer's.
        let sequence = super::trace::number(packet.expect("a packet"), 10).expect("a sequence");
        accounts.entry(sequence).or_default().in_trace += 1;
    }
    // The service's own.
    accounts.remove(&1);
    for info in stopped.summary().sequences {
        let id = u64::from(info.producer_id) << 16 | u64::from(info.writer_id);
        let account = accounts.entry(id).or_default();
        account.overwritten = info.packets_evicted;
        account.broken = info.packets_broken;
        account.malformed = info.chunks_malformed;
    }
    let mut accounts: Vec<Account> = accounts.into_values().collect();
    // Outside, it is not known which writer is whose; the totals are known, and so are each writer's, except for their
    // order.
    written.sort_unstable_by_key(|stats| stats.packets);
    accounts.sort_unstable_by_key(|account| account.in_trace + account.overwritten + account.broken);
    assert_eq!(accounts.len(), written.len(), "as many sequences as threads");
    for (account, stats) in accounts.iter_mut().zip(written) {
        (account.written, account.dropped) = (stats.packets, stats.dropped);
    }
    (accounts, carried)
}

/// Bytes of this process in memory; 0 where the system has no `/proc`.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}
