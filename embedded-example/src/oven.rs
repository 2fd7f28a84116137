//! The oven, which is what there is to trace, and the tracks of its events. The sensor is sampled and filtered, a
//! control loop heats, and a state machine sets the temperature. Fixed point, in hundredths of a degree.

use tracebuf::producer::track_event::{Track, Unit};

static FIRMWARE: Track<'static> = Track::process(1, "oven");

/// The main loop's slices and instants.
pub static MAIN: Track<'static> = Track::thread(1, 1, "main loop").within(&FIRMWARE);
/// Those of the control loop's interrupt.
pub static CONTROL: Track<'static> = Track::thread(1, 2, "control interrupt").within(&FIRMWARE);
/// Those of the sensor's interrupt.
pub static SENSOR: Track<'static> = Track::thread(1, 3, "sensor interrupt").within(&FIRMWARE);
/// What the sensor measures, filtered.
pub static TEMPERATURE: Track<'static> =
    Track::counter("temperature", Unit::Named("0.01 °C")).within(&FIRMWARE);
/// What the control loop heats with, 0 to 1000.
pub static POWER: Track<'static> = Track::counter("power", Unit::Named("‰")).within(&FIRMWARE);

/// What the main loop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Heats up to the temperature.
    Heating,
    /// Holds the temperature for a while.
    Holding,
    /// Cools down again.
    Cooling,
}

/// The temperature that is held.
const HOT: i32 = 20_000;
/// The temperature of the room.
const COLD: i32 = 2_000;
/// Steps of the main loop to hold the temperature for.
const HOLD: u32 = 60;

/// The oven itself: heat flows in from the heater and out in proportion to the difference to the room.
#[derive(Clone, Copy, Debug)]
pub struct Oven {
    temperature: i32,
}

impl Oven {
    /// A cold oven.
    pub const fn new() -> Self {
        Oven { temperature: COLD }
    }

    /// Advances one step of time with the heater at `power`, 0 to 1000.
    pub fn step(&mut self, power: i32) -> i32 {
        self.temperature += power / 4 - (self.temperature - COLD) / 128;
        self.temperature
    }
}

impl Default for Oven {
    fn default() -> Self {
        Self::new()
    }
}

/// The sensor: noise on top of the temperature, and a filter against it.
#[derive(Clone, Copy, Debug)]
pub struct Sensor {
    noise: u32,
    /// Sixteen times the filtered value.
    filtered: i32,
}

impl Sensor {
    /// A sensor that has settled in the room.
    pub const fn new() -> Self {
        Sensor { noise: 42, filtered: COLD * 16 }
    }

    /// Takes a sample of the true temperature and returns the estimate.
    pub fn sample(&mut self, temperature: i32) -> i32 {
        self.noise = (u64::from(self.noise) * 48_271 % 0x7FFF_FFFF) as u32;
        let sample = temperature + (self.noise % 101) as i32 - 50;
        self.filtered += sample - self.filtered / 16;
        self.filtered / 16
    }
}

impl Default for Sensor {
    fn default() -> Self {
        Self::new()
    }
}

/// The controller: proportional and integral.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller {
    integral: i32,
}

impl Controller {
    /// Heating power, 0 to 1000, from what is measured and what is wanted.
    pub fn step(&mut self, measured: i32, wanted: i32) -> i32 {
        let error = wanted - measured;
        self.integral = (self.integral + error / 16).clamp(-20_000, 20_000);
        (error / 4 + self.integral / 32).clamp(0, 1000)
    }
}

/// The state machine of the main loop.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    state: State,
    held: u32,
}

impl Program {
    /// Starts by heating.
    pub const fn new() -> Self {
        Program { state: State::Heating, held: 0 }
    }

    /// Does a step; returns the new state, if it has changed.
    pub fn step(&mut self, measured: i32) -> Option<State> {
        let next = match self.state {
            State::Heating if measured > HOT - 200 => State::Holding,
            State::Holding if self.held >= HOLD => State::Cooling,
            State::Cooling if measured < COLD + 3_000 => State::Heating,
            state => state,
        };
        self.held = if self.state == State::Holding { self.held + 1 } else { 0 };
        let changed = next != self.state;
        self.state = next;
        changed.then_some(next)
    }

    /// The state it is in.
    pub const fn state(&self) -> State {
        self.state
    }
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Its name, as in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            State::Heating => "heating",
            State::Holding => "holding",
            State::Cooling => "cooling",
        }
    }

    /// The temperature wanted in this state.
    pub const fn wanted(self) -> i32 {
        match self {
            State::Heating | State::Holding => HOT,
            State::Cooling => COLD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oven_runs_through_all_states_again_and_again() {
        let (mut oven, mut sensor, mut controller, mut program) =
            (Oven::new(), Sensor::new(), Controller::default(), Program::new());
        let (mut power, mut seen) = (0, Vec::new());
        for _ in 0..20_000 {
            let measured = sensor.sample(oven.step(power));
            power = controller.step(measured, program.state().wanted());
            seen.extend(program.step(measured));
        }
        assert_eq!(seen[..4], [State::Holding, State::Cooling, State::Heating, State::Holding]);
    }
}
