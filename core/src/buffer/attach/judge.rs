//! Whether a chunk that was found is one.

use super::salvage::Cause;
use crate::buffer::change::{Interrupted, Kind, checksum};
use crate::buffer::frag_iterator::FragIterator;
use crate::buffer::region::State;
use crate::buffer::sequence_state::{SequenceState, Status};
use crate::buffer::tb_chunk::{Flags, Stored, TBChunk};

/// What to do with a chunk.
pub(super) enum Verdict {
    Keep,
    /// It was being changed; with these fields it is sound.
    Mend(Mended),
    Drop(Cause),
}

/// The fields of a chunk, made right where it was being changed.
#[derive(Clone, Copy)]
pub(super) struct Mended {
    pub(super) valid: u16,
    pub(super) read: u16,
    pub(super) packets: u16,
    pub(super) flags: Flags,
    /// Bytes that had been there are given up.
    pub(super) cut: bool,
}

impl SequenceState {
    /// Whether this can be a sequence.
    pub(super) fn is_someone(&self) -> bool {
        self.has(Status::IN_USE) && (self.producer_id.get() != 0 || self.writer_id.get() != 0)
    }
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
        let checked = self.header.checksum_size() > 0;
        if checked && self.ring.checksum(chunk) != self.checksum(chunk, entry, chunk.valid.get()) {
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

    fn checksum(&self, chunk: &Stored, entry: &SequenceState, valid: u16) -> Option<u32> {
        checksum(&self.ring, entry, chunk, chunk.flags(), valid)
    }

    /// What was published of a chunk that was being changed.
    fn mend(&self, chunk: &Stored, entry: &SequenceState, room: u16) -> Option<Mended> {
        let at = chunk.offset;
        let change = Interrupted::of(chunk.links).filter(|change| change.from <= room)?;
        if self.header.checksum_size() > 0 && change.checksum != self.checksum(chunk, entry, change.from)? {
            return None;
        }
        let flags = chunk.flags() - Flags::BUSY;
        if change.kind != Kind::Growth {
            let payload = self.ring.payload(at, chunk.valid.get().min(room))?;
            return Some(Mended::cut(chunk, &Found::of(payload, change.from, 0), Flags::TRUNCATED));
        }
        // Flags change last, so these are the old ones.
        let found = Found::of(self.ring.payload(at, change.from)?, change.from, 0);
        let read = chunk.read.get().min(change.from);
        Some(Mended { valid: change.from, read, packets: found.packets(flags), flags, cut: false })
    }

    /// A chunk to which nothing will come any more: packets wait neither for its patches nor for the rest of it.
    /// `None` if none did.
    pub(super) fn closed(&self, chunk: &Stored) -> Option<Mended> {
        let valid = chunk.valid.get();
        let found = |until| Some(Found::of(self.ring.payload(chunk.offset, valid)?, until, 0));
        if chunk.has(Flags::INCOMPLETE) && self.sequence(chunk.slot.get())?.last() != chunk.offset {
            // Its writer went on, so there was more in it.
            let mut closed = Mended::cut(chunk, &found(valid)?, Flags::TRUNCATED);
            closed.flags -= Flags::INCOMPLETE;
            return Some(closed);
        }
        if !chunk.has(Flags::NEEDS_PATCHING) {
            return None;
        }
        if valid == 0 || !chunk.has(Flags::CONTINUES_ON_NEXT) {
            // Only a packet that goes on in the next chunk waits.
            return Some(Mended { flags: chunk.flags() - Flags::NEEDS_PATCHING, ..Mended::as_is(chunk) });
        }
        // All but the last fragment.
        Some(Mended::cut(chunk, &found(valid.saturating_sub(1))?, Flags::ABORTED))
    }
}

impl Mended {
    /// A chunk as it is.
    fn as_is(chunk: &TBChunk) -> Self {
        let (valid, read, packets) = (chunk.valid.get(), chunk.read.get(), chunk.packets.get());
        Mended { valid, read, packets, flags: chunk.flags(), cut: false }
    }

    /// A chunk that ends behind the fragments found.
    fn cut(chunk: &Stored, found: &Found, mark: Flags) -> Self {
        let ends = Flags::BUSY | Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        let mut flags = (chunk.flags() - ends) | mark;
        flags.set(Flags::SINGLE, found.frags == 1);
        flags.set(Flags::EMPTY_LAST, found.last_is_empty);
        let read = chunk.read.get().min(found.end);
        Mended { valid: found.end, read, packets: found.packets(flags), flags, cut: true }
    }
}

/// What a payload turns out to hold.
struct Found {
    /// Where its last fragment ends.
    end: u16,
    frags: u32,
    /// Fragments that are not empty.
    filled: u32,
    first_is_empty: bool,
    last_is_empty: bool,
    /// Nothing is behind the last fragment.
    whole: bool,
    /// Some fragment starts where reading is to go on, or all was read.
    read_fits: bool,
}

impl Found {
    /// Looks at the fragments that end at `until` or before.
    fn of(payload: &[u8], until: u16, read: u16) -> Self {
        let mut frags = FragIterator::new(payload, 0);
        let mut found = Self {
            end: 0,
            frags: 0,
            filled: 0,
            first_is_empty: true,
            last_is_empty: false,
            whole: false,
            read_fits: read == 0,
        };
        while usize::from(found.end) < payload.len() {
            let Some(frag) = frags.next_frag() else { break };
            if frag.end() > until {
                break;
            }
            found.last_is_empty = frag.size == 0;
            if found.frags == 0 {
                found.first_is_empty = found.last_is_empty;
            }
            found.frags = found.frags.wrapping_add(1);
            found.filled = found.filled.wrapping_add(u32::from(!found.last_is_empty));
            found.end = frag.end();
            found.read_fits |= read == frag.end();
        }
        found.whole = usize::from(found.end) == payload.len();
        found
    }

    /// Non-empty whole packets.
    fn packets(&self, flags: Flags) -> u16 {
        let end = flags.contains(Flags::CONTINUES_FROM_PREVIOUS) && self.frags > 0;
        let begin = flags.contains(Flags::CONTINUES_ON_NEXT) && self.frags > 0 && !(end && self.frags == 1);
        let others = u32::from(end && !self.first_is_empty) + u32::from(begin && !self.last_is_empty);
        self.filled.saturating_sub(others) as u16
    }

    fn agrees_with(&self, fields: &Mended) -> bool {
        if fields.flags.contains(Flags::PATCHED) {
            // A patch may put anything into a size; reading finds out, from where it was on.
            return self.read_fits || fields.read == fields.valid;
        }
        self.whole
            && self.read_fits
            && fields.packets == self.packets(fields.flags)
            && fields.flags.contains(Flags::SINGLE) == (self.frags == 1)
            && fields.flags.contains(Flags::EMPTY_LAST) == self.last_is_empty
    }
}
