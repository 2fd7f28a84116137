#![no_std]
#![no_main]

use cortex_m_rt::entry;
use static_cell::StaticCell;
use tracebuf::producer::{Producer, ProducerStorage};
use tracebuf_embedded::recorder::{Inbox, Recorder, WRITERS};
use tracebuf_embedded::region::Region;

const TRACE_BYTES: usize = 16 * 1024;

#[unsafe(link_section = ".uninit.TRACE")]
static TRACE: Region<{ TRACE_BYTES / 8 }> = Region::zeroed();
static STORAGE: ProducerStorage<{ Inbox::CHUNKS }, WRITERS> = ProducerStorage::new();
static INBOX: Inbox = Inbox::new();
static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();

/// Starts recording. If the region is too small for it, the firmware works without.
fn start() -> Option<(&'static Producer<'static>, Recorder<'static>)> {
    // SAFETY: this runs once per start.
    let region = unsafe { TRACE.take() };
    let started = Recorder::attach_or_new(region, &STORAGE, &INBOX, |ring, _salvage| {
        // After a reset. What was recorded before it can be sent from `ring` here, into a file of its own: its times
        // are not this start's. What is not read here stays, and comes with what this start records.
        let mut before = ring.read();
        while before.next_packet().is_some() {}
    });
    let (producer, recorder) = started.ok()?;
    Some((PRODUCER.init(producer), recorder))
}

#[entry]
fn main() -> ! {
    let mut recording = start();

    loop {
        work();
        if let Some((producer, recorder)) = &mut recording {
            recorder.drain(producer);
        }
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
