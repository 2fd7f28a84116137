//! What a session left in the file of a buffer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tracebuf::buffer::Salvage;

use super::behind::{Gap, Slot};
use super::output::Output;
use super::{Found, SharedMemoryImage, attach_owned};
use tracebuf_session::Written;
use tracebuf_session::parts::Totals;
use tracebuf_session::parts::{BufferReport, PIECE, Piece, whole_within};
use tracebuf_session::region_file::{self, Contents, PendingWrite, moved_by_a_start};
use tracebuf_std::whole_file::write_atomically;

/// What is left in a [file that held a buffer](tracebuf_session::region_file), ready to be written as a trace.
///
/// ```no_run
/// use tracebuf_analysis::recover::Survivor;
///
/// // A service restarts, and looks at what the last one had not yet written.
/// match Survivor::open("trace.region".as_ref()) {
///     Ok(survivor) => {
///         let (written, gap) = survivor.write_with("trace.pftrace".as_ref(), "crash.pftrace".as_ref())?;
///         println!("{} packets, {gap}", written.packets);
///     }
///     // The first time there is nothing.
///     Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
///     // For example, that the start in between was killed, and where the buffer of the one before is.
///     Err(error) => eprintln!("trace.region: {error}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Open it before a session with that buffer starts, or as `FILE.previous` afterwards. By then the session has emptied
/// its long trace: if that is the same file, what the previous one had written is gone, and there is nothing to leave
/// out. If the session is still running, this is what was there at some moment; beside a long trace, packets that move
/// on meanwhile may be in both, or what is read may be torn.
pub struct Survivor {
    found: Found,
    pub(super) clocks: Vec<u8>,
    pub(super) slots: Vec<Slot>,
    /// Whether something before the ring's content is lost.
    pub(super) ring_follows_loss: bool,
    pub(super) gap: Gap,
    /// What lay in shared memory; the ring has what it did not have already.
    shared: Option<SharedMemoryImage>,
    brought_in: u64,
    /// The size that the buffer had when it was found.
    buffer_size: u64,
}

impl fmt::Debug for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survivor").field("found", &self.found).field("gap", &self.gap).finish_non_exhaustive()
    }
}

impl Survivor {
    /// Reads the file without changing it. That takes as much memory as is used of the buffer, whatever the file's
    /// size; if it has shared memory, twice that for a moment, plus the shared memory's size.
    ///
    /// # Errors
    /// The file system's, or [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it, or the file is
    /// [damaged](super::Damage). If the start of a session in it was killed, there is no buffer: what the previous
    /// session left is in `FILE.previous`, which may have been recovered before that start, and the error says so. If
    /// there is no file it is [`NotFound`](io::ErrorKind::NotFound), which mentions such a `FILE.previous` as well.
    pub fn open(path: &Path) -> io::Result<Self> {
        let none = |error: io::Error, begins_with: &[u8]| match moved_by_a_start(path, begins_with) {
            Some(moved) => io::Error::new(error.kind(), format!("{error}: {moved}")),
            None => error,
        };
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => none(error, &[]),
            _ => error,
        })?;
        if file.metadata()?.is_file() {
            let read = region_file::read(&file)?;
            return read.map_err(|page| none(invalid(NO_FILE.to_owned()), &page)).and_then(Self::of);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    /// Like [`open`](Self::open), for a file's contents.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) if no buffer is in it, or it is [damaged](super::Damage).
    pub fn parse(file: &[u8]) -> io::Result<Self> {
        let contents = region_file::parse(file)?;
        Self::of(contents.ok_or_else(|| invalid(NO_FILE.to_owned()))?)
    }

    fn of(mut contents: Contents) -> io::Result<Self> {
        let mut found =
            attach_owned(contents.start, contents.region).map_err(|error| invalid(error.to_string()))?;
        // If they were written unchanged, damaged clocks would hide all that follows from readers.
        let mut unreadable = keep_whole_packets(&mut contents.clocks);
        let (mut slots, mut follows_loss) = (Vec::new(), false);
        for PendingWrite { at, mut bytes, .. } in contents.slots {
            let len = bytes.len() as u64;
            let damaged = keep_whole_packets(&mut bytes);
            slots.push(Slot { at, bytes, len, follows_loss });
            unreadable += damaged;
            follows_loss = damaged > 0;
        }
        found.salvage.bytes_unreadable += unreadable;
        found.shared = contents.own.take().as_ref().and_then(SharedMemoryImage::in_file);
        let shared = found.shared.as_ref().map(SharedMemoryImage::emptied);
        let buffer_size = found.buffer.stats().buffer_size;
        let (found, brought_in) = found.bring_in();
        Ok(Self {
            found,
            clocks: contents.clocks,
            slots,
            ring_follows_loss: follows_loss,
            gap: Gap::default(),
            shared,
            brought_in,
            buffer_size,
        })
    }

    /// What the session's threads had finished in [shared memory](super::SharedMemoryImage), if that [lies in the
    /// file](tracebuf_session::SessionBuilder::shared_memory_in_file) and the session was killed. What the buffer did not
    /// have of it was appended to the buffer.
    pub fn shared(&self) -> Option<&SharedMemoryImage> {
        self.shared.as_ref()
    }

    /// How many chunks of [shared memory](Self::shared) were brought in, because the buffer did not have them
    /// completely.
    pub fn brought_in(&self) -> u64 {
        self.brought_in
    }

    /// What had to be dropped. Unreadable bytes are those of the ring and those on their way into a long trace.
    pub fn salvage(&self) -> Salvage {
        self.found.salvage
    }

    /// What is missing between this and the trace that it is [after](Self::after) or [behind](Self::behind).
    pub fn gap(&self) -> Gap {
        self.gap
    }

    /// Writes what there is as a trace that ends with statistics, into a file that appears when it is complete.
    ///
    /// It begins with the clocks at the session's start. To append to a trace of that session, whose clocks are newer,
    /// use [`behind`](Self::behind), which leaves them out.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_to(self, out: &Path) -> io::Result<Written> {
        write_atomically(out, |file| self.write(file, Written::default()))
    }

    /// Appends to what is `written` already.
    pub(super) fn write(mut self, output: &mut impl Write, written: Written) -> io::Result<Written> {
        let mut output = Output::new(output, written);
        if written.packets == 0 {
            // A session's trace begins with them. Later in it, after newer ones, boot time would go back, which readers
            // refuse.
            output.put(&self.clocks)?;
        }
        for slot in &self.slots {
            output.tell_of_loss(slot.follows_loss);
            output.put(&slot.bytes)?;
        }
        output.tell_of_loss(self.ring_follows_loss);
        let mut reader = self.found.buffer.read();
        loop {
            let mut piece = Piece::default();
            let read = piece.read(&mut reader, PIECE)?;
            output.written.invalid_packets += read.refused;
            output.put(&piece.bytes)?;
            if read.exhausted {
                break;
            }
        }
        let buffer = &self.found.buffer;
        let mut stats = buffer.stats();
        stats.buffer_size = self.buffer_size;
        let report = BufferReport::new(buffer.policy(), stats, buffer.sequences());
        let invalid_packets = output.written.invalid_packets;
        let mut piece = Piece::default();
        piece.stats(&Totals { invalid_packets, ..Totals::default() }, &[report], None)?;
        output.put_unchanged(&piece.bytes)?;
        Ok(output.written)
    }
}

const NO_FILE: &str = "it is no file of a buffer";

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Keeps only the packets before any damage, and returns how many bytes that costs.
fn keep_whole_packets(bytes: &mut Vec<u8>) -> u64 {
    let whole = whole_within(bytes, u64::MAX);
    let rest = bytes.len().saturating_sub(whole);
    bytes.truncate(whole);
    rest as u64
}
