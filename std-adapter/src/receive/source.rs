//! Where the bytes come from.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a line may be silent before who reads it looks for something else to do.
const SILENCE: Duration = Duration::from_millis(200);

/// A regular file, a named pipe, or a serial port that is set to so many bits a second.
pub(super) fn open(path: &Path, baud: u32) -> io::Result<Box<dyn Read>> {
    let kind = fs::metadata(path).map(|there| there.file_type()).ok();
    if kind.is_some_and(|kind| kind.is_file()) {
        return Ok(Box::new(File::open(path)?));
    }
    if kind.is_some_and(|kind| kind.is_fifo()) {
        // Its writers may come later: that is silence, and opening it does not wait for them.
        return Ok(Box::new(Waiting(unblocked(path)?)));
    }
    // The crate takes text. A link may have a name that is none; what it leads to has one of the system's.
    let name = match path.to_str() {
        Some(name) => name.to_owned(),
        None => fs::canonicalize(path)?.to_string_lossy().into_owned(),
    };
    match serialport::new(name, baud).timeout(SILENCE).open() {
        Ok(port) => Ok(Box::new(port)),
        Err(_) if kind.is_some_and(|kind| is_no_port(path, kind)) => {
            let neither = "it is neither a serial port nor a file of what came over one";
            Err(io::Error::new(io::ErrorKind::InvalidInput, neither))
        }
        Err(error) => Err(with_group(error.into())),
    }
}

/// Ports are a group's, and who is not in it is to hear of that.
fn with_group(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let who = "serial ports are for those in their group, which `ls -l` shows, on Linux mostly dialout";
    io::Error::new(error.kind(), format!("{error}: {who}"))
}

fn unblocked(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Whether something else than a serial port has this name: the system says no more than that it is not a typewriter.
/// To be asked when it could not be opened as one, for opening a port resets some devices.
fn is_no_port(path: &Path, kind: FileType) -> bool {
    !kind.is_char_device() || unblocked(path).is_ok_and(|file| !file.is_terminal())
}

/// What is waited for no longer than [`SILENCE`] at a time, as a serial port is: the system goes on with a read
/// that a signal came into, so who is to stop would not notice.
pub(super) struct Waiting<F>(pub(super) F);

impl<F: Read + AsFd> Read for Waiting<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let silence = Timespec::try_from(SILENCE).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&silence))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.0.read(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_use_a_port_hears_who_may() {
        let said = |error: io::Error| with_group(error).to_string();
        assert!(
            said(io::ErrorKind::PermissionDenied.into()).contains("denied: serial ports are for those in")
        );
        assert!(!said(io::ErrorKind::NotFound.into()).contains("group"));
    }
}
