//! The same on a Unix.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::SILENCE;

/// What has this name.
pub(super) fn kind_of(path: &Path) -> Option<FileType> {
    fs::metadata(path).map(|there| there.file_type()).ok()
}

/// A named pipe. Its writers may come later: that is silence, and opening it does not wait for them.
pub(super) fn open_pipe(path: &Path, kind: FileType) -> Option<io::Result<File>> {
    kind.is_fifo().then(|| unblocked(path))
}

fn unblocked(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Whether something else than a serial port has this name: the system says no more than that it is not a typewriter.
/// To be asked when it could not be opened as one, for opening a port resets some devices.
pub(super) fn is_no_port(path: &Path, kind: FileType) -> bool {
    !kind.is_char_device() || unblocked(path).is_ok_and(|file| !file.is_terminal())
}

/// Ports are a group's, and who is not in it is to hear of that.
pub(super) fn explained(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let who = "serial ports are for those in their group, which `ls -l` shows, on Linux mostly dialout";
    io::Error::new(error.kind(), format!("{error}: {who}"))
}

/// What is waited for no longer than [`SILENCE`] at a time, as a serial port is: the system goes on with a read
/// that a signal came into, so who is to stop would not notice.
pub(in super::super) fn waiting(line: impl Read + AsFd) -> io::Result<impl Read> {
    Ok(Waiting(line))
}

struct Waiting<F>(F);

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
        let said = |error: io::Error| explained(error).to_string();
        assert!(
            said(io::ErrorKind::PermissionDenied.into()).contains("denied: serial ports are for those in")
        );
        assert!(!said(io::ErrorKind::NotFound.into()).contains("group"));
    }
}
