//! The functions of `tracebuf_packets.h`: whole packets on the device, in a ring that it reads itself.

use crate::alone::Alone;
use crate::text::text;
use core::cell::Cell;
use core::ffi::{c_char, c_void};
use critical_section::Mutex;
use static_cell::StaticCell;
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track, Unit};
use tracebuf::producer::{Exhaustion, Producer};
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, WRITERS, state_every};
use tracebuf_embedded::send::{Sender, Unsent};

const COUNTERS: usize = 8;

const OK: i32 = 0;
const FOUND: i32 = 1;
const TOO_SMALL: i32 = -1;
const TWICE: i32 = -2;
const NOT_YET: i32 = -3;
const WRITE: i32 = -4;
const BUSY: i32 = -5;

type Now = extern "C" fn() -> u64;
type Wake = extern "C" fn();

/// The caller's clock, by its function.
struct CallersClock(Now);

impl Clock for CallersClock {
    fn now(&self) -> u64 {
        (self.0)()
    }
}

/// A `tracebuf_packets_writer`.
struct Writer(Tracer<'static, CallersClock, 16, 4>, OpenSlices);

/// A `tracebuf_packets_counter`.
struct Counter(Track<'static>);

/// What `tracebuf_packets_init` makes and nothing changes later.
struct Made {
    producer: Producer<'static>,
    config: TracerConfig,
    clock: Now,
}

static STORAGE: Storage = Storage::new();
static INBOX: Inbox = Inbox::with_wake(wake);
/// The caller's function that calls for the drain.
static WAKE: Mutex<Cell<Option<Wake>>> = Mutex::new(Cell::new(None));
static FIRMWARE: Track<'static> = Track::process(1, "firmware");
static TRACKS: [StaticCell<Track<'static>>; WRITERS] = [const { StaticCell::new() }; WRITERS];
static TRACERS: [StaticCell<Writer>; WRITERS] = [const { StaticCell::new() }; WRITERS];
static COUNTER_TRACKS: [StaticCell<Counter>; COUNTERS] = [const { StaticCell::new() }; COUNTERS];
static MADE: StaticCell<Made> = StaticCell::new();
static MADE_AT: Mutex<Cell<Option<&'static Made>>> = Mutex::new(Cell::new(None));

/// The recorder, and the packet that the export after a failed one begins with.
struct Drained {
    recorder: RingRecorder<'static>,
    unsent: Unsent,
}

/// The drain's side, which only the lowest priorities touch. The function that writes must not come by a second one.
static DRAIN: Alone<Option<Drained>> = Alone::new(None);

/// Does something with the recorder. [`NOT_YET`] before the start, [`BUSY`] within another call of this.
fn with_recorder<R>(work: impl FnOnce(&Made, &mut Drained) -> R) -> Result<R, i32> {
    let made = made().ok_or(NOT_YET)?;
    DRAIN.with(|drained| drained.as_mut().map(|drained| work(made, drained)).ok_or(NOT_YET)).ok_or(BUSY)?
}

fn wake() {
    if let Some(wake) = critical_section::with(|cs| WAKE.borrow(cs).get()) {
        wake();
    }
}

fn made() -> Option<&'static Made> {
    critical_section::with(|cs| MADE_AT.borrow(cs).get())
}

/// Which of a writer's open slices have begun: the end of one whose begin is lost would end the slice around it. A stack
/// of 32 slices; those deeper count as begun.
#[derive(Default)]
struct OpenSlices {
    depth: Cell<u32>,
    /// One bit for each depth: whether the begin is lost.
    lost: Cell<u32>,
}

impl OpenSlices {
    /// A slice begins, or its begin is lost.
    fn push(&self, has_begun: bool) {
        let depth = self.depth.get();
        let bit = 1_u32.checked_shl(depth).unwrap_or(0);
        let lost = if has_begun { 0 } else { bit };
        self.lost.set(self.lost.get() | lost);
        self.depth.set(depth.saturating_add(1));
    }

    /// A slice ends. Returns whether it has begun, which one without a begin here has elsewhere.
    fn pop(&self) -> bool {
        let depth = self.depth.get().saturating_sub(1);
        let (bit, lost) = (1_u32.checked_shl(depth).unwrap_or(0), self.lost.get());
        self.depth.set(depth);
        self.lost.set(lost & !bit);
        lost & bit == 0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_packets_init(
    region: *mut c_void,
    size: usize,
    ticks_per_second: u64,
    clock: Option<Now>,
) -> i32 {
    let start = |place: &mut Option<Drained>| {
        if made().is_some() {
            return TWICE;
        }
        let Some(clock) = clock.filter(|_| !region.is_null()) else { return TOO_SMALL };
        // SAFETY: the caller's promise; any bytes are `u64` once aligned.
        let words =
            unsafe { core::slice::from_raw_parts_mut(region.cast::<u8>(), size).align_to_mut::<u64>().1 };
        // Without the bytes that aligning it takes.
        let every = state_every(size_of_val(words));
        let config = TracerConfig::new(ticks_per_second).unit_ns(1_000).state_every(every);
        let mut found = OK;
        let started = RingRecorder::attach_or_new(words, &STORAGE, &INBOX, |_, _| found = FOUND);
        let Ok((producer, recorder)) = started else { return TOO_SMALL };
        let Some(made) = MADE.try_init(Made { producer, config, clock }) else { return TWICE };
        *place = Some(Drained { recorder, unsent: Unsent::default() });
        critical_section::with(|cs| MADE_AT.borrow(cs).set(Some(made)));
        found
    };
    // An interrupt, or another task, may come before this is done: it must not lay the same memory out.
    DRAIN.with(start).unwrap_or(TWICE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_packets_writer_new(name: *const c_char) -> Option<&'static Writer> {
    let made = made()?;
    let writer = made.producer.writer(0, Exhaustion::Drop)?;
    let number = usize::from(writer.id());
    let (track, place) = (TRACKS.get(number.wrapping_sub(1))?, TRACERS.get(number.wrapping_sub(1))?);
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let track = track.try_init(Track::thread(1, number as u32, name).within(&FIRMWARE))?;
    place
        .try_init_with(|| {
            let tracer = Tracer::with_tables(writer, CallersClock(made.clock), track, made.config);
            Writer(tracer, OpenSlices::default())
        })
        .map(|writer| &*writer)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_packets_counter_new(name: *const c_char) -> Option<&'static Counter> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    COUNTER_TRACKS.iter().zip(0..).find_map(|(place, number)| {
        // By their numbers: names that are cut, or cannot be read, may be the same.
        let track = Track::counter(name, Unit::Unspecified).within(&FIRMWARE).numbered(number);
        place.try_init_with(|| Counter(track)).map(|counter| &*counter)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_packets_slice_begin(writer: Option<&'static Writer>, name: *const c_char) {
    let Some(writer) = writer else { return };
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    writer.1.push(writer.0.track().enter(name).detach());
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_slice_end(writer: Option<&'static Writer>) {
    let Some(writer) = writer else { return };
    if writer.1.pop() {
        writer.0.track().attach().end();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_packets_instant(writer: Option<&'static Writer>, name: *const c_char) {
    let Some(writer) = writer else { return };
    // SAFETY: the caller's promise.
    writer.0.track().instant(unsafe { text(name) });
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_count(
    writer: Option<&'static Writer>,
    counter: Option<&'static Counter>,
    value: i64,
) {
    let (Some(writer), Some(counter)) = (writer, counter) else { return };
    writer.0.on(&counter.0).count(value);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_flush(writer: Option<&'static Writer>) {
    let Some(writer) = writer else { return };
    let _ = writer.0.flush();
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_drain() {
    // Before `tracebuf_packets_init` there is nothing to do; within an export that does it, and calls for another
    // behind it.
    let _ = with_recorder(|made, drained| drained.recorder.drain(&made.producer));
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_on_work(wake: Option<Wake>) {
    critical_section::with(|cs| WAKE.borrow(cs).set(wake));
    // What came before this has called nobody; and when all is full, nothing calls again.
    self::wake();
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_dropped() -> u32 {
    INBOX.losses().packets
}

type Write = extern "C" fn(context: *mut c_void, bytes: *const u8, size: usize) -> i32;

#[unsafe(no_mangle)]
extern "C" fn tracebuf_packets_export(write: Option<Write>, context: *mut c_void) -> i32 {
    let exported = with_recorder(|made, Drained { recorder, unsent }| {
        let Some(write) = write else { return WRITE };
        let line = |bytes: &[u8]| match usize::try_from(write(context, bytes.as_ptr(), bytes.len())) {
            Ok(taken) => Ok(taken.min(bytes.len())),
            Err(_) => Err(()),
        };
        let mut sender = Sender::raw(line).resuming(core::mem::take(unsent));
        let sent = sender.catch_up(recorder, &made.producer).and_then(|()| {
            // The next export is a file of its own: what is recorded from now on needs names, clock and tracks there.
            // Asked for before the copy, so that writers that have no event until then tell them in their next one;
            // and again behind it, for those that have told them meanwhile, in this file.
            made.producer.clear_incremental_state();
            recorder.scrape(&made.producer);
            made.producer.clear_incremental_state();
            sender.finish(recorder)
        });
        match sent {
            Ok(()) => OK,
            Err(()) => {
                // What is recorded from now on can be read without this file; what is in the ring as the next one
                // begins where this one has ended.
                made.producer.clear_incremental_state();
                *unsent = sender.into_unsent();
                WRITE
            }
        }
    });
    // A drain that came meanwhile found it busy.
    wake();
    exported.unwrap_or_else(|error| error)
}
