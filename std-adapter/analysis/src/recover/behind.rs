//! Appends what is left of a session to the trace that the session wrote.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use tracebuf::proto::{MAX_LENGTH, WireType, fields, tag, varint};

use super::Survivor;
use tracebuf_session::Written;
use tracebuf_session::fields::take;
use tracebuf_session::parts::whole_within;
use tracebuf_std::display::Count;
use tracebuf_std::system::{FileId, id_at, id_of};
use tracebuf_std::whole_file::write_atomically;

/// What is missing between a trace and what is left of its session.
///
/// ```
/// use tracebuf_analysis::recover::Survivor;
///
/// # use std::io::Write;
/// # use tracebuf_session::{BufferConfig, LongTrace, Session};
/// # let folder = std::env::temp_dir().join(format!("doc-gap-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let [region, trace, out] = ["trace.region", "trace.pftrace", "whole.pftrace"].map(|name| folder.join(name));
/// # let buffer = BufferConfig::ring(1 << 20).in_file(&region);
/// # let session = Session::builder().buffer(buffer).long_trace(LongTrace::to(&trace)).start()?;
/// # session.recorder().instant("hello");
/// # drop(session.stop()?);
/// # std::fs::OpenOptions::new().append(true).open(&trace)?.write_all(&[0; 4])?;
/// // A power cut has left four zeros at the end of a session's trace.
/// let (written, gap) = Survivor::open(&region)?.write_with(&trace, &out)?;
/// println!("{} packets; {gap}", written.packets);
/// assert!(!gap.is_none());
/// assert_eq!((gap.unreadable, gap.missing), (4, 0));
/// # std::fs::remove_dir_all(folder)?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// Where the trace's whole packets end.
    pub offset: u64,
    /// Bytes of the trace after that which are not in what is left. Readers do not get past the damage.
    pub unreadable: u64,
    /// Bytes that were written after the trace's end and are gone.
    pub missing: u64,
}

impl Gap {
    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        self.unreadable == 0 && self.missing == 0
    }

    /// Adds the bytes between two places of a trace that has `len`.
    fn add(&mut self, from: u64, to: u64, len: u64) {
        let (end_of_unreadable, start_of_missing) = (to.min(len), from.max(len));
        self.unreadable += end_of_unreadable.saturating_sub(from);
        self.missing = self.missing.saturating_add(to.saturating_sub(start_of_missing));
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, unreadable, missing } = *self;
        if self.is_none() {
            return f.write_str("nothing is missing");
        }
        if unreadable > 0 {
            let is = if unreadable == 1 { "is" } else { "are" };
            write!(f, "{} from offset {offset} on {is} unreadable", Count(unreadable, "byte"))?;
        }
        let and = if unreadable > 0 { ", and it" } else { "it" };
        match missing {
            0 => Ok(()),
            missing => write!(f, "{and} is {} shorter than it was", Count(missing, "byte")),
        }
    }
}

/// Packets on their way into the trace.
pub(super) struct Slot {
    /// Where in the trace they go, if known.
    pub(super) at: Option<u64>,
    pub(super) bytes: Vec<u8>,
    /// The length, including bytes after the first damage.
    pub(super) len: u64,
    /// Whether something before them is lost.
    pub(super) follows_loss: bool,
}

/// What is left of a session, and the trace to which it is to be appended, made by [`Survivor::behind`].
///
/// ```
/// use tracebuf_analysis::recover::Survivor;
///
/// # use std::time::Duration;
/// # use tracebuf_session::{BufferConfig, LongTrace, Session};
/// # let folder = std::env::temp_dir().join(format!("doc-behind-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let [region, trace, out] = ["trace.region", "trace.pftrace", "whole.pftrace"].map(|name| folder.join(name));
/// # let buffer = BufferConfig::ring(1 << 20).in_file(&region);
/// # let long = LongTrace::to(&trace).period(Duration::from_secs(3600));
/// # let session = Session::builder().buffer(buffer).long_trace(long).start()?;
/// # session.recorder().instant("hello");
/// # session.flush(Duration::from_secs(5))?;
/// // A session with a buffer and a long trace in these files was killed.
/// let behind = Survivor::open(&region)?.behind(&trace)?;
/// if !behind.gap().is_none() {
///     eprintln!("{}", behind.gap());
/// }
/// let written = behind.write_to(&out)?;
/// assert!(written.packets >= 3);
/// # drop(session);
/// # std::fs::remove_dir_all(folder)?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Behind {
    survivor: Survivor,
    trace: File,
    /// The file's identity, whatever its name.
    id: FileId,
    whole: Written,
}

impl Survivor {
    /// Leaves out what this trace, written by the session, already has.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no regular file, if it does not
    /// begin like that session's trace, or if that cannot be checked because that part of the buffer's file is damaged.
    pub fn after(mut self, trace: &Path) -> io::Result<Self> {
        let (_, len) = self.open_ours(trace)?;
        // Its content was not looked at: damaged or not, it lies there.
        self.leave_out(len, len);
        Ok(self)
    }

    /// Like [`after`](Self::after), to be appended to the whole packets of that trace. Finding their end takes a look
    /// at all of them.
    ///
    /// # Errors
    /// Those of [`after`](Self::after).
    pub fn behind(mut self, trace: &Path) -> io::Result<Behind> {
        let (mut trace, len) = self.open_ours(trace)?;
        let whole = whole_packets(&mut trace)?;
        self.leave_out(whole.bytes, len);
        let id = id_of(&trace)?;
        Ok(Behind { survivor: self, trace, id, whole })
    }

    /// Both at once: [`behind`](Self::behind) the trace, [written](Behind::write_to) to `out`. Also returns what is
    /// missing between them.
    ///
    /// # Errors
    /// Those of either.
    pub fn write_with(self, trace: &Path, out: &Path) -> io::Result<(Written, Gap)> {
        let behind = self.behind(trace)?;
        let gap = behind.gap();
        Ok((behind.write_to(out)?, gap))
    }

    /// Opens a trace, at its start.
    fn open_ours(&self, path: &Path) -> io::Result<(File, u64)> {
        // Looked at first: opening a pipe waits for its other end.
        if !fs::metadata(path)?.is_file() {
            let message = "it is no regular file: how much it has nobody knows, nor can it be read again";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut trace = File::open(path)?;
        let len = trace.metadata()?.len();
        self.check_is_ours(&mut trace)?;
        trace.rewind()?;
        Ok((trace, len))
    }

    /// A session's trace begins with the clocks that its buffer's file has. One with fewer bytes has nothing yet.
    fn check_is_ours(&self, trace: &mut File) -> io::Result<()> {
        let refused = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if self.clocks.is_empty() {
            // Every trace begins with nothing.
            return refused(
                "whether it is the session's is not known: the buffer's file has no readable clocks",
            );
        }
        let mut start = Vec::with_capacity(self.clocks.len());
        trace.take(self.clocks.len() as u64).read_to_end(&mut start)?;
        if self.clocks.starts_with(&start) {
            return Ok(());
        }
        refused("it is no trace of the buffer's session: it does not begin with that one's clocks")
    }

    /// Leaves out what a trace of `len` bytes has, whose first `whole` bytes were read.
    fn leave_out(&mut self, whole: u64, len: u64) {
        self.gap = Gap { offset: whole, ..Gap::default() };
        // First of all it has the clocks; if they are not whole there, they are here.
        let mut reach = whole.max(self.clocks.len() as u64);
        for slot in &mut self.slots {
            // Slots whose place is unknown go after everything that is there.
            let at = slot.at.unwrap_or(reach.max(len));
            slot.follows_loss |= at > reach;
            self.gap.add(reach, at, len);
            reach = reach.max(at.saturating_add(slot.len));
            // A packet that is only partly there does not count: readers stop before it.
            let there = whole_within(&slot.bytes, whole.saturating_sub(at));
            slot.bytes.drain(..there);
            slot.len -= there as u64;
            slot.at = slot.at.map(|at| at + there as u64);
        }
        self.ring_follows_loss |= len > reach;
        self.gap.add(reach, len, len);
    }
}

impl Behind {
    /// What is missing between the trace and what is left of the session.
    pub fn gap(&self) -> Gap {
        self.survivor.gap()
    }

    /// Writes one trace of both into a file that appears when it is complete: sequences keep the numbers that they have
    /// in the trace. After a [gap](Self::gap), the next packet of each sequence says that something before it is lost.
    ///
    /// `out` may be the trace itself, unless that would lose bytes of it.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if it is the trace and bytes of it are
    /// unreadable.
    pub fn write_to(self, out: &Path) -> io::Result<Written> {
        let Self { survivor, trace, id, whole } = self;
        let Gap { offset, unreadable, .. } = survivor.gap();
        if unreadable > 0 && id_at(out).is_ok_and(|out| out == id) {
            let message = format!(
                "it is the trace itself, of which {} would be gone, unreadable from offset {offset} on; another file \
                 can be written",
                Count(unreadable, "byte")
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        write_atomically(out, |file| {
            // Closed afterwards: on Windows an open file cannot be replaced.
            io::copy(&mut trace.take(whole.bytes), file)?;
            survivor.write(file, whole)
        })
    }
}

/// Measures the whole packets that a trace begins with, then returns to its start. It may be larger than memory, so
/// only tags and lengths are read.
fn whole_packets(trace: &mut File) -> io::Result<Written> {
    let end = trace.metadata()?.len();
    let mut file = BufReader::new(&mut *trace);
    let mut whole = Written::default();
    loop {
        let mut head = Vec::with_capacity(2 * varint::MAX_LEN);
        file.by_ref().take(2 * varint::MAX_LEN as u64).read_to_end(&mut head)?;
        let Some(size) = packet_size(&head).filter(|size| *size <= end - whole.bytes) else {
            break;
        };
        file.seek_relative(size as i64 - head.len() as i64)?;
        whole.bytes += size;
        whole.packets += 1;
    }
    trace.rewind()?;
    Ok(whole)
}

/// Bytes of the packet that begins like this, including its tag and length.
fn packet_size(head: &[u8]) -> Option<u64> {
    let (found, rest) = take(head)?;
    let (length, rest) = take(rest)?;
    let is_packet = found == u64::from(tag(fields::trace::PACKET, WireType::Length));
    let behind_head = Some(length).filter(|length| is_packet && *length <= u64::from(MAX_LENGTH))?;
    Some((head.len() - rest.len()) as u64 + behind_head)
}

#[cfg(test)]
mod tests {
    use tracebuf::proto::TracePackets;

    use super::*;

    #[test]
    fn whole_packets_end_where_they_do_in_memory() {
        let path = std::env::temp_dir().join(format!("tracebuf-whole-packets-{}", std::process::id()));
        // Longer than what is read at once, with tags and lengths of any size.
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
