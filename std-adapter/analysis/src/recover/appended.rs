//! Remains of a session, appended to the trace that it wrote.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use tracebuf_session::Written;
use tracebuf_session::parts::whole_within;
use tracebuf_std::display::Count;
use tracebuf_std::system::{FileId, id_at, id_of};
use tracebuf_std::whole_file::write_atomically;

use super::repeated::{Repeated, walk};
use super::{Gap, Survivor};

/// Remains of a session, and the trace to which they are to be appended, made by [`Survivor::append_to`].
#[derive(Debug)]
pub struct Appended {
    survivor: Survivor,
    trace: File,
    /// The file's identity, whatever its name.
    id: FileId,
    whole: Written,
}

impl Survivor {
    /// Leaves out what this trace, written by the session, already has. It may also be one to which this was appended
    /// before, or a snapshot of that session. Cost: a look at each packet that the session has not written there.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no regular file, if it does not
    /// begin like that session's trace, or if that cannot be checked because that part of the buffer's file is damaged.
    pub fn after(mut self, trace: impl AsRef<Path>) -> io::Result<Self> {
        let (mut trace, len) = self.open_ours(trace.as_ref())?;
        // Its content is not looked at: damaged or not, it lies there.
        self.leave_out(len, len, &mut trace)?;
        // This becomes a trace of its own.
        self.repeated.ends_with_statistics = false;
        Ok(self)
    }

    /// Like [`after`](Self::after), to be appended to the whole packets of that trace. Finding their end takes a look
    /// at all of them.
    pub fn append_to(mut self, trace: impl AsRef<Path>) -> io::Result<Appended> {
        let (mut trace, len) = self.open_ours(trace.as_ref())?;
        let whole = whole_packets(&mut trace)?;
        self.leave_out(whole.bytes, len, &mut trace)?;
        trace.rewind()?;
        let id = id_of(&trace)?;
        Ok(Appended { survivor: self, trace, id, whole })
    }

    /// Both at once: [`append_to`](Self::append_to) the trace, [written](Appended::write_to) to `out`. Also returns
    /// what is missing between them.
    pub fn write_with(self, trace: impl AsRef<Path>, out: impl AsRef<Path>) -> io::Result<(Written, Gap)> {
        let appended = self.append_to(trace)?;
        let gap = appended.gap();
        Ok((appended.write_to(out)?, gap))
    }

    /// Opens a trace, at its start.
    fn open_ours(&self, path: &Path) -> io::Result<(File, u64)> {
        // Looked at first: opening a pipe waits for its other end.
        if !fs::metadata(path)?.is_file() {
            return refused("it is no regular file: how much it has nobody knows, nor can it be read again");
        }
        let mut trace = File::open(path)?;
        let len = trace.metadata()?.len();
        self.check_is_ours(&mut trace)?;
        trace.rewind()?;
        Ok((trace, len))
    }

    /// A session's trace begins with the clocks that its buffer's file has. One with fewer bytes has nothing yet.
    fn check_is_ours(&self, trace: &mut File) -> io::Result<()> {
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
    fn leave_out(&mut self, whole: u64, len: u64, trace: &mut File) -> io::Result<()> {
        // Behind what the session itself has written there may be what this or a part of it became before.
        let ends = self.slots.iter().filter_map(|slot| Some(slot.at? + slot.len));
        let written = ends.fold(self.clocks.len() as u64, u64::max);
        self.repeated = Repeated::of(trace, written, whole, self.longest())?;
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
        Ok(())
    }
}

impl Appended {
    /// The gap between the trace and what is left of the session.
    pub fn gap(&self) -> Gap {
        self.survivor.gap()
    }

    /// Writes one trace of both into a file that appears when it is complete: sequences keep the numbers that they have
    /// in the trace. After a [gap](Self::gap), the next packet of each sequence says that something before it is lost.
    ///
    /// # Errors
    /// The file system's, or [`InvalidInput`](io::ErrorKind::InvalidInput) if `out` is the trace itself and would lose
    /// unreadable bytes.
    pub fn write_to(self, out: impl AsRef<Path>) -> io::Result<Written> {
        let out = out.as_ref();
        let Self { survivor, trace, id, whole } = self;
        let Gap { offset, unreadable, .. } = survivor.gap();
        if unreadable > 0 && id_at(out).is_ok_and(|out| out == id) {
            let lost = Count(unreadable, "byte");
            return refused(&format!(
                "it is the trace itself, of which {lost} would be gone, unreadable from offset {offset} on; another \
                 file can be written"
            ));
        }
        write_atomically(out, |file| {
            // Closed afterwards: on Windows an open file cannot be replaced.
            io::copy(&mut trace.take(whole.bytes), file)?;
            survivor.write(file, whole)
        })
    }
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Measures the whole packets that a trace begins with, then returns to its start. It may be larger than memory, so
/// only tags and lengths are read.
fn whole_packets(trace: &mut File) -> io::Result<Written> {
    let (mut whole, end) = (Written::default(), trace.metadata()?.len());
    whole.bytes = walk(trace, 0, end, 0, |_| whole.packets += 1)?;
    trace.rewind()?;
    Ok(whole)
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
