//! Firmware for RISC-V that traces itself: a main loop, and the timer that interrupts it, also within a packet.
//!
//! The first start records without sending, until it is reset in the middle of a slice. The second one
//! - sends what the first has left: `before.pftrace`;
//! - sends what it records while it records, without loss: `riscv.pftrace`;
//! - has its drain come too late, again and again, and sends what there was room for: `late.pftrace`.
//!
//! Of each it prints its own account, with which `.ci/firmware_riscv` compares the traces.
#![no_std]
#![no_main]

use core::cell::RefCell;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use critical_section::Mutex;
use riscv::interrupt::Interrupt;
use riscv::register::mie;
use riscv_rt::{core_interrupt, entry};
use semihosting::{io, println, process};
use static_cell::StaticCell;
use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::track_event::{Tracer, TracerConfig, Track, Unit};
use tracebuf::producer::{Exhaustion, Producer};
use tracebuf_embedded::export::Export;
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, state_every};
use tracebuf_embedded::region::Region;
use tracebuf_embedded::send::{Progress, Sender};
use tracebuf_riscv::{FREQUENCY, Mtime, file, interrupt_soon, reset};

const TRACE_BYTES: usize = 16 * 1024;

/// Where start-up code leaves it alone: a start after a reset finds what was recorded before.
#[unsafe(link_section = ".uninit.TRACE")]
static TRACE: Region<{ TRACE_BYTES / 8 }> = Region::zeroed();
static STORAGE: Storage = Storage::new();
static INBOX: Inbox = Inbox::new();
static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();

static FIRMWARE: Track<'static> = Track::process(1, "firmware");
static MAIN: Track<'static> = Track::thread(1, 1, "main loop").within(&FIRMWARE);
static TIMER: Track<'static> = Track::thread(1, 2, "timer interrupt").within(&FIRMWARE);
static ROUNDS: Track<'static> = Track::counter("rounds", Unit::Count).within(&FIRMWARE);
static TICKS: Track<'static> = Track::counter("ticks", Unit::Count).within(&FIRMWARE);

/// Times to the microsecond; the state starts anew each quarter of the ring.
const CONFIG: TracerConfig =
    TracerConfig::new(FREQUENCY).unit_ns(1_000).state_every(state_every(TRACE_BYTES));

type MyTracer = Tracer<'static, Mtime, 16, 4>;

fn tracer(producer: &'static Producer<'static>, track: &'static Track<'static>) -> Option<MyTracer> {
    Some(Tracer::with_tables(producer.writer(0, Exhaustion::Drop)?, Mtime, track, CONFIG))
}

/// The interrupt's.
static TIMER_TRACER: Mutex<RefCell<Option<MyTracer>>> = Mutex::new(RefCell::new(None));
/// How often it came. Only the interrupt stores.
static TICKS_DONE: AtomicU32 = AtomicU32::new(0);

/// Nothing interrupts an interrupt, so that what is masked here is masked already.
#[core_interrupt(Interrupt::MachineTimer)]
fn tick() {
    critical_section::with(|cs| {
        interrupt_soon(cs);
        let ticks = TICKS_DONE.load(Relaxed).wrapping_add(1);
        TICKS_DONE.store(ticks, Relaxed);
        let tracer = TIMER_TRACER.borrow_ref(cs);
        let Some(tracer) = tracer.as_ref() else { return };
        let _slice = tracer.track().enter("tick");
        tracer.on(&TICKS).count(ticks.into());
    });
}

/// What a turn of the main loop records.
fn round(tracer: &MyTracer, number: u32) {
    let _round = tracer.track().enter("round");
    {
        let _work = tracer.track().enter("work");
        (0..50).for_each(|i| _ = black_box(i));
    }
    tracer.on(&ROUNDS).count(number.into());
}

/// A packet in which the interrupt takes chunks, fills them and gives them back.
fn interrupted_packet(tracer: &MyTracer) {
    tracer.track().instant_with("interrupted", |event| {
        let first = TICKS_DONE.load(Relaxed);
        event.arg("first", first);
        while TICKS_DONE.load(Relaxed).wrapping_sub(first) < 30 {}
        event.arg("last", TICKS_DONE.load(Relaxed))
    });
}

/// One start of the firmware.
struct Run {
    producer: &'static Producer<'static>,
    recorder: RingRecorder<'static>,
    /// The main loop's.
    tracer: MyTracer,
}

impl Run {
    /// Laps the ring without sending, and ends in the middle of a slice, with nothing flushed.
    fn until_reset(mut self) -> ! {
        let rounds = 500;
        self.start_trace();
        for number in 0..rounds {
            round(&self.tracer, number);
            self.recorder.drain(self.producer);
        }
        self.tracer.track().begin("last words");
        self.tracer.track().instant("reset ahead");
        self.account("before.pftrace", rounds);
        reset()
    }

    /// Sends while it records.
    fn complete(&mut self) -> io::Result<()> {
        let mut sender = Sender::raw(file(c"riscv.pftrace")?);
        let rounds = 2_000;
        self.start_trace();
        for number in 0..rounds {
            round(&self.tracer, number);
            if number % 100 == 50 {
                interrupted_packet(&self.tracer);
            }
            self.send(&mut sender)?;
        }
        self.end_trace("riscv.pftrace", rounds, &mut sender)
    }

    /// The same, but that the drain has its turn when shared memory has long been full.
    fn late(&mut self) -> io::Result<()> {
        let mut sender = Sender::raw(file(c"late.pftrace")?);
        // The last one has room, and so makes up for ends of slices that were lost.
        let rounds = 3_001;
        self.start_trace();
        for number in 0..rounds {
            round(&self.tracer, number);
            if number % 150 == 149 {
                interrupted_packet(&self.tracer);
                self.send(&mut sender)?;
            }
        }
        self.end_trace("late.pftrace", rounds, &mut sender)
    }

    /// What is recorded from now on can be read without what was sent before. Starts the timer.
    fn start_trace(&self) {
        self.producer.clear_incremental_state();
        critical_section::with(interrupt_soon);
        // SAFETY: the handler may run from now on.
        unsafe { mie::set_mtimer() };
    }

    /// Sends all that is there, while more may come.
    fn send(&mut self, sender: &mut Sender<impl Export<Error = io::Error>>) -> io::Result<()> {
        self.recorder.drain(self.producer);
        while sender.poll(self.recorder.buffer())? == Progress::Sent {
            self.recorder.drain(self.producer);
        }
        Ok(())
    }

    /// Sends the rest, of what is not complete too.
    fn end_trace(
        &mut self,
        trace: &str,
        rounds: u32,
        sender: &mut Sender<impl Export<Error = io::Error>>,
    ) -> io::Result<()> {
        self.account(trace, rounds);
        self.recorder.scrape(self.producer);
        sender.finish(&mut self.recorder)
    }

    /// Stops the timer and prints what was recorded until then, since the start; of rounds, what is in the one trace.
    fn account(&self, trace: &str, rounds: u32) {
        // SAFETY: without interrupts nothing happens that relies on them.
        unsafe { mie::clear_mtimer() };
        let main = self.tracer.stats().writer;
        let timer =
            critical_section::with(|cs| TIMER_TRACER.borrow_ref(cs).as_ref().map(|tracer| tracer.stats()));
        let timer = timer.unwrap_or_default().writer;
        let ticks = TICKS_DONE.load(Relaxed);
        println!(
            "{trace}: main loop {} packets, {} dropped; timer interrupt {} packets, {} dropped; \
             {rounds} rounds, {ticks} ticks",
            main.packets, main.dropped, timer.packets, timer.dropped
        );
    }
}

/// What a start before this one has recorded goes into a file of its own: its times overlap with this one's.
fn send_before(ring: &mut TraceBuffer<&'static mut [u8]>) -> io::Result<()> {
    Sender::raw(file(c"before.pftrace")?).finish_ring(ring)
}

#[entry]
fn main() -> ! {
    // SAFETY: this runs once in a start.
    let region = unsafe { TRACE.take() };
    let mut before = None;
    let attached = RingRecorder::attach_or_new(region, &STORAGE, &INBOX, |ring, _salvage| {
        before = Some(send_before(ring));
    });
    // This firmware is there to be traced. Other firmware goes on without, as that of the tutorial does.
    let Ok((producer, recorder)) = attached else { process::exit(1) };
    let producer = PRODUCER.init(producer);
    let (Some(main), Some(timer)) = (tracer(producer, &MAIN), tracer(producer, &TIMER)) else {
        process::exit(1)
    };
    critical_section::with(|cs| TIMER_TRACER.replace(cs, Some(timer)));
    let mut run = Run { producer, recorder, tracer: main };
    // SAFETY: which interrupts there are is said one by one, and so far there are none.
    unsafe { riscv::interrupt::enable() };
    let Some(before) = before else { run.until_reset() };
    let sent = before.and_then(|()| run.complete()).and_then(|()| run.late());
    process::exit(i32::from(sent.is_err()))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(2)
}
