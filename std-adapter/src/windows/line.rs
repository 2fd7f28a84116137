//! Serial ports, and pipes without names, read with a time limit.

use std::fs::{self, File, FileType};
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;

pub use crate::waits::{SILENCE, is_silence};

/// The type of what has this name; `None` for a port's name: looking at a port opens it, which resets some devices.
pub fn kind_of(path: &Path) -> Option<FileType> {
    if path.to_str().is_some_and(is_port) {
        return None;
    }
    fs::metadata(path).map(|there| there.file_type()).ok()
}

/// COM3, or \\.\COM12.
fn is_port(name: &str) -> bool {
    let name = name.strip_prefix(r"\\.\").unwrap_or(name);
    let number = name.split_at_checked(3).filter(|(com, _)| com.eq_ignore_ascii_case("com"));
    number.is_some_and(|(_, number)| !number.starts_with('+') && number.parse::<u8>().is_ok())
}

/// `None`: pipes have no file names here.
pub fn open_pipe(_: &Path, _: FileType) -> Option<io::Result<File>> {
    None
}

/// True: what has a known type is no serial port.
pub fn is_no_port(_: &Path, _: FileType) -> bool {
    true
}

/// The error as it is.
pub fn explained(_: &Path, _: Option<FileType>, error: io::Error) -> io::Error {
    error
}

/// A line that can be waited for.
pub trait Line: Read + Send + 'static {}

impl<L: Read + Send + 'static> Line for L {}

/// A reader that waits no longer than [`SILENCE`] at a time. `std` can only wait without a limit, so another thread
/// does, and goes on waiting when nobody needs it any more.
pub fn with_timeout(line: impl Line) -> io::Result<impl Read> {
    // So many pieces may lie there unread: a file may take them more slowly than they come.
    let (pieces, read) = sync_channel(16);
    thread::Builder::new().name("receive".to_owned()).spawn(move || read_all(line, &pieces))?;
    Ok(TimeoutReader { pieces: read, piece: Cursor::default() })
}

struct TimeoutReader {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// The piece that is being read.
    piece: Cursor<Vec<u8>>,
}

/// Passes on what comes, with an empty piece at the end.
fn read_all(mut line: impl Read, pieces: &SyncSender<io::Result<Vec<u8>>>) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let piece = line.read(&mut bytes).map(|count| bytes.get(..count).unwrap_or_default().to_vec());
        let goes_on = piece.as_ref().map_or_else(is_silence, |piece| !piece.is_empty());
        if pieces.send(piece).is_err() || !goes_on {
            return;
        }
    }
}

impl Read for TimeoutReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.piece.position() == self.piece.get_ref().len() as u64 {
            self.piece = match self.pieces.recv_timeout(SILENCE) {
                Ok(piece) => Cursor::new(piece?),
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
        }
        self.piece.read(bytes)
    }
}
