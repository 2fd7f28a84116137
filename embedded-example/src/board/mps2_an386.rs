//! Arm MPS2 with the FPGA image AN386: a Cortex-M4F at 25 MHz with CMSDK timers and UART.

use super::{Register, Vector, vectors};

/// Interrupts up to the last one that has a handler: timers 0 and 1 have numbers 8 and 9.
pub(super) const VECTORS: usize = 10;

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

/// UART 0.
pub(super) mod uart {
    use super::{FREQUENCY, Register};

    const UART: usize = 0x4000_4000;
    const TRANSMITTER_FULL: u32 = 1;

    pub(crate) fn start() {
        Register::new(UART, 16).write((FREQUENCY / 1_000_000) as u32); // divisor
        Register::new(UART, 8).write(1); // transmitter on
    }

    pub(crate) fn is_ready() -> bool {
        Register::new(UART, 4).read() & TRANSMITTER_FULL == 0
    }

    pub(crate) fn send(byte: u8) {
        Register::new(UART, 0).write(u32::from(byte));
    }
}

/// The board's first lamp.
pub(super) mod lamp {
    use super::Register;

    /// Lamps, one bit each.
    const LAMPS: Register = Register::new(0x4002_8000, 0);

    pub(crate) fn start() {}

    pub(crate) fn light() {
        LAMPS.write(1);
    }

    pub(crate) fn is_on() -> bool {
        LAMPS.read() & 1 != 0
    }
}
