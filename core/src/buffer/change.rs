//! Crash-safe changes of a stored chunk: a crash costs no more than what was being changed.
//!
//! Meanwhile it is marked as busy, and its links, which can be rebuilt, hold what is needed to salvage it: `prev` says
//! from where on its payload is in doubt, and `next` is a checksum of what is before that, if chunks carry checksums.

use super::crc::Crc;
use super::region::State;
use super::ring::Ring;
use super::sequence_state::SequenceState;
use super::tb_chunk::{Flags, Links, Stored, TBChunk};
use super::words::Le32;

/// What happens to a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChangeKind {
    /// Bytes are added, or it turns out to be complete: until that is done it is what it was.
    Growth,
    /// Stored bytes change.
    Patch,
}

/// ChangeKind and place of a change that a crash cut short.
#[derive(Clone, Copy)]
pub(super) struct Interrupted {
    pub(super) kind: ChangeKind,
    /// The first byte of the payload in doubt.
    pub(super) from: u16,
    pub(super) checksum: u32,
}

const PATCH: u32 = 1 << 16;

impl Interrupted {
    /// What the links of a busy chunk say.
    pub(super) fn of(links: Links) -> Option<Self> {
        let word = links.prev.get();
        let kind = if word & PATCH == 0 { ChangeKind::Growth } else { ChangeKind::Patch };
        let known = word & !(PATCH | 0xFFFF) == 0;
        known.then_some(Self { kind, from: word as u16, checksum: links.next.get() })
    }
}

/// The checksum of a chunk whose first `valid` bytes count. It covers all that the header says, except momentary marks
/// (busy, lap), what was read, and numbers that follow from the payload.
pub(super) fn checksum(
    ring: &Ring<'_>,
    entry: &SequenceState,
    chunk: &Stored,
    flags: Flags,
    valid: u16,
) -> Option<u32> {
    let word = TBChunk::word_of(chunk.room(), flags - (Flags::BUSY | Flags::LAP));
    let ids = u32::from(entry.producer_id.get()) | (u32::from(entry.writer_id.get()) << 16);
    let fields = [ids, entry.uid.get(), entry.pid.get(), chunk.chunk_id.get(), word, u32::from(valid)];
    let crc = fields.iter().fold(Crc::new(), |crc, field| crc.with(&field.to_le_bytes()));
    Some(crc.with(ring.payload(chunk.offset, valid)?).value())
}

impl State<'_> {
    /// Writes the checksum of a chunk whose payload is in place: the last word of its room.
    #[inline(never)]
    pub(super) fn write_checksum(&mut self, chunk: &Stored, flags: Flags) -> Option<()> {
        let entry = self.table.get(usize::from(chunk.slot.get()))?;
        let value = checksum(&self.ring, entry, chunk, flags, chunk.valid.get())?;
        self.ring.set_checksum(chunk, value)
    }

    /// Marks a chunk whose payload, from `from` on, or whose header will change.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(super) fn begin_change(&mut self, chunk: &Stored, from: u16, kind: ChangeKind) -> Option<()> {
        let mut next = chunk.links.next;
        if self.header.checksum_size() > 0 {
            let entry = self.table.get(usize::from(chunk.slot.get()))?;
            next.set(checksum(&self.ring, entry, chunk, chunk.flags(), from)?);
        }
        let kind = if kind == ChangeKind::Patch { PATCH } else { 0 };
        self.ring.front_mut(chunk.offset)?.links = Links { prev: Le32::new(u32::from(from) | kind), next };
        self.ring.set_flags(chunk, chunk.flags() | Flags::BUSY);
        Some(())
    }

    /// Ends the change of a chunk that was `before`; it has these flags now.
    #[inline(never)]
    pub(super) fn end_change(&mut self, before: &Stored, flags: Flags) {
        if self.header.checksum_size() > 0
            && let Some(chunk) = self.ring.chunk(before.offset)
        {
            self.write_checksum(&chunk, flags);
        }
        // This ends the mark; only then may the links be links again.
        self.ring.set_flags(before, flags);
        if let Some(front) = self.ring.front_mut(before.offset) {
            front.links = before.links;
        }
    }
}
