//! A region that was found, and the trace that is made from it.

use std::io::{self, Write};
use std::path::Path;

use tracebuf::buffer::{AttachError, ReadOnlyTraceBuffer, RingView, Salvage, SequenceInfo};
use tracebuf_std::whole_file::write_atomically;

use super::{Aligned, SharedMemoryImage};
use crate::pftrace::TraceFile;

/// A region of a dump, ready to be read.
#[derive(Debug)]
pub struct Found {
    /// Its address, or in a raw dump the offset from its start.
    pub address: u64,
    /// The chunks and bytes that had to be dropped.
    pub salvage: Salvage,
    /// The buffer that was found.
    pub buffer: ReadOnlyTraceBuffer<Aligned>,
    /// Shared memory before it, if the firmware [marks it](tracebuf::service::StartMark). Its content is not in the
    /// buffer until it is [brought in](Self::bring_in).
    pub shared: Option<SharedMemoryImage>,
    /// Chunks that lie before it as if in shared memory whose [mark](tracebuf::service::StartMark) is gone, judging by
    /// what is in them. They cannot be brought in: the mark would say whose they are.
    pub unmarked: u64,
    /// Chunks that are gone besides those of the ring, at least this many.
    pub(super) lost_beside: u64,
    /// Chunks of shared memory that the buffer has refused, and counted.
    pub(super) malformed: u64,
    /// Addresses of others in what was searched, such as a snapshot of the same ring. Empty if no search was needed.
    pub others: Vec<u64>,
}

/// Attaches to a copy of the region that these bytes begin with.
pub(super) fn attach(address: u64, bytes: &[u8]) -> Result<Found, AttachError> {
    attach_to(address, Aligned::copy_of(region(bytes)?))
}

/// The same for bytes that nobody else needs.
pub(super) fn attach_owned(address: u64, mut bytes: Vec<u8>) -> Result<Found, AttachError> {
    bytes.truncate(region(&bytes)?.len());
    attach_to(address, bytes.into())
}

fn attach_to(address: u64, region: Aligned) -> Result<Found, AttachError> {
    let (buffer, salvage) = ReadOnlyTraceBuffer::attach_ended(region)?;
    Ok(Found {
        address,
        salvage,
        buffer,
        shared: None,
        unmarked: 0,
        lost_beside: 0,
        malformed: 0,
        others: Vec::new(),
    })
}

/// The part of these bytes that the region takes. Its ring may be cut off.
pub(super) fn region(bytes: &[u8]) -> Result<&[u8], AttachError> {
    let ring = RingView::place(bytes)?;
    if ring.start > bytes.len() {
        // Without the whole table, nothing tells whose the chunks are.
        return Err(AttachError::TooShort { needed: ring.end });
    }
    Ok(bytes.get(..ring.end).unwrap_or(bytes))
}

/// The result of [`Found::write_to`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Packets in the trace.
    pub packets: u64,
    /// Packets left out because no producer may write them or because they are too long for a trace.
    pub invalid_packets: u64,
    /// Chunks of [shared memory](super::SharedMemoryImage) that the buffer did not have completely, as
    /// [`bring_in`](Found::bring_in) counts them.
    pub brought_in: u64,
    /// Chunks that are gone: see [`Found::chunks_lost`]. The trace's statistics have them among those that break the
    /// rules.
    pub chunks_lost: u64,
}

impl Found {
    /// Puts into the buffer what its writers had finished in [shared memory](super::SharedMemoryImage) before it and
    /// was not yet moved, as the next start on the device does. Also returns how many chunks the buffer did not have
    /// completely.
    ///
    /// The ring becomes larger, so its statistics give another size, and keeps what it has, unless it is nearly 4 GiB or
    /// its table has no place for another sequence. A buffer that discards and was full takes nothing. After this,
    /// whatever still waits for more is given up. Cost: a copy of the region, and a commit for each chunk.
    pub fn bring_in(mut self) -> (Self, u64) {
        let Some(shared) = self.shared.take() else { return (self, 0) };
        self.lost_beside += shared.pages_overwritten;
        let malformed = self.buffer.stats().abi_violations;
        let memory = vec![0; self.buffer.grown_size(shared.room())];
        let Ok(ring) = self.buffer.grow(Aligned::from(memory)) else { return (self, 0) };
        let (ring, brought_in, refused) = shared.move_into(ring);
        // The ring's own counter has the others.
        self.lost_beside += refused;
        self.malformed = ring.stats().abi_violations.saturating_sub(malformed);
        (Self { buffer: ring.into_read_only(), ..self }, brought_in)
    }

    /// Chunks that are gone because the memory is cut or damaged, at least this many: those dropped from the ring, one
    /// for unreadable bytes, and what does not make sense in [shared memory](Self::shared), of which all is known once
    /// it was [brought in](Self::bring_in).
    pub fn chunks_lost(&self) -> u64 {
        self.lost_unknown_to_ring() + self.malformed
    }

    /// Those that the buffer's statistics do not have.
    pub(super) fn lost_unknown_to_ring(&self) -> u64 {
        let pages = self.shared.as_ref().map_or(0, |shared| shared.pages_overwritten);
        let unreadable = u64::from(self.salvage.bytes_unreadable > 0);
        u64::from(self.salvage.chunks_dropped()) + unreadable + pages + self.unmarked + self.lost_beside
    }

    /// Writes all packets, including those that are [brought in](Self::bring_in), and then the buffer's statistics into
    /// a trace file, which appears when it is complete.
    pub fn write_to(self, out: impl AsRef<Path>) -> io::Result<Recovered> {
        write_atomically(out.as_ref(), |file| self.write(TraceFile::new(file)))
    }

    fn write(self, mut file: TraceFile<impl Write>) -> io::Result<Recovered> {
        let buffer_size = self.buffer.stats().buffer_size;
        let (mut all, brought_in) = self.bring_in();
        let mut packets = 0;
        let mut reader = all.buffer.read();
        while let Some(packet) = reader.next_packet() {
            file.write_packet(&packet)?;
            packets += 1;
        }
        let sequences: Vec<SequenceInfo> = all.buffer.sequences().collect();
        // A ring is also offered what it already had and has since read or overwritten.
        let mut stats = all.buffer.stats().of_trace(all.buffer.policy());
        stats.buffer_size = buffer_size;
        stats.abi_violations = stats.abi_violations.saturating_add(all.lost_unknown_to_ring());
        let chunks_lost = all.chunks_lost();
        let invalid_packets = file.finish(Some((&stats, &sequences)))?;
        let packets = packets - invalid_packets.min(packets);
        Ok(Recovered { packets, invalid_packets, brought_in, chunks_lost })
    }
}
