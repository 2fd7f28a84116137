//! Standard input and output, terminals, and requests to end a command.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::signals::FirstSignal;

/// The name by which standard output can be given as a file.
pub const STDOUT: &str = "/dev/stdout";

/// The name under which a file that is read may be in use; - is standard input.
pub fn input_in_use(path: &Path) -> Option<&Path> {
    Some(if path == Path::new("-") { Path::new("/dev/stdin") } else { path })
}

/// An open input or output as a file, without the buffer that Rust has for standard input.
pub fn file_of(stream: impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// The output that an argument names: - is [`STDOUT`].
pub fn output_of(path: PathBuf) -> Result<PathBuf, &'static str> {
    Ok(if path == Path::new("-") { STDOUT.into() } else { path })
}

/// Returns true if an output was a terminal that is gone: the system no longer calls it a terminal.
pub fn is_gone(output: &impl AsFd, error: &io::Error) -> bool {
    let is_device =
        || rustix::fs::fstat(output).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device());
    error.raw_os_error() == Some(libc::EIO) && is_device()
}

/// Returns true: terminals obey escape sequences.
pub fn draws() -> bool {
    true
}

/// A flag that Ctrl-C, SIGTERM and the terminal's end set, for a clean end. A second Ctrl-C or SIGTERM, 500 ms or more
/// after the first, ends the command at once. Signals that are ignored at the start stay so, as under `nohup`.
pub fn stop_on_signals() -> Arc<AtomicBool> {
    let (stop, first) = (Arc::new(AtomicBool::new(false)), FirstSignal::default());
    // Without handlers the command can still run to its end.
    for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)) {
        let (stop, first) = (stop.clone(), first.clone());
        let in_handler = move || {
            if first.is_repeated() {
                // The signal can be caught, so this cannot fail.
                let _ = low_level::emulate_default_handler(signal);
            }
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: signal handlers may read the clock and change atomics, and the documentation lets them call what
        // emulates the default. Nothing here allocates, locks or panics.
        let _ = unsafe { low_level::register(signal, in_handler) };
    }
    // A terminal's end is reported more than once, by the system and by the shell: that is no sign of a hurry.
    if !is_ignored(SIGHUP) {
        let _ = flag::register(SIGHUP, stop.clone());
    }
    stop
}

/// Returns true if this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, the present one is written into memory for one, where zeros are valid too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
