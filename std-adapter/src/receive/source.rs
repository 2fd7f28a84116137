//! Where the bytes come from.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

#[cfg_attr(unix, path = "source/unix.rs")]
#[cfg_attr(not(unix), path = "source/elsewhere.rs")]
mod system;
pub(super) use system::with_timeout;

// Its tests run everywhere.
#[cfg(all(test, unix))]
#[path = "source/elsewhere.rs"]
#[allow(dead_code)]
mod elsewhere;

/// How long a line may be silent before its reader looks for something else to do.
const SILENCE: Duration = Duration::from_millis(200);

/// The error when nothing has this name.
fn missing(path: &Path) -> io::Error {
    fs::metadata(path).err().unwrap_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens a regular file, a named pipe, or a serial port at so many bits a second.
pub(super) fn open(path: &Path, baud: u32) -> io::Result<Box<dyn Read>> {
    let kind = system::kind_of(path);
    if kind.is_some_and(|kind| kind.is_file()) {
        return Ok(Box::new(File::open(path)?));
    }
    if let Some(pipe) = kind.and_then(|kind| system::open_pipe(path, kind)) {
        return Ok(Box::new(with_timeout(pipe?)?));
    }
    // The crate takes text. A link's name need not be text, but it leads to one of the system's names.
    let name = match path.to_str() {
        Some(name) => name.to_owned(),
        None => fs::canonicalize(path)?.to_string_lossy().into_owned(),
    };
    match serialport::new(name, baud).timeout(SILENCE).open() {
        Ok(port) => Ok(Box::new(port)),
        Err(_) if kind.is_some_and(|kind| system::is_no_port(path, kind)) => {
            let neither = "it is neither a serial port nor a file of what came over one";
            Err(io::Error::new(io::ErrorKind::InvalidInput, neither))
        }
        // The crate does not report the system's error number.
        Err(_) if cfg!(unix) && kind.is_none() => Err(missing(path)),
        Err(error) => Err(system::explained(error.into())),
    }
}
