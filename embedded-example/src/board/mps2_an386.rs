//! Arm MPS2 with the FPGA image AN386: a Cortex-M4F at 25 MHz with CMSDK timers and UART.

use super::{Register, Vector, vectors};
use core::convert::Infallible;

/// Interrupts up to the last one that has a handler: timers 0 and 1 have numbers 8 and 9.
pub(crate) const VECTORS: usize = 10;

#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [Vector; VECTORS] = vectors();

/// Ticks of the clock in a second.
pub const FREQUENCY: u64 = 25_000_000;

/// A CMSDK APB timer: counts down, interrupts at 0 and restarts.
struct Timer {
    control: Register,
    reload: Register,
    clear: Register,
}

impl Timer {
    const fn new(base: usize) -> Self {
        Timer {
            control: Register::new(base, 0),
            reload: Register::new(base, 8),
            clear: Register::new(base, 12),
        }
    }

    fn start(&self, micros: u32) {
        self.reload.write(micros * (FREQUENCY / 1_000_000) as u32 - 1);
        self.control.write(0b1001); // enabled, with interrupt
    }
}

const CONTROL: Timer = Timer::new(0x4000_0000);
const SENSOR: Timer = Timer::new(0x4000_1000);

// The first half of the dual timer.
const CLOCK_VALUE: Register = Register::new(0x4000_2000, 4);
const CLOCK_CONTROL: Register = Register::new(0x4000_2000, 8);

/// Starts the clock and both timers.
pub fn start(control_micros: u32, sensor_micros: u32) {
    CLOCK_CONTROL.write(0b1000_0010); // enabled, 32 bits, free-running
    CONTROL.start(control_micros);
    SENSOR.start(sensor_micros);
}

/// The clock, which wraps after 172 s. It counts down. Every priority may read it.
pub fn ticks(_priority: usize) -> u32 {
    !CLOCK_VALUE.read()
}

/// Acknowledges the control timer's interrupt.
pub fn acknowledge_control() {
    CONTROL.clear.write(1);
}

/// Acknowledges the sensor timer's interrupt.
pub fn acknowledge_sensor() {
    SENSOR.clear.write(1);
}

const UART_DATA: Register = Register::new(0x4000_4000, 0);
const UART_STATE: Register = Register::new(0x4000_4000, 4);
const UART_CONTROL: Register = Register::new(0x4000_4000, 8);
const UART_DIVISOR: Register = Register::new(0x4000_4000, 16);
const TRANSMITTER_FULL: u32 = 1;

/// UART 0, for sending.
#[derive(Debug)]
pub struct Uart(());

impl Uart {
    /// Turns it on, at 1 Mbaud.
    pub fn new() -> Self {
        UART_DIVISOR.write((FREQUENCY / 1_000_000) as u32);
        UART_CONTROL.write(1); // transmitter on
        Uart(())
    }
}

impl Default for Uart {
    fn default() -> Self {
        Self::new()
    }
}

impl embedded_io::ErrorType for Uart {
    type Error = Infallible;
}

impl embedded_io::WriteReady for Uart {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(UART_STATE.read() & TRANSMITTER_FULL == 0)
    }
}

impl embedded_io::Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let Some(byte) = bytes.first() else { return Ok(0) };
        while UART_STATE.read() & TRANSMITTER_FULL != 0 {}
        UART_DATA.write(u32::from(*byte));
        Ok(1)
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        while UART_STATE.read() & TRANSMITTER_FULL != 0 {}
        Ok(())
    }
}

/// Lamps of the board, one bit each.
const LAMPS: Register = Register::new(0x4002_8000, 0);

/// A lamp whose state can be read: the board's first.
#[derive(Debug)]
pub struct Lamp(());

impl Lamp {
    /// The board's lamp.
    pub fn new() -> Self {
        Lamp(())
    }
}

impl Default for Lamp {
    fn default() -> Self {
        Self::new()
    }
}

impl embedded_hal::digital::ErrorType for Lamp {
    type Error = Infallible;
}

impl embedded_hal::digital::OutputPin for Lamp {
    fn set_low(&mut self) -> Result<(), Infallible> {
        LAMPS.write(0);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        LAMPS.write(1);
        Ok(())
    }
}

impl embedded_hal::digital::InputPin for Lamp {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(LAMPS.read() & 1 != 0)
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        self.is_high().map(|high| !high)
    }
}
