//! `cargo bench -p tracebuf-session --bench session`: what sessions cost, with their limits.
//!
//! After `--`: `--slack F` multiplies the limits of what is timed by F, for machines that others are using; `recorder`,
//! `snapshot`, `carry-over`, `long-trace` or `load` runs that part alone. The load runs for 6 s, or `TRACEBUF_LOAD_SECONDS`.
//!
//! One line each, `budget NAME MEASURED LIMIT UNIT ok|over`, and lines of figures without a limit; exit status 1
//! if a budget is over.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tracebuf_session::{LongTrace, Session};
use tracebuf_testing::budget::{Sheet, median, nanoseconds};
use tracebuf_testing::load;

#[path = "parts/carry_over.rs"]
mod carry_over;

const MIB: u64 = 1 << 20;

fn main() -> ExitCode {
    Sheet::run(&[
        ("recorder", recorder),
        ("snapshot", snapshot),
        ("carry-over", carry_over::carry_over),
        ("long-trace", long_trace),
        ("load", load),
    ])
}

/// A slice, begin and end, by the session's own API.
fn recorder(sheet: &mut Sheet) {
    for (name, fast) in [("slice, system clock", false), ("slice, counter clock", true)] {
        let builder = Session::builder().ring(16 * MIB).shared_memory(4 << 20);
        let builder = if fast { builder.fast_clock() } else { builder };
        let session = builder.start().expect("a session");
        let recorder = session.recorder();
        let slice = nanoseconds(|| drop(black_box(recorder.enter("work"))));
        println!("{name}: {slice:.1} ns");
        if fast {
            sheet.at_most("recorder-slice", slice, 60.0, "ns");
        }
        session.stop().expect("a stop");
        let off = nanoseconds(|| drop(black_box(recorder.enter("work"))));
        println!("{name}, when the session is over: {off:.1} ns");
    }
}

/// A snapshot of a full ring, against a copy of as many bytes.
fn snapshot(sheet: &mut Sheet) {
    let session = Session::builder().ring(16 * MIB).prepare_snapshots().start().expect("a session");
    let recorder = session.recorder();
    while session.summary().expect("a summary").buffers[0].write_wrap_count == 0 {
        for _ in 0..20_000 {
            recorder.instant("fill");
        }
        session.flush(Duration::from_secs(5)).expect("a flush");
    }
    let source = vec![1u8; 16 << 20];
    let mut target = vec![2u8; 16 << 20];
    let (mut ratios, mut stalls) = (vec![], vec![]);
    for _ in 0..31 {
        let start = Instant::now();
        target.copy_from_slice(black_box(&source));
        black_box(&target);
        let copy = start.elapsed();
        let stall = session.snapshot().expect("a snapshot").stall();
        ratios.push(stall.as_secs_f64() / copy.as_secs_f64());
        stalls.push(stall.as_secs_f64() * 1e3);
    }
    println!("snapshot of 16 MiB: {:.2} ms", median(stalls));
    sheet.at_most("snapshot", median(ratios), 1.5, "memcpy");
}

/// Long traces into nothing, of packets of several sizes: as fast as one thread records them, the drain thread copies
/// and reads them and the file's thread writes them, which takes three cores; and the reading and writing alone, which
/// is what the budget is for.
fn long_trace(sheet: &mut Sheet) {
    for size in [1000, 270, 40] {
        let content = vec![0x55u8; size];
        let packets = 1_000_000_000 / size as u64;
        let mut whole = LongRun::start(128 * MIB, Duration::from_millis(10));
        let (bytes, time, lost) = whole.record(packets, &content).stop();
        let all = bytes / time / 1e9;
        println!(
            "long trace, one thread records {size} bytes a packet: {all:.2} GB/s, {lost} chunks overwritten"
        );

        // All of it is still in the ring when the session stops.
        let mut late = LongRun::start(512 * MIB, Duration::from_secs(3600));
        late.record(packets / 4, &content);
        late.start = Instant::now();
        let (bytes, time, lost) = late.stop();
        assert_eq!(lost, 0);
        let written = bytes / time / 1e9;
        println!("long trace, {size} bytes a packet, from the ring on: {written:.2} GB/s");
        if size == 270 {
            sheet.at_least("long-trace", written, 2.0, "GB/s");
        }
    }
}

/// A session with a long trace into nothing.
struct LongRun {
    session: Session,
    start: Instant,
}

impl LongRun {
    fn start(ring: u64, period: Duration) -> Self {
        let builder = Session::builder().ring(ring).shared_memory(16 << 20);
        let builder = builder.exhaustion(tracebuf::producer::Exhaustion::Stall);
        let trace = LongTrace::to("/dev/null").period(period);
        let session = builder.long_trace(trace).start().expect("a session");
        Self { session, start: Instant::now() }
    }

    fn record(&mut self, packets: u64, content: &[u8]) -> &Self {
        let mut writer = self.session.recorder().packet_writer().expect("a writer");
        for time in 0..packets {
            writer.packet(|packet| {
                packet.varint(8, time);
                packet.message(900).bytes(1, content);
            });
        }
        drop(writer);
        self.session.flush(Duration::from_secs(5)).expect("a flush");
        self
    }

    /// Bytes of the file, seconds until all were written, chunks lost.
    fn stop(&self) -> (f64, f64, u64) {
        let stopped = self.session.stop().expect("a stop");
        let time = self.start.elapsed().as_secs_f64();
        let lost = stopped.summary().buffers[0].chunks_overwritten;
        (stopped.file.expect("a file").bytes as f64, time, lost)
    }
}

/// A service under load: the cost of an event as its thread sees it, what was lost, and memory.
fn load(sheet: &mut Sheet) {
    let load = load::run(load::seconds(6));
    let lost: u64 = load.writers.iter().map(|account| account.dropped).sum();
    let unaccounted = load.unaccounted();
    let (rate, seconds) = (load.rate() / 1e6, load.seconds);
    println!(
        "load: {rate:.2} M events/s of 8 threads for {seconds:.0} s, {} snapshots, {lost} dropped",
        load.snapshots
    );
    let [half, most, nearly] = [0.5, 0.99, 0.999].map(|share| load.time_of(share));
    println!("load: an event, two readings of a clock among it: p50 {half} p99 {most} p99.9 {nearly} ns");
    let (early, late) = load.memory;
    println!("load: resident {} KiB after a sixth of the time, {} KiB at the end", early / 1024, late / 1024);
    sheet.at_least("load-rate", rate, 1.0, "M/s");
    sheet.line("load-unaccounted", unaccounted as f64, 0.0, "packets", unaccounted == 0);
    sheet.at_most("load-memory", late as f64 / early as f64, 1.02, "of the early");
}
