#![no_std]
#![no_main]

use core::cell::Cell;
use cortex_m::interrupt::Mutex;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use semihosting::fs::File;
use semihosting::io::{self, Write};
use semihosting::process;
use static_cell::StaticCell;
use tracebuf::producer::track_event::{Clock, Extended32, Tracer, TracerConfig, Track, Unit};
use tracebuf::producer::{Exhaustion, Producer};
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, state_every};
use tracebuf_embedded::region::Region;
use tracebuf_embedded::send::Sender;

const TRACE_BYTES: usize = 16 * 1024;

#[unsafe(link_section = ".uninit.TRACE")]
static TRACE: Region<{ TRACE_BYTES / 8 }> = Region::zeroed();
static STORAGE: Storage = Storage::new();
static INBOX: Inbox = Inbox::new();
static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();

/// Starts recording. If the region is too small for it, the firmware works without.
fn start() -> Option<(&'static Producer<'static>, RingRecorder<'static>)> {
    // SAFETY: this runs once per start.
    let region = unsafe { TRACE.take() };
    let started = RingRecorder::attach_or_new(region, &STORAGE, &INBOX, |ring, _salvage| {
        // After a reset. What was recorded before it can be sent from `ring` here, into a file of its own: its times
        // are not this start's. What is not read here stays, and comes with what this start records.
        let mut before = ring.read();
        while before.next_packet().is_some() {}
    });
    let (producer, recorder) = started.ok()?;
    Some((PRODUCER.init(producer), recorder))
}

struct Timer;

static WIDE: Extended32 = Extended32::new();

impl Clock for Timer {
    fn now(&self) -> u64 {
        // SAFETY: this is the value register of the board's second timer.
        WIDE.extend(|| !unsafe { (0x4000_2004 as *const u32).read_volatile() })
    }
}

static MAIN: Track<'static> = Track::thread(1, 1, "main loop");

type MyTracer = Tracer<'static, Timer, 16, 4>;

const CONFIG: TracerConfig =
    TracerConfig::new(25_000_000).unit_ns(1_000).state_every(state_every(TRACE_BYTES));

fn tracer(producer: &'static Producer<'static>, track: &'static Track<'static>) -> Option<MyTracer> {
    Some(Tracer::with_tables(producer.writer(0, Exhaustion::Drop)?, Timer, track, CONFIG))
}

static LEVEL: Track<'static> = Track::counter("level", Unit::Count);

static INTERRUPT: Track<'static> = Track::thread(1, 2, "SysTick");
static SHARED: Mutex<Cell<Option<&'static Producer<'static>>>> = Mutex::new(Cell::new(None));

#[exception]
fn SysTick() {
    static mut TRACER: Option<MyTracer> = None;
    if TRACER.is_none() {
        let producer = cortex_m::interrupt::free(|cs| SHARED.borrow(cs).get());
        *TRACER = producer.and_then(|producer| tracer(producer, &INTERRUPT));
    }
    let _slice = TRACER.as_ref().map(|tracer| tracer.track().enter("tick"));
    // The interrupt's actual work, with or without a tracer.
    cortex_m::asm::delay(100);
}

fn send(recorder: &mut RingRecorder<'static>, producer: &Producer<'static>) -> io::Result<()> {
    let mut file = File::create(c"my-firmware.pftrace")?;
    recorder.scrape(producer);
    Sender::raw(|bytes: &[u8]| file.write(bytes)).finish(recorder)
}

#[entry]
fn main() -> ! {
    let mut recording = start();

    // SAFETY: this is the control register of the same timer: on, 32 bits.
    unsafe { (0x4000_2008 as *mut u32).write_volatile(0x82) };
    let tracer = recording.as_ref().and_then(|(producer, _)| tracer(producer, &MAIN));
    if let Some(tracer) = &tracer {
        tracer.track().instant("started");
    }

    cortex_m::interrupt::free(|cs| SHARED.borrow(cs).set(recording.as_ref().map(|(producer, _)| *producer)));
    if let Some(mut core) = cortex_m::Peripherals::take() {
        core.SYST.set_clock_source(SystClkSource::Core);
        core.SYST.set_reload(25_000); // a millisecond
        core.SYST.enable_counter();
        core.SYST.enable_interrupt();
    }

    let mut level = 0;

    loop {
        if let Some((producer, recorder)) = &mut recording {
            recorder.drain(producer);
        }

        if let (100, Some(tracer), Some((producer, recorder))) = (level, &tracer, &mut recording) {
            tracer.flush();
            process::exit(i32::from(send(recorder, producer).is_err()));
        }

        let _slice = tracer.as_ref().map(|tracer| tracer.track().enter("work"));
        if let Some(tracer) = &tracer {
            tracer.on(&LEVEL).count(level);
        }
        level += 1;

        work();
    }
}

/// The firmware's actual work.
fn work() {
    cortex_m::asm::delay(5_000);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    cortex_m::peripheral::SCB::sys_reset()
}
