//! What commands have in common: how they print what they found, and of those that run for a while an end on request
//! and a line that tells how it goes.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Prints a line on standard error. Who reads it may be gone, or its disk full: that keeps no command from its work,
/// and there is nobody to be told.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use tell;

/// Prints what a command has to say at its end, and ends it with `code`, or as a failure if that cannot be printed. Who
/// reads the output may have seen enough: that is no failure.
pub(crate) fn print_and_exit(text: &impl Display, code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tell!("error writing: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// An output until whoever reads it has seen enough, and nothing from then on: for a command that writes a file beside
/// it, which is to become whole.
pub(crate) struct UntilClosed<W> {
    output: Option<W>,
}

impl<W: Write> UntilClosed<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output: Some(output) }
    }

    fn on_output<T>(&mut self, closed: T, what: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        match self.output.as_mut().map(what) {
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.output = None,
            Some(other) => return other,
            None => {}
        }
        Ok(closed)
    }
}

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.on_output(bytes.len(), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.on_output((), W::flush)
    }
}

/// Set by Ctrl-C or SIGTERM, to end cleanly; the second time, for one who is in a hurry, ends at once. Without
/// handlers the command can still run to its end.
pub(crate) fn stop_on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let _ = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    stop
}

/// A line on standard error that is written over and over, if anybody sees it; ended when dropped.
pub(crate) struct ProgressLine {
    seen: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { seen: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, progress: &impl Display) {
        if self.seen {
            // The rest of a longer line before is erased.
            let _ = write!(io::stderr(), "\r{progress}\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.seen {
            tell!();
        }
    }
}
