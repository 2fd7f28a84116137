//! Instructions of a call, counted by SysTick, and a line for each figure.

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use tracebuf_firmware::board;

/// SysTick counts down, 24 bits.
pub(crate) const FULL: u32 = 0x00FF_FFFF;
const TICK_PS: u64 = 1_000_000_000_000 / board::FREQUENCY;
/// As ./qemu has it.
const INSTRUCTION_PS: u64 = if cfg!(board = "microbit") { 64_000 } else { 32_000 };

/// Starts the counter that instructions are counted by.
pub(crate) fn start(counter: &mut SYST) {
    counter.set_clock_source(SystClkSource::Core);
    counter.set_reload(FULL);
    counter.clear_current();
    counter.enable_counter();
}

/// Instructions of one call, without those of looking at the clock, which this has.
pub(crate) struct Meter(u32);

impl Meter {
    pub(crate) fn new() -> Self {
        Self(Self::raw(|| ()))
    }

    #[inline(never)]
    fn raw(work: impl FnOnce()) -> u32 {
        let start = SYST::get_current();
        work();
        let ticks = start.wrapping_sub(SYST::get_current()) & FULL;
        ((u64::from(ticks) * TICK_PS + INSTRUCTION_PS / 2) / INSTRUCTION_PS) as u32
    }

    pub(crate) fn count(&self, work: impl FnOnce()) -> u32 {
        Self::raw(work).saturating_sub(self.0)
    }
}

/// The median and the largest of so many counts.
pub(crate) fn many<const N: usize>(count: impl FnMut(usize) -> u32) -> (u32, u32) {
    let mut counts: [u32; N] = core::array::from_fn(count);
    counts.sort_unstable();
    (counts.get(N / 2).copied().unwrap_or(0), counts.last().copied().unwrap_or(0))
}

/// Prints a line; true if it is over.
pub(crate) fn is_over(name: core::fmt::Arguments<'_>, measured: u32, limit: u32, unit: &str) -> bool {
    let verdict = if measured > limit { "over" } else { "ok" };
    semihosting::println!("budget {name} {measured} {limit} {unit} {verdict}");
    measured > limit
}

pub(crate) fn finish(over: bool) -> ! {
    semihosting::process::exit(i32::from(over))
}
