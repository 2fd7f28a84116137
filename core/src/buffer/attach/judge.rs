//! Verdicts on chunks that were found: kept, mended or dropped.

use super::salvage::Cause;
use crate::buffer::change::{ChangeKind, Interrupted, checksum};
use crate::buffer::region::State;
use crate::buffer::repair::{Found, Mended};
use crate::buffer::sequence_state::SequenceState;
use crate::buffer::tb_chunk::{Flags, Stored};

/// What to do with a chunk.
pub(super) enum Verdict {
    Keep,
    /// It was being changed; with these fields it is sound.
    Mend(Mended),
    Drop(Cause),
}

impl State<'_> {
    pub(super) fn judge(&self, chunk: &Stored) -> Option<Verdict> {
        let Some(entry) = self.sequence(chunk.slot.get()).filter(|entry| entry.is_someone()) else {
            return Some(Verdict::Drop(Cause::NoSequence));
        };
        let Some(room) = chunk.room().checked_sub(self.header.checksum_size()) else {
            return Some(Verdict::Drop(Cause::Malformed));
        };
        if chunk.has(Flags::BUSY) {
            let mended = self.mend(chunk, entry, room).filter(|mended| self.agrees(chunk.offset, mended));
            return Some(mended.map_or(Verdict::Drop(Cause::Unfinished), Verdict::Mend));
        }
        let waits = Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        // A scraped chunk has these only as long as there is nothing in it.
        let scraped = chunk.has(Flags::INCOMPLETE) && chunk.valid.get() > 0;
        if chunk.valid.get() > room || chunk.read.get() > chunk.valid.get() || (scraped && chunk.has(waits)) {
            return Some(Verdict::Drop(Cause::Malformed));
        }
        let expected = || checksum(&self.ring, entry, chunk, chunk.flags(), chunk.valid.get());
        if self.header.checksum_size() > 0 && self.ring.checksum(chunk) != expected() {
            return Some(Verdict::Drop(Cause::Checksum));
        }
        let agrees = self.agrees(chunk.offset, &Mended::as_is(chunk));
        Some(if agrees { Verdict::Keep } else { Verdict::Drop(Cause::Malformed) })
    }

    /// Whether the payload of a chunk is what its fields say.
    fn agrees(&self, at: u32, fields: &Mended) -> bool {
        let payload = self.ring.payload(at, fields.valid);
        payload.is_some_and(|payload| Found::of(payload, fields.valid, fields.read).agrees_with(fields))
    }

    /// What was published of a chunk that was being changed.
    fn mend(&self, chunk: &Stored, entry: &SequenceState, room: u16) -> Option<Mended> {
        let at = chunk.offset;
        let change = Interrupted::of(chunk.links).filter(|change| change.from <= room)?;
        let expected = || checksum(&self.ring, entry, chunk, chunk.flags(), change.from);
        if self.header.checksum_size() > 0 && change.checksum != expected()? {
            return None;
        }
        let flags = chunk.flags() - Flags::BUSY;
        if change.kind != ChangeKind::Growth {
            let payload = self.ring.payload(at, chunk.valid.get().min(room))?;
            return Some(Mended::cut(chunk, &Found::of(payload, change.from, 0), Flags::TRUNCATED));
        }
        // Flags change last, so these are the old ones.
        let found = Found::of(self.ring.payload(at, change.from)?, change.from, 0);
        let read = chunk.read.get().min(change.from);
        Some(Mended { valid: change.from, read, packets: found.packets(flags), flags, cut: false })
    }
}
