//! The cost sheet of RISC-V: a line for each figure, `budget NAME MEASURED LIMIT UNIT ok|over`, as in `benches/costs.rs`
//! for a Cortex-M. They are medians; those of events have the same limits.
#![no_std]
#![no_main]

use core::arch::asm;
use core::hint::black_box;
use riscv::register::minstret;
use riscv_rt::entry;
use semihosting::{println, process};
use static_cell::{ConstStaticCell, StaticCell};
use tracebuf::producer::track_event::{Tracer, TracerConfig, Track, Unit};
use tracebuf::producer::{Exhaustion, Producer};
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage};
use tracebuf_riscv::{FREQUENCY, Mtime};

static REGION: ConstStaticCell<[u64; 2048]> = ConstStaticCell::new([0; 2048]);
static STORAGE: Storage = Storage::new();
static INBOX: Inbox = Inbox::new();
static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();
static MAIN: Track<'static> = Track::thread(1, 1, "main");
static LEVEL: Track<'static> = Track::counter("level", Unit::Count);

const CONFIG: TracerConfig = TracerConfig::new(FREQUENCY).unit_ns(1_000);

type MyTracer = Tracer<'static, Mtime, 16, 4>;

/// Instructions of one call, without those of looking at the counter.
struct Meter {
    empty: usize,
    /// What the counter counts for an instruction: QEMU's has its nanoseconds.
    instruction: usize,
}

impl Meter {
    #[inline(never)]
    fn raw(work: impl FnOnce()) -> usize {
        let start = minstret::read();
        work();
        minstret::read().wrapping_sub(start)
    }

    fn new() -> Self {
        let empty = Self::raw(|| ());
        // SAFETY: these do nothing.
        let hundred = Self::raw(|| unsafe { asm!(".rept 100", "nop", ".endr") });
        Meter { empty, instruction: (hundred - empty) / 100 }
    }

    fn count(&self, work: impl FnOnce()) -> usize {
        (Self::raw(work) - self.empty) / self.instruction
    }
}

/// Prints the median of many calls beside its limit. False: it is over.
fn is_kept(name: &str, mut counts: [usize; 101], limit: usize) -> bool {
    counts.sort_unstable();
    let median = counts.get(50).copied().unwrap_or(0);
    // What stands in for atomic instructions takes more of the others.
    let limit = if cfg!(target_has_atomic = "32") { limit } else { limit * 8 / 5 };
    let is_kept = 0 < median && median <= limit;
    println!("budget {name} {median} {limit} instructions {}", if is_kept { "ok" } else { "over" });
    is_kept
}

#[inline(never)]
fn begin(tracer: &MyTracer) {
    tracer.track().begin("slice");
}

#[inline(never)]
fn end(tracer: &MyTracer) {
    tracer.track().end();
}

#[inline(never)]
fn count(tracer: &MyTracer) {
    tracer.on(&LEVEL).count(black_box(1234));
}

#[entry]
fn main() -> ! {
    let Ok((producer, mut recorder)) = RingRecorder::new(REGION.take(), &STORAGE, &INBOX) else {
        process::exit(1)
    };
    let producer = PRODUCER.init(producer);
    let Some(writer) = producer.writer(0, Exhaustion::Drop) else { process::exit(1) };
    let tracer: MyTracer = Tracer::with_tables(writer, Mtime, &MAIN, CONFIG);
    // None will come, but whoever masks interrupts then has to allow them again.
    // SAFETY: no handler may run, for no interrupt is on.
    unsafe { riscv::interrupt::enable() };
    // The state, and the names.
    begin(&tracer);
    end(&tracer);
    count(&tracer);

    let meter = Meter::new();
    let mut all_kept = true;
    let events: [(_, fn(&MyTracer), _); 3] =
        [("slice_begin", begin, 200), ("slice_end", end, 200), ("counter", count, 400)];
    for (name, call, limit) in events {
        let counts = [(); 101].map(|()| {
            let count = meter.count(|| call(&tracer));
            recorder.drain(producer);
            count
        });
        all_kept &= is_kept(name, counts, limit);
    }
    let counts = [(); 101].map(|()| {
        for _ in 0..8 {
            begin(&tracer);
            end(&tracer);
        }
        tracer.flush();
        producer.commit();
        let count = meter.count(|| {
            if let Some(request) = recorder.next_request() {
                recorder.carry_out(request, producer);
            }
        });
        recorder.drain(producer);
        count
    });
    all_kept &= is_kept("drain_of_a_chunk", counts, 4_000);
    process::exit(i32::from(!all_kept))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(2)
}
