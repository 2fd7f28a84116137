//! The recorder over the caller's region, whose sizes are chosen when the library is built.

use core::cell::Cell;
use core::ffi::c_void;
use critical_section::Mutex;
use tracebuf_embedded::inplace::{self, Found, Region, Timer};

/// A number of the environment that the library was built in.
const fn chosen(number: Option<&str>, otherwise: usize) -> usize {
    match number {
        None => otherwise,
        Some(number) => match usize::from_str_radix(number, 10) {
            Ok(number) => number,
            Err(_) => panic!("TRACEBUF_NAMES, _TEXT, _CHUNKS and _TIMER_BITS are numbers"),
        },
    }
}

const NAMES: usize = chosen(option_env!("TRACEBUF_NAMES"), 64);
const TEXT: usize = chosen(option_env!("TRACEBUF_TEXT"), 128);
const CHUNKS: usize = chosen(option_env!("TRACEBUF_CHUNKS"), 32);
const TIMER_BITS: u32 = chosen(option_env!("TRACEBUF_TIMER_BITS"), 32) as u32;

pub(crate) const OK: i32 = 0;
const FOUND: i32 = 1;
pub(crate) const WRONG: i32 = -1;
pub(crate) const TWICE: i32 = -2;
pub(crate) const NOT_YET: i32 = -3;

/// The caller's region.
pub(crate) type Trace = Region<NAMES, TEXT, CHUNKS>;

/// Sizes that cannot be do not compile.
const _: Trace = Trace::zeroed();

/// The caller's timer.
#[derive(Clone, Copy)]
pub(crate) struct Ticks(extern "C" fn() -> u32);

impl Timer for Ticks {
    const BITS: u32 = {
        assert!(TIMER_BITS >= 16 && TIMER_BITS <= 32, "timers have 16 to 32 bits");
        TIMER_BITS
    };

    #[inline(always)]
    fn ticks(&self) -> u32 {
        (self.0)()
    }
}

pub(crate) type Recorder = inplace::Recorder<'static, Trace, Ticks>;
pub(crate) type Writer = inplace::Writer<'static, Trace, Ticks>;

#[derive(Clone, Copy)]
enum State {
    Nothing,
    /// Somebody is laying the region out.
    Beginning,
    Made(Recorder),
}

static STATE: Mutex<Cell<State>> = Mutex::new(Cell::new(State::Nothing));

/// The recorder, once it is there.
pub(crate) fn recorder() -> Option<Recorder> {
    match critical_section::with(|cs| STATE.borrow(cs).get()) {
        State::Made(recorder) => Some(recorder),
        State::Nothing | State::Beginning => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_init(
    region: *mut c_void,
    size: usize,
    ticks_per_second: u32,
    timer: Option<extern "C" fn() -> u32>,
) -> i32 {
    let region = region.cast_const().cast::<Trace>();
    let fits = !region.is_null() && region.is_aligned() && size >= size_of::<Trace>();
    let Some(timer) = timer.filter(|_| fits) else { return WRONG };
    // An interrupt, or another task, may come before this is done: it must not lay the same memory out.
    let is_first = critical_section::with(|cs| {
        let state = STATE.borrow(cs);
        let is_first = matches!(state.get(), State::Nothing);
        if is_first {
            state.set(State::Beginning);
        }
        is_first
    });
    if !is_first {
        return TWICE;
    }
    // SAFETY: the caller's promise that it is memory of that size; it is aligned, and any words are valid there.
    let region: &'static Trace = unsafe { &*region };
    let (recorder, found) = Recorder::attach_or_new(region, Ticks(timer), ticks_per_second);
    critical_section::with(|cs| STATE.borrow(cs).set(State::Made(recorder)));
    if found == Found::Nothing { OK } else { FOUND }
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_keep_time() {
    if let Some(recorder) = recorder() {
        recorder.keep_time();
    }
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_now() -> u64 {
    recorder().map_or(0, |recorder| recorder.now())
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_dropped() -> u32 {
    recorder().map_or(0, |recorder| recorder.dropped())
}
