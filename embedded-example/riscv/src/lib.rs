//! The machine `virt` of QEMU: a clock, a timer that interrupts, a reset, and files of its host. A few registers are
//! enough; real firmware has a HAL.
#![no_std]

use core::cell::Cell;
use core::ffi::CStr;
use critical_section::{CriticalSection, Mutex};
use semihosting::fs::File;
use semihosting::io::{self, Write};
use tracebuf::producer::track_event::Clock;

/// Ticks of [`Mtime`] in a second.
pub const FREQUENCY: u64 = 10_000_000;

const MTIMECMP: *mut u32 = 0x0200_4000 as *mut u32;
const MTIME: *const u32 = 0x0200_BFF8 as *const u32;
const TEST_DEVICE: *mut u32 = 0x0010_0000 as *mut u32;

/// The core's machine timer: 64 bits that count up, of which a load takes half.
#[derive(Clone, Copy, Debug)]
pub struct Mtime;

impl Clock for Mtime {
    fn now(&self) -> u64 {
        loop {
            // SAFETY: these are the halves of the timer; reading them does nothing else.
            let (high, low, after) = unsafe {
                (MTIME.add(1).read_volatile(), MTIME.read_volatile(), MTIME.add(1).read_volatile())
            };
            if high == after {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }
}

/// What the times between interrupts are made of.
static RANDOM: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));

/// The timer interrupts in 150 to 252 µs, each time another: so, sooner or later, it comes between any two instructions
/// of what it interrupts.
pub fn interrupt_soon(cs: CriticalSection<'_>) {
    let mut random = RANDOM.borrow(cs).get();
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    RANDOM.borrow(cs).set(random);
    let time = Mtime.now() + 1_500 + u64::from(random % 1_024);
    // SAFETY: these are the halves of the time to compare with. Between the stores it is none that has come.
    unsafe {
        MTIMECMP.write_volatile(u32::MAX);
        MTIMECMP.add(1).write_volatile((time >> 32) as u32);
        MTIMECMP.write_volatile(time as u32);
    }
}

/// Resets the machine, as a watchdog does.
pub fn reset() -> ! {
    // SAFETY: this is a register of QEMU's, and this value resets the machine.
    unsafe { TEST_DEVICE.write_volatile(0x7777) };
    loop {
        core::hint::spin_loop();
    }
}

/// Creates a file on QEMU's host, or empties an existing one.
///
/// # Errors
/// The host's.
pub fn file(path: &'static CStr) -> io::Result<impl FnMut(&[u8]) -> io::Result<usize>> {
    let mut file = File::create(path)?;
    Ok(move |bytes: &[u8]| file.write(bytes))
}
