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
use cortex_m::peripheral::NVIC;
use embedded_hal::digital;
use tracebuf::producer::track_event::{Clock, Extended32};

static CLOCK: Extended32 = Extended32::new();

/// The clock, as a priority reads it.
pub fn now(priority: usize) -> u64 {
    CLOCK.extend(|| ticks(priority))
}

/// The clock of the lowest priority.
#[derive(Debug)]
pub struct BoardClock;

impl Clock for BoardClock {
    fn now(&self) -> u64 {
        now(0)
    }
}

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
type Vector = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn Control();
    fn Sensor();
    fn Software();
}

/// The vectors of the device's interrupts; the first ones have no handler.
const fn vectors<const N: usize>() -> [Vector; N] {
    let mut vectors: [Vector; N] = [None; N];
    // An index out of range would be a compile error.
    vectors[N - 3] = Some(Software);
    vectors[N - 2] = Some(Control);
    vectors[N - 1] = Some(Sensor);
    vectors
}

/// The device's interrupts that have handlers.
#[allow(non_camel_case_types, reason = "cortex-m-rt's attribute asks for this name")]
#[derive(Clone, Copy, Debug)]
pub enum interrupt {
    /// One that no device has, for programs to pend.
    Software = VECTORS as isize - 3,
    /// The control loop's timer.
    Control = VECTORS as isize - 2,
    /// The sensor's timer.
    Sensor = VECTORS as isize - 1,
}

// SAFETY: the numbers are all different, and do not change.
unsafe impl cortex_m::interrupt::InterruptNumber for interrupt {
    fn number(self) -> u16 {
        self as u16
    }
}

/// Starts the clock and both timers, whose handlers may run from now on; the control loop's has the higher priority.
///
/// # Safety
/// What the handlers share with each other and the rest is atomic, or used with interrupts masked.
pub unsafe fn start_interrupts(control_micros: u32, sensor_micros: u32) {
    start(control_micros, sensor_micros);
    // SAFETY: as above.
    unsafe {
        if let Some(mut core) = cortex_m::Peripherals::take() {
            core.NVIC.set_priority(interrupt::Control, 0x40);
            core.NVIC.set_priority(interrupt::Sensor, 0x80);
        }
        NVIC::unmask(interrupt::Control);
        NVIC::unmask(interrupt::Sensor);
    }
}

/// The UART, for sending at 1 Mbaud.
#[derive(Debug)]
pub struct Uart {
    sending: bool,
}

impl Uart {
    /// Turns it on.
    pub fn start() -> Self {
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

/// A lamp, which is off at first, and whose state can be read.
#[derive(Debug)]
pub struct Lamp(());

impl Lamp {
    /// Makes its pin an output whose input is connected too.
    pub fn start() -> Self {
        lamp::start();
        Lamp(())
    }

    /// Turns it on.
    pub fn light(&self) {
        lamp::light();
    }
}

impl digital::ErrorType for Lamp {
    type Error = Infallible;
}

impl digital::InputPin for Lamp {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(lamp::is_on())
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!lamp::is_on())
    }
}
