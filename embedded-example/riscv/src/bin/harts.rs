//! Two harts that record into one region, each with a writer of its own, with one table of names.
//!
//! They begin each batch of rounds at once, so that their claims, and their first uses of names, race. One region keeps all
//! of it, and is `harts.dump`; another one is lapped many times, while one of them sends what both record, `harts.bin`.
//! `.ci/firmware_riscv` must find every event in both.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, Ordering};
use riscv_rt::entry;
use semihosting::{io, process};
use tracebuf_embedded::export::Progress;
use tracebuf_embedded::inplace::{Bits, Memory, Recorder, Region};
use tracebuf_embedded::outlet::Outlet;
use tracebuf_riscv::file;

type Timer = Bits<16, fn() -> u32>;

/// Has room for everything.
type Kept = Region<512, 1024, 2048, 32>;
/// Has room for some batches.
type Sent = Region<512, 1024, 32, 32>;

#[unsafe(link_section = ".uninit.KEPT")]
static KEPT: Kept = Region::zeroed();
#[unsafe(link_section = ".uninit.SENT")]
static SENT: Sent = Region::zeroed();

const ROUNDS: u32 = 4_000;
/// Rounds from one meeting of the harts to the next.
const BATCH: u32 = 8;
/// What 160 names are made of.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const COUNTERS: [&str; 2] = ["rounds of hart 0", "rounds of hart 1"];

/// Nobody's: what counts is the order.
const FREQUENCY: u32 = 1_000_000;

/// A clock that both read, and never the same: so it is known which event came first. Its half periods are counted by
/// whoever comes first after 885 readings.
fn ticks() -> u32 {
    static TICKS: AtomicU32 = AtomicU32::new(0);
    TICKS.fetch_add(37, Ordering::Relaxed) & 0xFFFF
}

const TIMER: Timer = Bits(ticks);

/// Waits until the other hart has come, too.
fn meet() {
    static MET: AtomicU32 = AtomicU32::new(0);
    let both = MET.fetch_add(1, Ordering::AcqRel) / 2 * 2 + 2;
    while MET.load(Ordering::Acquire) < both {
        core::hint::spin_loop();
    }
}

/// Records what a hart records, with something to do between batches.
fn record<M: Memory>(
    hart: usize,
    recorder: Recorder<'_, M, Timer>,
    mut between: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let writer = recorder.writer(if hart == 0 { "hart 0" } else { "hart 1" });
    for first in (0..ROUNDS).step_by(BATCH as usize) {
        // The same name as the other hart, and then another one.
        let batch = (first / BATCH) as usize;
        let number = batch + batch % 2 * hart * 80;
        let (start, len) = (number % 16, 1 + number / 16 % 10);
        let name = LETTERS.get(start..start + len).unwrap_or_default();
        meet();
        for round in first..first + BATCH {
            let _slice = writer.enter(name);
            writer.count(COUNTERS[hart % 2], round as i32);
        }
        between()?;
    }
    drop(writer);
    meet();
    Ok(())
}

/// The rest of the first hart's work, once both regions are there.
fn first_hart(kept: Recorder<'_, Kept, Timer>, sent: Recorder<'_, Sent, Timer>) -> io::Result<()> {
    record(0, kept, || Ok(()))?;
    let mut dump = file(c"harts.dump")?;
    for word in KEPT.words() {
        dump(&word.to_le_bytes())?;
    }
    let mut outlet = Outlet::new(sent, file(c"harts.bin")?);
    record(0, sent, || {
        while outlet.poll()? == Progress::Sent {}
        Ok(())
    })?;
    outlet.finish()
}

fn second_hart() -> Option<io::Result<()>> {
    let (kept, sent) = (Recorder::existing(&KEPT, TIMER)?, Recorder::existing(&SENT, TIMER)?);
    Some(record(1, kept, || Ok(())).and_then(|()| record(1, sent, || Ok(()))))
}

// The second hart waits until the first one has initialized memory, and calls it: by its software interrupt, which
// stays disabled.
global_asm!(
    r#"
    .section .init.mp_hook, "ax"
    .global _mp_hook
_mp_hook:
    beqz a0, 2f
1:  csrr t0, mip
    andi t0, t0, 8
    beqz t0, 1b
    li a0, 0
    ret
2:  li a0, 1
    ret
"#
);

#[entry]
fn main(hart: usize) -> ! {
    if hart != 0 {
        if !matches!(second_hart(), Some(Ok(()))) {
            process::exit(1);
        }
        loop {
            riscv::asm::wfi();
        }
    }
    let kept = Recorder::new(&KEPT, TIMER, FREQUENCY);
    let sent = Recorder::new(&SENT, TIMER, FREQUENCY);
    // SAFETY: this is the second hart's software interrupt, which QEMU's machine has.
    unsafe { (0x0200_0004 as *mut u32).write_volatile(1) };
    process::exit(i32::from(first_hart(kept, sent).is_err()))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    process::exit(2)
}
