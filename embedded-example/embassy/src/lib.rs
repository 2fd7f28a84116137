//! What is recorded, and its way out: the same for all chips that embassy knows.
#![no_std]

#[cfg(not(feature = "one-block"))]
mod beside_defmt_rtt;
#[cfg(feature = "one-block")]
mod one_block;

#[cfg(not(feature = "one-block"))]
pub use beside_defmt_rtt::send;
#[cfg(feature = "one-block")]
pub use one_block::send;

use core::convert::Infallible;
use embassy_time::{Instant, TICK_HZ, Timer};
use static_cell::StaticCell;
use tracebuf_embedded::export::Export;
use tracebuf_embedded::inplace::{self, Region};
use tracebuf_embedded::outlet::Outlet;
use tracebuf_embedded::tasks;

type Trace = Region<64, 128, 32>;
pub type Recorder = inplace::Recorder<'static, Trace, fn() -> u32>;
pub type Writer = inplace::Writer<'static, Trace, fn() -> u32>;

#[unsafe(link_section = ".uninit.TRACE")]
static TRACE: Trace = Region::zeroed();
static SCHEDULER: StaticCell<Writer> = StaticCell::new();

/// The clock is the time driver's, so the HAL's `init` comes before this. Tasks are recorded that are spawned after it.
pub fn begin() -> Recorder {
    let ticks: fn() -> u32 = || Instant::now().as_ticks() as u32;
    let (recorder, _found) = Recorder::attach_or_new(&TRACE, ticks, TICK_HZ as u32);
    tasks::record(SCHEDULER.init(recorder.writer("scheduler")));
    recorder
}

/// As often as the line's buffer fills. Each turn is a slice of the trace, too.
async fn keep_sending(recorder: Recorder, line: impl Export<Error = Infallible>) -> ! {
    let mut outlet = Outlet::new(recorder, line);
    loop {
        let Ok(_) = outlet.poll();
        Timer::after_millis(50).await;
    }
}
