#![no_std]
#![no_main]

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use tracebuf_embedded::inplace::{Recorder, Region, Writer};
use tracebuf_embedded::outlet::Outlet;
use tracebuf_embedded::rtt::Rtt;

type Trace = Region<64, 128, 32>;

#[unsafe(link_section = ".uninit.TRACE")]
static TRACE: Trace = Region::zeroed();

const FREQUENCY: u32 = 25_000_000;

fn ticks() -> u32 {
    // SAFETY: this is the value register of the board's second timer, which counts down.
    !unsafe { (0x4000_2004 as *const u32).read_volatile() }
}

#[unsafe(export_name = "_SEGGER_RTT")]
static RTT: Rtt<1024> = Rtt::new();

#[exception]
fn SysTick() {
    static mut WRITER: Option<Writer<'static, Trace, fn() -> u32>> = None;
    if WRITER.is_none() {
        *WRITER = Recorder::existing(&TRACE, ticks as fn() -> u32).map(|recorder| recorder.writer("SysTick"));
    }
    let _slice = WRITER.as_ref().map(|writer| writer.enter("tick"));
    // The interrupt's actual work.
    cortex_m::asm::delay(100);
}

#[entry]
fn main() -> ! {
    // SAFETY: this is the control register of the same timer: on, 32 bits.
    unsafe { (0x4000_2008 as *mut u32).write_volatile(0x82) };
    let (recorder, _found) = Recorder::attach_or_new(&TRACE, ticks, FREQUENCY);
    let writer = recorder.writer("main loop");
    let mut level = 0;

    let mut outlet = Outlet::new(recorder, RTT.channel());

    if let Some(mut core) = cortex_m::Peripherals::take() {
        core.SYST.set_clock_source(SystClkSource::Core);
        core.SYST.set_reload(25_000); // a millisecond
        core.SYST.enable_counter();
        core.SYST.enable_interrupt();
    }

    loop {
        let Ok(_) = outlet.poll();

        let _slice = writer.enter("work");
        writer.count("level", level);
        level += 1;

        work();
    }
}

/// The firmware's actual work.
fn work() {
    cortex_m::asm::delay(100_000);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    cortex_m::peripheral::SCB::sys_reset()
}
