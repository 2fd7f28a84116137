//! What commands have in common: how they print what they found, and of those that run for a while an end on request
//! and a line that tells how it goes.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::Failure;
use crate::tell::tell;

/// Prints what a command has to say at its end, and ends it with `code`, or as a failure if that cannot be printed. Who
/// reads the output may have seen enough, or their terminal may be gone: that is no failure.
pub(crate) fn print_and_exit(text: &impl Display, code: ExitCode) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if is_gone(&out, &error) => Ok(code),
        result => printed(result).map(|_| code),
    }
}

/// The same beside a file that was written, on standard error if `is_stdout`.
pub(crate) fn print_beside(
    is_stdout: bool,
    text: &impl Display,
    code: ExitCode,
) -> Result<ExitCode, Failure> {
    if !is_stdout {
        return print_and_exit(text, code);
    }
    tell!("{text}");
    Ok(code)
}

/// What becomes of a command by what became of its output. Who reads it may have seen enough; that is no failure.
pub(crate) fn printed(result: io::Result<()>) -> Result<ExitCode, Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing(Path::new("standard output"), error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Where a command prints text beside a file that it writes: on standard error if the file `is_stdout`.
pub(crate) fn beside(is_stdout: bool) -> Box<dyn Write> {
    if is_stdout { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) }
}

/// Whether this is what standard output goes into, by whatever name: text there would lie in the midst of what is
/// written. To be asked before that is begun, for then another file may take its place.
///
/// # Errors
/// It is a file with something in it, as `>>` may have: it would be emptied, or be replaced.
pub(crate) fn is_stdout(path: &Path) -> Result<bool, Failure> {
    let (Ok(file), Ok(stdout)) = (rustix::fs::stat(path), rustix::fs::fstat(io::stdout())) else {
        return Ok(false);
    };
    let is_same = (file.st_dev, file.st_ino) == (stdout.st_dev, stdout.st_ino);
    if is_same && file.st_size > 0 && FileType::from_raw_mode(file.st_mode).is_file() {
        return Err(Failure::writing(path, "it is standard output, with something in it"));
    }
    Ok(is_same)
}

/// Whether an output was a terminal that is gone. The system does not call it a terminal any more.
fn is_gone(output: &impl AsFd, error: &io::Error) -> bool {
    let is_device =
        || rustix::fs::fstat(output).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device());
    error.raw_os_error() == Some(libc::EIO) && is_device()
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

/// Repeats of a signal within this time are the same request: `timeout` sends each to the process and then to its
/// group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Set by Ctrl-C, by SIGTERM and when the terminal goes away, to end cleanly. Ctrl-C or SIGTERM again, later than
/// [`SAME_REQUEST`], is from one who is in a hurry, and ends at once; a command that waits for somebody to read the
/// pipe that it writes into ends only so. Under `nohup` a terminal may go. Without handlers the command can still run
/// to its end.
pub(crate) fn stop_on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // Milliseconds from the start to the first request, and one; none yet.
    let first = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    for signal in [SIGINT, SIGTERM] {
        let (stop, first) = (stop.clone(), first.clone());
        let in_handler = move || {
            let now = start.elapsed().as_millis() as u64 + 1;
            let before = first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err();
            if before.is_some_and(|before| u128::from(now.saturating_sub(before)) > SAME_REQUEST.as_millis())
            {
                // It is one that was caught, so it can be done.
                let _ = low_level::emulate_default_handler(signal);
            }
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: signal handlers may read the clock and change atomics, and by its documentation may call what
        // emulates the default. Nothing here allocates, locks or panics.
        let _ = unsafe { low_level::register(signal, in_handler) };
    }
    // A terminal's end is told more than once, by the system and by the shell: nobody is in a hurry then.
    if !is_ignored(SIGHUP) {
        let _ = flag::register(SIGHUP, stop.clone());
    }
    stop
}

/// Whether who started this process has it ignore the signal.
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the present one is told, into memory for one, in which zeros are one too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
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
            // Without wrapping, or what is longer than the terminal is wide would take more rows each time, of which
            // only the last is written over. In one piece, for who ends the command between two would leave it so. The
            // rest of a longer line before is erased.
            let line = format!("\r\x1b[?7l{progress}\x1b[K\x1b[?7h");
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// Tells what whoever does not see the line should know too, as in a log.
    pub(crate) fn tell_unseen(&self, news: &impl Display) {
        if !self.seen {
            tell!("{news}");
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
