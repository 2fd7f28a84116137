//! Passes over the buffers of all processors.

use std::io;

use super::super::page::ParseStatus;
use super::super::source::TraceFs;
use super::{FtraceReader, MAX_CPUS, PacketSink};

impl FtraceReader {
    /// Reads all processors, at most `max_pages` of each. Returns the pages read.
    ///
    /// # Errors
    /// The system's, if the processors cannot be listed. That a page cannot be read is noted in the statistics.
    pub fn read_pass(
        &mut self,
        fs: &mut impl TraceFs,
        max_pages: usize,
        out: &mut PacketSink<'_>,
    ) -> io::Result<usize> {
        self.begin_pass(fs);
        let cpus = fs.cpus()?;
        Ok(cpus.into_iter().map(|cpu| self.read_cpu(fs, cpu, max_pages, out)).sum())
    }

    /// Begins a read pass: kernel symbols are numbered anew, and clocks are read.
    pub fn begin_pass(&mut self, fs: &mut impl TraceFs) {
        self.addresses.indices.clear();
        if let Some((_, moment)) = &mut self.clock {
            *moment = fs.clocks().ok().or(*moment);
        }
    }

    /// Reads a processor's pages until there are no more, or `max_pages` have been read. Returns the pages read.
    pub fn read_cpu(
        &mut self,
        fs: &mut impl TraceFs,
        cpu: u32,
        max_pages: usize,
        out: &mut PacketSink<'_>,
    ) -> usize {
        let mut page = std::mem::take(&mut self.page);
        let mut pages = 0;
        while pages < max_pages && cpu < MAX_CPUS {
            match fs.read_page(cpu, &mut page) {
                Ok(0) => break,
                Ok(len) if len == page.len() => {
                    self.decode(cpu, &page, out);
                    pages += 1;
                }
                Ok(_) => {
                    self.errors.insert(ParseStatus::ShortRead);
                    break;
                }
                Err(error) => {
                    if !is_expected(&error) {
                        self.errors.insert(ParseStatus::ReadError);
                    }
                    break;
                }
            }
        }
        self.page = page;
        self.finish(out);
        pages
    }
}

/// Whether a read fails this way now and then: no page, no memory, another reader, a processor that is off.
fn is_expected(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    use io::ErrorKind::{OutOfMemory, ResourceBusy, WouldBlock};
    matches!(error.kind(), WouldBlock | OutOfMemory | ResourceBusy) || error.raw_os_error() == Some(ENODEV)
}
