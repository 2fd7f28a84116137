//! Standard input and output, terminals, and requests to end a command.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// The name by which standard output can be given as a file.
pub const STDOUT: &str = "/dev/stdout";

/// Standard input without Rust's own buffer: the system would not know of bytes in there.
pub fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// The name of a file to read; for standard input, which is -, a name that opens it.
pub fn input_path(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// Metadata of an open file.
pub fn metadata(file: impl AsFd) -> io::Result<Metadata> {
    File::from(file.as_fd().try_clone_to_owned()?).metadata()
}

/// The output that an argument names: - is standard output, by a name for which the library takes what is open.
pub fn output_of(path: PathBuf) -> Result<PathBuf, &'static str> {
    Ok(if path == Path::new("-") { STDOUT.into() } else { path })
}

/// Whether it is the same file, by whatever name.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether an output was a terminal that is gone. The system no longer calls it a terminal.
pub fn is_gone(output: &impl AsFd, error: &io::Error) -> bool {
    let is_device =
        || rustix::fs::fstat(output).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device());
    error.raw_os_error() == Some(libc::EIO) && is_device()
}

/// Whether terminals obey escape sequences.
pub fn draws() -> bool {
    true
}

/// Repeats of a signal within this time are the same request: `timeout` sends each to the process and then to its
/// group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Set by Ctrl-C, by SIGTERM and when the terminal goes away, to end cleanly. A second Ctrl-C or SIGTERM, later than
/// [`SAME_REQUEST`], comes from someone in a hurry and ends the command at once; a command that waits for its output
/// pipe to be read can only be ended this way. A signal that is ignored at the start stays so, as the terminal's end is
/// under `nohup`, and Ctrl-C for what a script starts with `&`. Without handlers the command can still run to its end.
pub fn stop_on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // Milliseconds from the start to the first request, plus one; 0 before it.
    let first = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)) {
        let (stop, first) = (stop.clone(), first.clone());
        let in_handler = move || {
            let now = start.elapsed().as_millis() as u64 + 1;
            let before = first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err();
            if before.is_some_and(|before| u128::from(now.saturating_sub(before)) > SAME_REQUEST.as_millis())
            {
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

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, the present one is written into memory for one, where zeros are valid too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
