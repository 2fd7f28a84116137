//! The debugger's host, by semihosting: a word that says what to do, files, and the end of a run in QEMU.

use core::ffi::CStr;
use semihosting::fs::File;
use semihosting::io::{self, Write};

/// Creates a file, or empties an existing one. The core stands still while the host writes.
///
/// # Errors
/// The host's.
pub fn file(path: &'static CStr) -> io::Result<impl FnMut(&[u8]) -> io::Result<usize>> {
    let mut file = File::create(path)?;
    Ok(move |bytes: &[u8]| file.write(bytes))
}

/// Ends the run in QEMU.
pub fn end(well: bool) -> ! {
    semihosting::process::exit(i32::from(!well))
}

/// The firmware's task: the word after `cargo run --release --`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Send the trace while recording.
    Send,
    /// Only record, and send what the ring holds at the end: a flight recorder.
    Record,
    /// Like [`Mode::Record`], for enough steps to lap the ring a thousand times.
    Laps,
    /// Like [`Mode::Record`], with a panic on the way.
    Panic,
    /// Like [`Mode::Record`], with an undefined instruction on the way.
    Fault,
    /// Like [`Mode::Record`], with an alarm that freezes a snapshot.
    Alarm,
    /// Like [`Mode::Record`], with no writers left for the interrupts, which do their work without.
    Untraced,
}

impl Mode {
    /// The mode named by the last word of the command line. Nothing, or anything else, is [`Mode::Send`].
    pub fn asked() -> Self {
        // Without a command line QEMU passes the image's path, which may be longer.
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
