//! The boards: two timers that interrupt, a clock and a UART. Each takes only a few registers, so the code here is
//! self-contained; real firmware has a HAL.
//!
//! Every board has the same items: `interrupt`, `FREQUENCY`, `start`, `ticks`, `acknowledge_control`,
//! `acknowledge_sensor`, `Uart` and `Lamp`.

#[cfg(board = "microbit")]
mod microbit;
#[cfg(board = "mps2_an386")]
mod mps2_an386;

#[cfg(board = "microbit")]
pub use microbit::*;
#[cfg(board = "mps2_an386")]
pub use mps2_an386::*;

/// A 32-bit register.
pub(crate) struct Register(*mut u32);

impl Register {
    const fn new(base: usize, offset: usize) -> Self {
        Register((base + offset) as *mut u32)
    }

    fn read(&self) -> u32 {
        // SAFETY: the address is that of a register of this board, which only this program uses.
        unsafe { self.0.read_volatile() }
    }

    fn write(&self, value: u32) {
        // SAFETY: as above; none of the registers named in these files affects memory.
        unsafe { self.0.write_volatile(value) }
    }
}

/// An entry of the vector table.
#[derive(Clone, Copy)]
pub(crate) union Vector {
    handler: unsafe extern "C" fn(),
    reserved: usize,
}

unsafe extern "C" {
    fn Control();
    fn Sensor();
}

/// The vectors of the device's interrupts; the first ones have no handler.
const fn vectors<const N: usize>() -> [Vector; N] {
    let mut vectors = [Vector { reserved: 0 }; N];
    // An index out of range would be a compile error.
    vectors[N - 2] = Vector { handler: Control };
    vectors[N - 1] = Vector { handler: Sensor };
    vectors
}

/// The device's interrupts that have handlers.
#[allow(non_camel_case_types, reason = "cortex-m-rt's attribute asks for this name")]
#[derive(Clone, Copy, Debug)]
pub enum interrupt {
    /// The control loop's timer.
    Control,
    /// The sensor's timer.
    Sensor,
}

// SAFETY: the numbers are those of the board's timers, all different, and do not change.
unsafe impl cortex_m::interrupt::InterruptNumber for interrupt {
    fn number(self) -> u16 {
        match self {
            interrupt::Control => VECTORS as u16 - 2,
            interrupt::Sensor => VECTORS as u16 - 1,
        }
    }
}
