//! Where the oven's events go: a track for each priority, and its counters.

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
