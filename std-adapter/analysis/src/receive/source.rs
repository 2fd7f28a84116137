//! Where the bytes come from.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tracebuf_std::line::SILENCE;
use tracebuf_std::line::{self, with_timeout};

/// Opens a regular file, a named pipe, or a serial port at so many bits a second.
pub(super) fn open(path: &Path, baud: u32) -> io::Result<Box<dyn Read>> {
    let kind = line::kind_of(path);
    if kind.is_some_and(|kind| kind.is_file()) {
        return Ok(Box::new(File::open(path)?));
    }
    if let Some(pipe) = kind.and_then(|kind| line::open_pipe(path, kind)) {
        return Ok(Box::new(with_timeout(pipe?)?));
    }
    // The crate takes text. A link's name need not be text, but it leads to one of the system's names.
    let name = match path.to_str() {
        Some(name) => name.to_owned(),
        None => fs::canonicalize(path)?.to_string_lossy().into_owned(),
    };
    match serialport::new(name, baud).timeout(SILENCE).open() {
        Ok(port) => Ok(Box::new(port)),
        Err(_) if kind.is_some_and(|kind| line::is_no_port(path, kind)) => {
            let neither = "it is neither a serial port nor a file of what came over one";
            Err(io::Error::new(io::ErrorKind::InvalidInput, neither))
        }
        Err(error) => Err(line::explained(path, kind, error.into())),
    }
}
