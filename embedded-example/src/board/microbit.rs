//! BBC micro:bit: an nRF51822, a Cortex-M0 at 16 MHz without compare-and-swap.

use super::{Register, Vector, vectors};

/// Interrupts up to the last one that has a handler: timers 1 and 2 have numbers 9 and 10.
pub(super) const VECTORS: usize = 11;

#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [Vector; VECTORS] = vectors();

/// Ticks of the clock in a second.
pub const FREQUENCY: u64 = 16_000_000;

/// One of the timers; timer 0 has 32 bits, the others 16.
struct Timer(usize);

impl Timer {
    const fn register(&self, offset: usize) -> Register {
        Register::new(self.0, offset)
    }

    /// Interrupts every so many microseconds, up to 65,535.
    fn start(&self, micros: u32) {
        self.register(0x510).write(4); // 16 MHz / 2⁴
        self.register(0x508).write(0); // 16 bits
        self.register(0x540).write(micros);
        self.register(0x200).write(1); // restarts when the compare value is reached
        self.register(0x304).write(1 << 16); // and interrupts then
        self.register(0x000).write(1);
    }

    fn acknowledge(&self) {
        self.register(0x140).write(0);
    }
}

const CLOCK: Timer = Timer(0x4000_8000);
const CONTROL: Timer = Timer(0x4000_9000);
const SENSOR: Timer = Timer(0x4000_A000);

/// Starts the clock and both timers.
pub fn start(control_micros: u32, sensor_micros: u32) {
    CLOCK.register(0x510).write(0);
    CLOCK.register(0x508).write(3); // 32 bits
    CLOCK.register(0x000).write(1);
    CONTROL.start(control_micros);
    SENSOR.start(sensor_micros);
}

/// The clock, which wraps after 268 s. It is read by capturing it into a register: each priority has its own,
/// up to 3.
pub fn ticks(priority: usize) -> u32 {
    let of_priority = (priority & 3) * 4;
    CLOCK.register(0x040 + of_priority).write(1);
    CLOCK.register(0x540 + of_priority).read()
}

/// Acknowledges the control timer's interrupt.
pub fn acknowledge_control() {
    CONTROL.acknowledge();
}

/// Acknowledges the sensor timer's interrupt.
pub fn acknowledge_sensor() {
    SENSOR.acknowledge();
}

/// The UART on the pin that leads to the USB interface.
pub(super) mod uart {
    use super::Register;

    const UART: usize = 0x4000_2000;
    const READY: Register = Register::new(UART, 0x11C);

    pub(crate) fn start() {
        Register::new(UART, 0x50C).write(24);
        Register::new(UART, 0x524).write(0x1000_0000);
        Register::new(UART, 0x500).write(4);
        Register::new(UART, 0x008).write(1);
    }

    /// Whether the last byte has been sent.
    pub(crate) fn is_ready() -> bool {
        READY.read() != 0
    }

    pub(crate) fn send(byte: u8) {
        READY.write(0);
        Register::new(UART, 0x51C).write(u32::from(byte));
    }
}

/// Pin 0.
pub(super) mod lamp {
    use super::Register;

    /// The pins, one bit each.
    const PINS: usize = 0x5000_0000;

    pub(crate) fn start() {
        Register::new(PINS, 0x700).write(1); // output, its input connected
    }

    pub(crate) fn light() {
        Register::new(PINS, 0x508).write(1);
    }

    pub(crate) fn is_on() -> bool {
        Register::new(PINS, 0x510).read() & 1 != 0
    }
}
