//! What the firmware is asked to do: a word that the debugger's host passes, `cargo run --release -- panic`.

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// To send the trace while recording.
    Send,
    /// To record only, and send what the ring holds at the end: a flight recorder.
    Record,
    /// The same, for as many steps as lap the ring a thousand times.
    Laps,
    /// The same as [`Mode::Record`], and to panic on the way.
    Panic,
    /// The same, and to execute an undefined instruction on the way.
    Fault,
    /// The same as [`Mode::Record`], and to turn an alarm on, which freezes a snapshot.
    Alarm,
    /// The same as [`Mode::Record`], with no writers left for the interrupts, which do their work without.
    Untraced,
}

impl Mode {
    /// The last word of the command line. Nothing, or anything else, is [`Mode::Send`].
    pub fn asked() -> Self {
        // Without a command line QEMU gives the image's path, which may be longer.
        let Ok(arguments) = semihosting::experimental::env::args::<512>() else { return Mode::Send };
        match (&arguments).last() {
            Some(Ok("record")) => Mode::Record,
            Some(Ok("laps")) => Mode::Laps,
            Some(Ok("panic")) => Mode::Panic,
            Some(Ok("fault")) => Mode::Fault,
            Some(Ok("alarm")) => Mode::Alarm,
            Some(Ok("untraced")) => Mode::Untraced,
            _ => Mode::Send,
        }
    }
}
