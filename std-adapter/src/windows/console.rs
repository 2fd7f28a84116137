//! Standard input and output, terminals, and requests to end a command.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

/// `None`: no process has memory in a file, and other readers do no harm.
pub fn input_in_use(_: &Path) -> Option<&Path> {
    None
}

/// An open input or output as a file.
pub fn file_of(stream: impl AsHandle) -> io::Result<File> {
    Ok(stream.as_handle().try_clone_to_owned()?.into())
}

/// The output that an argument names; an error for standard output, which has no name by which it could be opened.
pub fn output_of(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path == Path::new("-") { Err("on Windows an output has to be a file") } else { Ok(path) }
}

/// Returns false: the process ends with its terminal.
pub fn is_gone<W>(_: &W, _: &io::Error) -> bool {
    false
}

/// Returns false: terminals may not obey escape sequences.
pub fn draws() -> bool {
    false
}

/// Standard output has no name.
pub const STDOUT: &str = "";

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// A flag that Ctrl-C, Ctrl-Break and the window's end set, for a clean end. A second Ctrl-C or Ctrl-Break ends the
/// command at once.
pub fn stop_on_signals() -> Arc<AtomicBool> {
    // Without a handler the command can still run to its end.
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
