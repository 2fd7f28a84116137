//! The boards: two timers that interrupt, a clock, a UART and a lamp. Each takes only a few registers, so the code here
//! is self-contained; real firmware has a HAL.
//!
//! A board's own file has `FREQUENCY`, `start`, `ticks`, `acknowledge_control`, `acknowledge_sensor`, and what this file
//! makes the rest of: `VECTORS`, the modules `uart` and `lamp`.

#[cfg_attr(board = "microbit", path = "microbit.rs")]
#[cfg_attr(board = "mps2_an386", path = "mps2_an386.rs")]
mod chip;

pub use chip::{FREQUENCY, acknowledge_control, acknowledge_sensor, start, ticks};

use chip::{VECTORS, lamp, uart};
use core::convert::Infallible;
use embedded_hal::digital;

/// A 32-bit register.
struct Register(*mut u32);

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
union Vector {
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

/// The UART, for sending at 1 Mbaud.
#[derive(Debug)]
pub struct Uart {
    sending: bool,
}

impl Uart {
    /// Turns it on.
    #[allow(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        uart::start();
        Uart { sending: false }
    }
}

impl embedded_io::ErrorType for Uart {
    type Error = Infallible;
}

impl embedded_io::WriteReady for Uart {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(!self.sending || uart::is_ready())
    }
}

impl embedded_io::Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let Some(byte) = bytes.first() else { return Ok(0) };
        self.flush()?;
        uart::send(*byte);
        self.sending = true;
        Ok(1)
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while self.sending && !uart::is_ready() {}
        Ok(())
    }
}

/// A lamp whose state can be read.
#[derive(Debug)]
pub struct Lamp(());

impl Lamp {
    /// Makes its pin an output whose input is connected too.
    #[allow(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        lamp::start();
        Lamp(())
    }
}

impl digital::ErrorType for Lamp {
    type Error = Infallible;
}

impl digital::OutputPin for Lamp {
    fn set_low(&mut self) -> Result<(), Infallible> {
        lamp::set(false);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        lamp::set(true);
        Ok(())
    }
}

impl digital::InputPin for Lamp {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(lamp::is_on())
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!lamp::is_on())
    }
}
