//! What a session left in the file of a buffer.

use std::io::{self, Write};
use std::path::Path;

use tracebuf::buffer::Salvage;
use tracebuf::proto::TracePackets;

use super::{Found, attach};
use crate::region_file::{self, Waiting};
use crate::session::Written;
use crate::session::export::{BufferReport, Piece, Totals};
use crate::session::snapshot::{PIECE, write_atomically};

/// What is left in a [file that held a buffer](crate::region_file), ready to be made a trace.
///
/// ```no_run
/// use tracebuf_std::recover::Survivor;
///
/// // A service starts anew, and looks at what the last one had not yet written.
/// if let Ok(survivor) = Survivor::open("trace.region".as_ref()) {
///     let trace = "trace.pftrace".as_ref();
///     survivor.after(trace)?.write_with(trace, "crash.pftrace".as_ref())?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Open it before a session with that buffer starts, or as `FILE.previous` after.
pub struct Survivor {
    found: Found,
    clocks: Vec<u8>,
    slots: Vec<Waiting>,
}

impl Survivor {
    /// Reads the file. Nothing in it is changed.
    ///
    /// # Errors
    /// The file system's, or [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::parse(&std::fs::read(path)?)
    }

    /// The same of a file's contents.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it.
    pub fn parse(file: &[u8]) -> io::Result<Self> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let contents =
            region_file::parse(file).ok_or_else(|| invalid("it is no file of a buffer".to_owned()))?;
        let found =
            attach(contents.start as u64, &contents.region).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { found, clocks: contents.clocks, slots: contents.slots })
    }

    /// What had to be dropped.
    pub fn salvage(&self) -> Salvage {
        self.found.salvage
    }

    /// Leaves out what this trace, which the session wrote, has already.
    ///
    /// # Errors
    /// The file system's.
    pub fn after(mut self, trace: &Path) -> io::Result<Self> {
        let len = std::fs::metadata(trace)?.len();
        for slot in &mut self.slots {
            let there = slot.at.map_or(0, |at| len.saturating_sub(at));
            let mut packets = TracePackets::new(&slot.bytes);
            let mut whole = 0;
            // Of a packet that is there in part nothing counts: readers stop before it.
            while packets.next().is_some_and(|packet| packet.is_ok()) && packets.offset() as u64 <= there {
                whole = packets.offset();
            }
            slot.bytes.drain(..whole);
        }
        Ok(self)
    }

    /// Writes what there is as a trace, statistics at its end, into a file that appears when it is complete.
    ///
    /// Sequences have the numbers that they have in the session's own traces, so it can be appended to one that ends
    /// with a whole packet.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(self, out: &Path) -> io::Result<Written> {
        write_atomically(out, |file| self.write_to(file, &[]))
    }

    /// The same behind the whole packets of a trace that the session wrote. `out` may be that trace itself.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_with(self, trace: &Path, out: &Path) -> io::Result<Written> {
        let before = std::fs::read(trace)?;
        let mut packets = TracePackets::new(&before);
        while packets.next().is_some_and(|packet| packet.is_ok()) {}
        let whole = before.get(..packets.offset()).unwrap_or_default();
        write_atomically(out, |file| self.write_to(file, whole))
    }

    fn write_to(mut self, output: &mut impl Write, before: &[u8]) -> io::Result<Written> {
        let mut written = Written::default();
        let mut put = |bytes: &[u8], written: &mut Written| {
            written.bytes += bytes.len() as u64;
            written.packets += TracePackets::new(bytes).count() as u64;
            output.write_all(bytes)
        };
        put(before, &mut written)?;
        put(&self.clocks, &mut written)?;
        for slot in &self.slots {
            put(&slot.bytes, &mut written)?;
        }
        let mut reader = self.found.buffer.read();
        loop {
            let mut piece = Piece::default();
            let (exhausted, refused) = piece.read(&mut reader, PIECE)?;
            written.invalid_packets += refused;
            put(&piece.bytes, &mut written)?;
            if exhausted {
                break;
            }
        }
        let buffer = &self.found.buffer;
        let report = BufferReport { stats: buffer.stats(), sequences: buffer.sequences().collect() };
        let totals = Totals { invalid_packets: written.invalid_packets, ..Totals::default() };
        let mut piece = Piece::default();
        piece.stats(&totals, &[report], None)?;
        put(&piece.bytes, &mut written)?;
        Ok(written)
    }
}
