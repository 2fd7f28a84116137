//! What a session left in the file of a buffer.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use tracebuf::buffer::Salvage;
use tracebuf::proto::{MAX_LENGTH, TracePackets, WireType, fields, tag, varint};

use super::{Found, attach_owned};
use crate::fields::take;
use crate::region_file::{self, Contents, Waiting};
use crate::session::counts::{Totals, Written};
use crate::session::export::{BufferReport, Piece, whole_within};
use crate::session::snapshot::PIECE;
use crate::whole_file::write_atomically;

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
/// Open it before a session with that buffer starts, or as `FILE.previous` after. By then the session has emptied its
/// long trace: if that is the same file, what the last one had written is gone, and there is nothing to be left out.
pub struct Survivor {
    found: Found,
    clocks: Vec<u8>,
    slots: Vec<Waiting>,
}

impl Survivor {
    /// Reads the file. Nothing in it is changed. That takes the memory of what is used of the buffer, whatever size the
    /// file has.
    ///
    /// # Errors
    /// The file system's, or [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Self::of(region_file::read(&file)?);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    /// The same of a file's contents.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it.
    pub fn parse(file: &[u8]) -> io::Result<Self> {
        Self::of(region_file::parse(file))
    }

    fn of(contents: Option<Contents>) -> io::Result<Self> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut contents = contents.ok_or_else(|| invalid("it is no file of a buffer".to_owned()))?;
        let mut found =
            attach_owned(contents.start, contents.region).map_err(|error| invalid(error.to_string()))?;
        // Written as they are, damaged ones would hide from readers all that comes behind them.
        let waiting = contents.slots.iter_mut().map(|slot| &mut slot.bytes);
        let unreadable: u64 = waiting.chain([&mut contents.clocks]).map(keep_whole_packets).sum();
        found.salvage.bytes_unreadable += unreadable;
        Ok(Self { found, clocks: contents.clocks, slots: contents.slots })
    }

    /// What had to be dropped. Unreadable bytes are those of the ring and of what was on its way into a long trace.
    pub fn salvage(&self) -> Salvage {
        self.found.salvage
    }

    /// Leaves out what this trace, which the session wrote, has already.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if it does not begin as that session's.
    pub fn after(mut self, trace: &Path) -> io::Result<Self> {
        let mut file = File::open(trace)?;
        self.check_is_ours(&mut file)?;
        let len = file.metadata()?.len();
        for slot in &mut self.slots {
            let there = slot.at.map_or(0, |at| len.saturating_sub(at));
            // Of a packet that is there in part nothing counts: readers stop before it.
            slot.bytes.drain(..whole_within(&slot.bytes, there));
        }
        Ok(self)
    }

    /// Writes what there is as a trace, statistics at its end, into a file that appears when it is complete.
    ///
    /// It begins with the clocks at the session's start. So behind a trace of that session, whose clocks are newer, it
    /// is put by [`write_with`](Self::write_with), which leaves them out.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_to(self, out: &Path) -> io::Result<Written> {
        write_atomically(out, |file| self.write(file, Written::default()))
    }

    /// The same behind the whole packets of a trace that the session wrote: sequences have the numbers that they have
    /// there. `out` may be that trace itself.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if it does not begin as that session's.
    pub fn write_with(self, trace: &Path, out: &Path) -> io::Result<Written> {
        let mut trace = File::open(trace)?;
        self.check_is_ours(&mut trace)?;
        trace.rewind()?;
        let whole = whole_packets(&mut trace)?;
        trace.rewind()?;
        write_atomically(out, |file| {
            io::copy(&mut trace.take(whole.bytes), file)?;
            self.write(file, whole)
        })
    }

    /// A session's trace begins with the clocks that its buffer's file has. One with fewer bytes has nothing yet.
    fn check_is_ours(&self, trace: &mut File) -> io::Result<()> {
        let mut start = Vec::with_capacity(self.clocks.len());
        trace.take(self.clocks.len() as u64).read_to_end(&mut start)?;
        if self.clocks.starts_with(&start) {
            return Ok(());
        }
        let message = "it is no trace of the buffer's session: it does not begin with that one's clocks";
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// Behind what is `written` already.
    fn write(mut self, output: &mut impl Write, mut written: Written) -> io::Result<Written> {
        let mut put = |bytes: &[u8], written: &mut Written| {
            written.bytes += bytes.len() as u64;
            written.packets += TracePackets::new(bytes).filter(Result::is_ok).count() as u64;
            output.write_all(bytes)
        };
        if written.packets == 0 {
            // A trace of the session's begins with them. In its midst, behind newer ones, boot time would go back,
            // which readers refuse.
            put(&self.clocks, &mut written)?;
        }
        for slot in &self.slots {
            put(&slot.bytes, &mut written)?;
        }
        let mut reader = self.found.buffer.read();
        loop {
            let mut piece = Piece::default();
            let read = piece.read(&mut reader, PIECE)?;
            written.invalid_packets += read.refused;
            put(&piece.bytes, &mut written)?;
            if read.exhausted {
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

/// Leaves only the packets before any damage, and says how many bytes that costs.
fn keep_whole_packets(bytes: &mut Vec<u8>) -> u64 {
    let whole = whole_within(bytes, u64::MAX);
    let rest = bytes.len().saturating_sub(whole);
    bytes.truncate(whole);
    rest as u64
}

/// The whole packets that a trace begins with. It may be larger than memory, so only tags and lengths are read.
fn whole_packets(trace: &mut File) -> io::Result<Written> {
    let end = trace.metadata()?.len();
    let mut file = BufReader::new(trace);
    let mut whole = Written::default();
    loop {
        let mut head = Vec::with_capacity(2 * varint::MAX_LEN);
        file.by_ref().take(2 * varint::MAX_LEN as u64).read_to_end(&mut head)?;
        let Some(size) = packet_size(&head).filter(|size| *size <= end - whole.bytes) else {
            return Ok(whole);
        };
        file.seek_relative(size as i64 - head.len() as i64)?;
        whole.bytes += size;
        whole.packets += 1;
    }
}

/// Bytes of the packet that begins so, with its tag and length.
fn packet_size(head: &[u8]) -> Option<u64> {
    let (found, rest) = take(head)?;
    let (length, rest) = take(rest)?;
    let is_packet = found == u64::from(tag(fields::trace::PACKET, WireType::Length));
    let behind_head = Some(length).filter(|length| is_packet && *length <= u64::from(MAX_LENGTH))?;
    Some((head.len() - rest.len()) as u64 + behind_head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_packets_end_where_they_do_in_memory() {
        let path = std::env::temp_dir().join(format!("tracebuf-whole-packets-{}", std::process::id()));
        // Longer than what is read at once, in tags and lengths of any size.
        let long = [&[0x0A, 0xA0, 0x9C, 0x01][..], &[7; 20_000]].concat();
        let trace =
            [&[0x0A, 2, 0x40, 5], &long[..], &[0x8A, 0x80, 0, 0x81, 0x80, 0, 9], &[0x0A, 0], &long].concat();
        let malformed: [&[u8]; 5] = [b"", b"\x0A", b"\x12\x00", b"\x0A\x80\x80\x80\x80\x01", &[0x80; 20]];
        let cuts =
            (0..30).chain(19_990..20_030).chain(40_000..=trace.len()).filter(|cut| *cut <= trace.len());
        for cut in cuts {
            for malformed in malformed {
                let trace = [&trace[..cut], malformed].concat();
                std::fs::write(&path, &trace).expect("a file");
                let mut packets = TracePackets::new(&trace);
                let count = packets.by_ref().filter(|packet| packet.is_ok()).count();
                let whole = whole_packets(&mut File::open(&path).expect("a file")).expect("a trace");
                assert_eq!((whole.packets, whole.bytes), (count as u64, packets.offset() as u64), "{cut}");
            }
        }
        std::fs::remove_file(path).expect("it is there");
    }
}
