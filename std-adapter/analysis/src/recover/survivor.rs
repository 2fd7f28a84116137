//! Remains of a session in the file of a buffer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tracebuf::buffer::{RingContent, Salvage};
use tracebuf::proto::fields::{builtin_clock, clock};
use tracebuf::proto::reader::number;
use tracebuf::proto::{PacketView, SequenceId, TracePackets};
use tracebuf_session::parts::{BufferReport, ClockReading, PIECE, Piece, Totals, whole_within};
use tracebuf_session::region_file::{self, Contents, PendingWrite, moved_by_a_start};
use tracebuf_session::{CarryOver, Written};
use tracebuf_std::display::Count;
use tracebuf_std::whole_file::write_atomically;

use super::continuation::Continuation;
use super::found::attach_owned;
use super::repeated::Repeated;
use super::{Found, SharedMemoryImage};

/// Remains in a [file that held a buffer](tracebuf_session::region_file), ready to be written as a trace.
///
/// ```no_run
/// use tracebuf_analysis::recover::Survivor;
///
/// // A service restarts, and looks at what the last one had not yet written.
/// match Survivor::open("trace.region") {
///     Ok(survivor) => {
///         let (written, gap) = survivor.write_with("trace.pftrace", "crash.pftrace")?;
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
/// Open it before a session with that buffer starts, or as `FILE.previous` afterwards, when the session has emptied its
/// long trace. If the session is still running, this is what was there at some moment; beside a long trace, packets
/// that move on meanwhile may be in both, or what is read may be torn.
pub struct Survivor {
    found: Found,
    pub(super) clocks: Vec<u8>,
    clock_pairs: Vec<ClockReading>,
    pub(super) slots: Vec<Slot>,
    /// What the ring has forgotten, if that was kept.
    carried: Option<CarryOver>,
    /// Whether something before the ring's content is lost.
    pub(super) ring_follows_loss: bool,
    pub(super) gap: Gap,
    /// Packets that the trace of the session has already.
    pub(super) repeated: Repeated,
    /// Content of shared memory; the ring has what it did not have already.
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
    /// [damaged](super::Damage). If the start of a session in it was killed, what the previous session left is in
    /// `FILE.previous`, and the error, or [`NotFound`](io::ErrorKind::NotFound), says so.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
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
        let mut found = attach_owned(contents.start, std::mem::take(&mut contents.region))
            .map_err(|error| invalid(error.to_string()))?;
        // If they were written unchanged, damaged clocks would hide all that follows from readers.
        let mut unreadable = keep_whole_packets(&mut contents.clocks);
        let (mut slots, mut follows_loss) = (Vec::new(), false);
        for PendingWrite { at, mut bytes, .. } in std::mem::take(&mut contents.slots) {
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
        let chunks = found.buffer.inspect().items().filter_map(|item| match item.content {
            RingContent::Chunk(chunk) => Some(chunk),
            _ => None,
        });
        let carried = contents.kept.take().and_then(|kept| CarryOver::recovered(kept, chunks));
        let (gap, repeated, ring_follows_loss) = (Gap::default(), Repeated::default(), follows_loss);
        let Contents { clocks, clock_pairs, .. } = contents;
        Ok(Self {
            found,
            clocks,
            clock_pairs,
            slots,
            carried,
            ring_follows_loss,
            gap,
            repeated,
            shared,
            brought_in,
            buffer_size,
        })
    }

    /// Chunks that the session's threads had finished in [shared memory](super::SharedMemoryImage), if that [lies in
    /// the file](tracebuf_session::SessionBuilder::shared_memory_in_file) and the session was killed. What the buffer
    /// did not have of it was appended to the buffer.
    pub fn shared(&self) -> Option<&SharedMemoryImage> {
        self.shared.as_ref()
    }

    /// Chunks of [shared memory](Self::shared) that were brought in: the buffer did not have them completely.
    pub fn brought_in(&self) -> u64 {
        self.brought_in
    }

    /// The chunks and bytes that had to be dropped. Unreadable bytes are those of the ring and those on their way into
    /// a long trace.
    pub fn salvage(&self) -> Salvage {
        self.found.salvage
    }

    /// Chunks that are gone, at least this many: see [`Found::chunks_lost`]. The trace's statistics have them among
    /// those that break the rules, and one for a [gap](Self::gap).
    pub fn chunks_lost(&self) -> u64 {
        self.found.chunks_lost()
    }

    /// The gap between this and the trace that it is [after](Self::after) or [appended to](Self::append_to).
    pub fn gap(&self) -> Gap {
        self.gap
    }

    /// Writes what there is as a trace that ends with statistics, into a file that appears when it is complete. To append
    /// to a trace of that session, use [`append_to`](Self::append_to), which leaves out the clocks at its start.
    pub fn write_to(self, out: impl AsRef<Path>) -> io::Result<Written> {
        write_atomically(out.as_ref(), |file| self.write(file, Written::default(), 0))
    }

    /// A packet cannot be longer: all of it lies in the buffer or a slot, without what the service knows of it.
    pub(super) fn longest(&self) -> u64 {
        const OF_SERVICE: u64 = 1024;
        self.slots.iter().map(|slot| slot.len).fold(self.found.buffer.stats().buffer_size, u64::max)
            + OF_SERVICE
    }

    /// Appends to what is `written` already, of which the newest clocks are from this boot time.
    pub(super) fn write(
        mut self,
        output: &mut impl Write,
        written: Written,
        clocks: u64,
    ) -> io::Result<Written> {
        let before = written.packets;
        let repeated = std::mem::take(&mut self.repeated);
        let mut output = Continuation { output, written, told: None, repeated };
        let mut newest = clocks;
        if before == 0 {
            // A session's trace begins with them.
            output.put(&self.clocks)?;
            newest = newest_clocks(&self.clocks).unwrap_or(newest);
        }
        if self.slots.is_empty() {
            newest = self.put_clocks(&mut output, newest)?;
        }
        for slot in &self.slots {
            output.tell_of_loss(slot.follows_loss);
            output.put(&slot.bytes)?;
            newest = newest_clocks(&slot.bytes).map_or(newest, |clocks| clocks.max(newest));
        }
        output.tell_of_loss(self.ring_follows_loss);
        let mut carried = self.carried.take();
        let mut kept = Vec::new();
        carried.iter_mut().for_each(|carried| _ = carried.begin_file(&mut kept));
        output.put(&kept)?;
        let mut reader = self.found.buffer.read();
        loop {
            let mut piece = Piece::default();
            let read = piece.read(&mut reader, PIECE)?;
            output.written.invalid_packets += read.left_out;
            match &mut carried {
                Some(carried) => {
                    let mut passed = Vec::with_capacity(piece.bytes.len());
                    carried.pass(&piece.bytes, None, &mut passed);
                    output.put(&passed)?;
                }
                None => output.put(&piece.bytes)?,
            }
            if read.is_exhausted {
                break;
            }
        }
        if output.repeated.ends_with_statistics && output.written.packets == before {
            // The trace is complete already.
            return Ok(output.written);
        }
        // Slots are where they would be in the session's trace, and have pairs of clocks themselves. Only newer ones are
        // missing: where boot time went back from one pair to the next, readers would refuse it.
        self.put_clocks(&mut output, newest)?;
        let buffer = &self.found.buffer;
        let mut stats = buffer.stats();
        stats.buffer_size = self.buffer_size;
        let lost = self.found.lost_unknown_to_ring() + u64::from(!self.gap.is_none());
        stats.abi_violations = stats.abi_violations.saturating_add(lost);
        let report = BufferReport::new(buffer.policy(), stats, buffer.sequences());
        let invalid_packets = output.written.invalid_packets;
        let mut piece = Piece::default();
        piece.stats(&Totals { invalid_packets, ..Totals::default() }, &[report], None)?;
        output.put_unchanged(&piece.bytes)?;
        Ok(output.written)
    }
}

impl Survivor {
    /// Writes the pairs of clocks from after this boot time, and returns which is the newest then.
    fn put_clocks<W: Write>(&self, output: &mut Continuation<'_, W>, since: u64) -> io::Result<u64> {
        let mut piece = Piece::default();
        let mut newer = self.clock_pairs.iter().filter(|pair| pair.boottime > since);
        newer.clone().try_for_each(|pair| piece.clock_reading(pair))?;
        output.put_unchanged(&piece.bytes)?;
        Ok(newer.next_back().map_or(since, |pair| pair.boottime))
    }
}

/// The gap between a trace and what is left of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The end of the trace's whole packets.
    pub offset: u64,
    /// Bytes of the trace after that which are not in what is left. Readers do not get past the damage.
    pub unreadable: u64,
    /// Bytes that were written after the trace's end and are gone.
    pub missing: u64,
}

impl Gap {
    /// Returns true if nothing is missing.
    pub fn is_none(&self) -> bool {
        self.unreadable == 0 && self.missing == 0
    }

    /// Adds the bytes between two places of a trace that has `len`.
    pub(super) fn add(&mut self, from: u64, to: u64, len: u64) {
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
    /// Their place in the trace, if known.
    pub(super) at: Option<u64>,
    pub(super) bytes: Vec<u8>,
    /// The length, including bytes after the first damage.
    pub(super) len: u64,
    /// Whether something before them is lost.
    pub(super) follows_loss: bool,
}

const NO_FILE: &str = "it is no file of a buffer";

/// The boot time of the clocks that a packet of the service tells.
pub(super) fn clocks_of(packet: &PacketView<'_>) -> Option<u64> {
    let is_service = packet.sequence_id == SequenceId::SERVICE.get().into();
    let mut clocks = packet.clocks().filter(|_| is_service);
    let boottime =
        clocks.find(|reading| number(reading, clock::CLOCK_ID) == Some(builtin_clock::BOOTTIME))?;
    number(boottime, clock::TIMESTAMP)
}

fn clocks_in(packets: &[u8]) -> impl Iterator<Item = u64> {
    TracePackets::new(packets).map_while(Result::ok).filter_map(|packet| clocks_of(&PacketView::of(packet)))
}

fn newest_clocks(packets: &[u8]) -> Option<u64> {
    clocks_in(packets).max()
}

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
