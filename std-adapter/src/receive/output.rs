//! The trace file of what is received, and what is in it.

use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Packets gathered on their way into the file.
pub(super) struct Output {
    file: BufWriter<File>,
    taken: u64,
    /// Packets that could not be taken, for others were to be written first, or that were too large to be gathered.
    refused: u64,
    written: u64,
}

impl Output {
    pub(super) fn new(file: File) -> Self {
        Self { file: BufWriter::new(file), taken: 0, refused: 0, written: 0 }
    }

    pub(super) fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        self.take(packet).inspect_err(|_| self.refused += 1)
    }

    fn take(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.file.buffer().len() + packet.len() > self.file.capacity() {
            // It would be done anyway, without a word of it.
            self.flush()?;
        }
        self.file.write_all(packet)?;
        self.taken += 1;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.written = self.taken;
        Ok(())
    }

    /// Packets in the file, and those that are not there as far as is known.
    pub(super) fn packets(&self) -> (u64, u64) {
        (self.written, self.taken - self.written + self.refused)
    }
}
