//! Where the bytes come from.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// A regular file, or a serial port that is set to so many bits a second.
pub(super) fn open(path: &Path, baud: u32) -> io::Result<Box<dyn Read>> {
    if path.is_file() {
        return Ok(Box::new(File::open(path)?));
    }
    match serialport::new(path.to_string_lossy(), baud).timeout(Duration::from_millis(200)).open() {
        Ok(port) => Ok(Box::new(port)),
        Err(_) if is_no_port(path) => {
            let neither = "it is neither a serial port nor a file of what came over one";
            Err(io::Error::new(io::ErrorKind::InvalidInput, neither))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether something else than a serial port has this name: the system says no more than that it is not a typewriter.
/// To be asked when it could not be opened as one, for opening a port resets some devices.
fn is_no_port(path: &Path) -> bool {
    let Ok(there) = fs::metadata(path) else { return false };
    let open = || OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    !there.file_type().is_char_device() || open().is_ok_and(|file| !file.is_terminal())
}
