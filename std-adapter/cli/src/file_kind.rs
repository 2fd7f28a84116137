//! The kind of a file that was given to the wrong command.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::files::{GZIP_START, is_gzipped};
use tracebuf_analysis::receive::is_line;
use tracebuf_analysis::recover::{Dump, Place};
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_session::region_file::moved_by_a_start;

/// Bytes of a file that are enough to see its kind: as much memory as most devices have, whose dump it may be. All of
/// it may not fit into memory.
pub(crate) const ENOUGH: u64 = 16 << 20;

/// The kind of a file that a command can make nothing of, judging by its content. Its text follows the reason.
#[derive(Clone, Copy)]
pub(crate) enum FileKind {
    Gzipped,
    Line,
    Trace,
    Memory,
    Unknown,
}

impl FileKind {
    /// Looks at the beginning only: looking through a gibibyte in all these ways takes many seconds.
    pub(crate) fn of(file: &[u8]) -> Self {
        let bytes = file.get(..ENOUGH as usize).unwrap_or(file);
        if is_gzipped(bytes) {
            return Self::Gzipped;
        }
        if is_line(bytes) {
            return Self::Line;
        }
        let report = TraceReport::of(bytes);
        // Memory may begin with some bytes that could be a packet.
        if report.packets > 0 && report.bytes >= report.rest {
            return Self::Trace;
        }
        let memory = Dump::parse(bytes).and_then(|dump| dump.find(Place::Anywhere));
        if memory.is_ok() { Self::Memory } else { Self::Unknown }
    }

    /// The same for a file that could be the right one, were it not gzipped.
    pub(crate) fn if_gzipped(file: &Path) -> Self {
        let mut start = [0; GZIP_START];
        let is_file = fs::metadata(file).is_ok_and(|there| there.is_file());
        let read = is_file && File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok();
        if read && is_gzipped(&start) { Self::Gzipped } else { Self::Unknown }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Gzipped => "gzipped, and `gunzip` unpacks it",
            Self::Line => "what came over a serial line, of which `tracebuf receive` makes a trace",
            Self::Trace => "a trace, which `tracebuf stats` and `tracebuf inspect` look into",
            Self::Memory => "memory with a trace buffer in it, out of which `tracebuf recover` takes a trace",
            Self::Unknown => return Ok(()),
        };
        write!(f, ": it seems to be {what}")
    }
}

/// The place where what a session left lies instead, to be said after why a file has none; empty if that is unknown.
pub(crate) fn if_moved(file: &Path, bytes: &[u8]) -> String {
    moved_by_a_start(file, bytes).map_or_else(String::new, |moved| format!(": {moved}"))
}

/// The same for a file that could not be read.
pub(crate) fn if_missing(file: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound { if_moved(file, &[]) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};

    use super::*;

    #[test]
    fn of_a_large_file_only_the_beginning_is_looked_at() {
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let region = TraceBuffer::new(vec![0u8; 2048], config).expect("a buffer").into_memory();
        for (before, is_told) in [(ENOUGH as usize - region.len(), true), (ENOUGH as usize, false)] {
            let memory = [vec![0xEE; before], region.clone()].concat();
            let said = FileKind::of(&memory).to_string();
            assert_eq!(said.contains("memory with a trace buffer"), is_told, "{said}");
        }
    }
}
