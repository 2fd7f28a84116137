//! A trace file of what is received, and the packets in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tracebuf_std::file_lock::Lock;
use tracebuf_std::free_file::check_is_free;
use tracebuf_std::system::{open_at_once, standard_output};
use tracebuf_std::whole_file::check_writable;

use super::clocks::RelatedClocks;

/// The trace's file. Nothing is done with it before there is something to write: naming the wrong input does not cost
/// the previous trace.
struct LazyFile {
    path: PathBuf,
    file: Option<File>,
    /// Another line may be received into a file of this name: it takes another one.
    lock: Option<Lock>,
}

impl LazyFile {
    /// Empties a file that nothing else writes into, and keeps others out of it.
    fn take(&mut self, file: File) -> io::Result<&mut File> {
        if file.metadata()?.is_file() {
            let lock = Lock::where_possible(&file, &self.path)?;
            file.set_len(0)?;
            self.lock = lock;
        }
        Ok(self.file.insert(file))
    }

    /// A file, a device or a pipe that can be written.
    fn new(path: &Path) -> io::Result<Self> {
        let file = match (standard_output(path)?, fs::metadata(path)) {
            (Some(output), _) => Some(output),
            (None, Ok(there)) => {
                let file = OpenOptions::new().write(true).open(path)?;
                check_is_free(path)?;
                // It is opened by its name once more when it is emptied: if it is renamed before then, it must be kept.
                Some(file).filter(|_| !there.is_file())
            }
            (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                check_writable(path)?;
                None
            }
            (None, Err(error)) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), file, lock: None })
    }

    /// Empties or makes the file, unless that was done.
    fn begin(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            // The first packet may be long in coming, and a session may have begun to write there meanwhile.
            let file = open_if_free(&self.path)?;
            return self.take(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Opens or makes a file that nothing else is writing into. On Windows nothing else can from then on.
pub(super) fn open_if_free(path: &Path) -> io::Result<File> {
    check_is_free(path)?;
    open_at_once(path)
}

impl Write for LazyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// Packets gathered on their way into the file.
pub(super) struct TraceOutput {
    file: BufWriter<LazyFile>,
    clocks: RelatedClocks,
    taken: u64,
    /// Packets that could not be taken because others had to be written first, or because they were too large to
    /// gather.
    refused: u64,
    written: u64,
}

impl TraceOutput {
    pub(super) fn to(path: &Path) -> io::Result<Self> {
        Ok(Self::at(LazyFile::new(path)?))
    }

    /// Empties a file that is open.
    pub(super) fn into_opened(path: PathBuf, file: File) -> io::Result<Self> {
        let mut lazy = LazyFile { path, file: None, lock: None };
        lazy.take(file)?;
        Ok(Self::at(lazy))
    }

    fn at(file: LazyFile) -> Self {
        let (file, clocks) = (BufWriter::new(file), RelatedClocks::new());
        Self { file, clocks, taken: 0, refused: 0, written: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.get_ref().path
    }

    pub(super) fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        self.take(packet).inspect_err(|_| self.refused += 1)
    }

    fn take(&mut self, packet: &[u8]) -> io::Result<()> {
        let before = self.clocks.before(packet).unwrap_or_default();
        if self.file.buffer().len() + before.len() + packet.len() > self.file.capacity() {
            // It would happen anyway, but without reporting an error.
            self.flush()?;
        }
        self.file.write_all(&before)?;
        self.file.write_all(packet)?;
        self.taken += 1;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.written = self.taken;
        Ok(())
    }

    /// Packets in the file, and those that are not in it, as far as is known.
    pub(super) fn packets(&self) -> (u64, u64) {
        (self.written, self.taken - self.written + self.refused)
    }
}
