//! Standard input and output, terminals, and requests to end a command.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io::{self, Stdin};
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

/// Standard input.
pub fn stdin() -> io::Result<Stdin> {
    Ok(io::stdin())
}

/// The name of a file to read. Standard input has none but -.
pub fn input_path(path: &Path) -> &Path {
    path
}

/// Metadata of an open file.
pub fn metadata(file: impl AsHandle) -> io::Result<Metadata> {
    File::from(file.as_handle().try_clone_to_owned()?).metadata()
}

/// The output that an argument names. Standard output has no name by which it could be opened.
pub fn output_of(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path == Path::new("-") { Err("on Windows an output has to be a file") } else { Ok(path) }
}

/// Whether it is the same file, by whatever name. `std` tells no file numbers here; two files that were made and
/// changed at the same moment and have the same length cannot be told apart.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let of = |file: &Metadata| (file.len(), file.created().ok(), file.modified().ok());
    one.is_file() && other.is_file() && of(one) == of(other)
}

/// Whether an output was a terminal that is gone: the process ends with its terminal.
pub fn is_gone<W>(_: &W, _: &io::Error) -> bool {
    false
}

/// Terminals may not obey escape sequences.
pub fn draws() -> bool {
    false
}

/// Standard output has no name.
pub const STDOUT: &str = "";

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Set by Ctrl-C and Ctrl-Break, and when the window is closed, to end cleanly. A second Ctrl-C or Ctrl-Break comes
/// from someone in a hurry and ends the command at once. Without a handler the command can still run to its end.
pub fn stop_on_signals() -> Arc<AtomicBool> {
    // SAFETY: the handler is a function of the program, and may be called by any thread.
    let _ = unsafe { SetConsoleCtrlHandler(Some(stop), 1) };
    STOP.clone()
}

/// Called on a thread of the system's.
extern "system" fn stop(event: u32) -> BOOL {
    let is_first = !STOP.swap(true, Ordering::Relaxed);
    if ![CTRL_C_EVENT, CTRL_BREAK_EVENT].contains(&event) {
        // The process would end when this returns. It has some seconds, and ends itself when it is done.
        thread::sleep(Duration::from_secs(60));
    }
    // An event that is not handled ends the process.
    is_first.into()
}
