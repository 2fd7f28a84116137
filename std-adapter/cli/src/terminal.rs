//! Printed results, the progress line, and requests to end.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::failure::{Failure, STDOUT, shown, status};
pub(crate) use tracebuf_std::console::stop_on_signals;
use tracebuf_std::console::{draws, file_of, is_gone};
use tracebuf_std::system::{id_at, id_of};

/// Prints what a command has to say at its end, and ends it with `code`, or with a failure if that cannot be printed.
/// It is no failure if the reader has seen enough or the terminal is gone.
pub(crate) fn print_and_exit(text: &impl Display, code: ExitCode) -> Result<ExitCode, Failure> {
    printed_at_end(writeln!(io::stdout(), "{}", shown(&text.to_string())), code)
}

/// Prints the help or the version that was asked for, or what is wrong with the arguments.
pub(crate) fn answer(answer: &clap::Error) -> Result<ExitCode, Failure> {
    let result = answer.print();
    if answer.use_stderr() {
        return Ok(ExitCode::from(Failure::OF_ARGUMENTS));
    }
    printed_at_end(result, ExitCode::SUCCESS)
}

/// The outcome of a command that has printed everything it has to say.
fn printed_at_end(result: io::Result<()>, code: ExitCode) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match result.and_then(|()| out.flush()) {
        Err(error) if is_gone(&out, &error) => Ok(code),
        result => printed(result).map(|_| code),
    }
}

/// The same for a command that also wrote a file; prints on standard error if `is_stdout`.
pub(crate) fn print_beside(
    is_stdout: bool,
    text: &impl Display,
    code: ExitCode,
) -> Result<ExitCode, Failure> {
    if !is_stdout {
        return print_and_exit(text, code);
    }
    status!("{text}");
    Ok(code)
}

/// The outcome of a command, given that of its output. It is no failure if the reader has seen enough.
pub(crate) fn printed(result: io::Result<()>) -> Result<ExitCode, Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing(Path::new("standard output"), error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Where a command that also writes a file prints text: on standard error if the file `is_stdout`.
pub(crate) fn beside(is_stdout: bool) -> Box<dyn Write> {
    if is_stdout { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) }
}

/// Returns true if standard output goes into this file, by whatever name: text would end up in the middle of it. To be
/// called before writing begins, because another file may take its place then.
///
/// # Errors
/// It is a file that is not empty, as may happen with `>>`: it would be emptied or replaced.
pub(crate) fn is_stdout(path: &Path) -> Result<bool, Failure> {
    let Ok(stdout) = file_of(io::stdout()) else { return Ok(false) };
    // By its own name where there is no /dev, too.
    let is_same = path == Path::new(STDOUT)
        || id_at(path).is_ok_and(|id| id_of(&stdout).is_ok_and(|stdout| stdout == id));
    if is_same && stdout.metadata().is_ok_and(|stdout| stdout.len() > 0 && stdout.is_file()) {
        return Err(Failure::writing(path, "it is standard output, with something in it"));
    }
    Ok(is_same)
}

/// A line on standard error that is overwritten again and again, if anybody sees it; ended when dropped.
pub(crate) struct ProgressLine {
    seen: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { seen: io::stderr().is_terminal() && draws() }
    }

    pub(crate) fn show(&self, progress: &impl Display) {
        if self.seen {
            // Without wrapping, because text wider than the terminal would take more rows each time, of which only the
            // last is overwritten. In one piece, because a command that is ended between two pieces would leave it so.
            // The rest of a longer line before it is erased.
            let line = format!("\r\x1b[?7l{progress}\x1b[K\x1b[?7h");
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// Prints what someone who does not see the line should know too, for example in a log. For `record`.
    pub(crate) fn print_unseen(&self, news: &impl Display) {
        if !self.seen {
            status!("{news}");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.seen {
            status!();
        }
    }
}
