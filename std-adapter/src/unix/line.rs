//! Named pipes and serial ports, read with a time limit.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use crate::waits::{SILENCE, is_silence};

/// The type of what has this name.
pub fn kind_of(path: &Path) -> Option<FileType> {
    fs::metadata(path).map(|there| there.file_type()).ok()
}

/// Opens a named pipe without waiting for its writers: until they come, it is silent.
pub fn open_pipe(path: &Path, kind: FileType) -> Option<io::Result<File>> {
    kind.is_fifo().then(|| unblocked(path))
}

fn unblocked(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Returns true if something other than a serial port has this name. To be asked only after it could not be opened as a
/// port, because opening a port resets some devices.
pub fn is_no_port(path: &Path, kind: FileType) -> bool {
    !kind.is_char_device() || unblocked(path).is_ok_and(|file| !file.is_terminal())
}

/// The error of a port that could not be opened, with its reason: nothing has the name, or the user is not in the
/// group that may use it.
pub fn explained(path: &Path, kind: Option<FileType>, error: io::Error) -> io::Error {
    if kind.is_none() {
        // Whoever opened the port may not report the system's error number.
        return fs::metadata(path).err().unwrap_or_else(|| io::ErrorKind::NotFound.into());
    }
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let who = "serial ports are for those in their group, which `ls -l` shows, on Linux mostly dialout";
    io::Error::new(error.kind(), format!("{error}: {who}"))
}

/// A line that can be waited for.
pub trait Line: Read + AsFd {}

impl<L: Read + AsFd> Line for L {}

/// A reader that waits no longer than [`SILENCE`] at a time. Without that limit a request to stop would go unnoticed:
/// the system resumes a read that a signal interrupts.
pub fn with_timeout(line: impl Line) -> io::Result<impl Read> {
    Ok(TimeoutReader(line))
}

struct TimeoutReader<F>(F);

impl<F: Read + AsFd> Read for TimeoutReader<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let silence = Timespec::try_from(SILENCE).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&silence))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.0.read(bytes),
        }
    }
}
