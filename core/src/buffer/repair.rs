//! Repair of a chunk that its writer did not end, from what its payload holds.

use super::frag_iterator::FragIterator;
use super::tb_chunk::{Flags, Stored, TBChunk};

/// The fields of a chunk, corrected where it was being changed.
#[derive(Clone, Copy)]
pub(super) struct Mended {
    pub(super) valid: u16,
    pub(super) read: u16,
    pub(super) packets: u16,
    pub(super) flags: Flags,
    /// Whether bytes that were there are given up.
    pub(super) cut: bool,
}

impl Mended {
    /// A chunk as it is.
    pub(super) fn as_is(chunk: &TBChunk) -> Self {
        let (valid, read, packets) = (chunk.valid.get(), chunk.read.get(), chunk.packets.get());
        Mended { valid, read, packets, flags: chunk.flags(), cut: false }
    }

    /// Writes these fields, except the flags, into the header: storing those publishes the change.
    pub(super) fn put_into(&self, chunk: &mut TBChunk) {
        chunk.valid.set(self.valid);
        chunk.read.set(self.read);
        chunk.packets.set(self.packets);
    }

    /// A chunk that ends after the fragments found.
    pub(super) fn cut(chunk: &Stored, found: &Found, mark: Flags) -> Self {
        let ends = Flags::BUSY | Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        let mut flags = (chunk.flags() - ends) | mark;
        flags.set(Flags::SINGLE, found.frags == 1);
        flags.set(Flags::EMPTY_LAST, found.last_is_empty);
        let read = chunk.read.get().min(found.end);
        Mended { valid: found.end, read, packets: found.packets(flags), flags, cut: true }
    }
}

/// What a payload turns out to hold.
#[derive(Default)]
pub(super) struct Found {
    /// Where its last fragment ends.
    end: u16,
    frags: u32,
    /// Fragments that are not empty.
    filled: u32,
    first_is_empty: bool,
    last_is_empty: bool,
    /// Whether nothing follows the last fragment.
    pub(super) whole: bool,
    /// Whether a fragment starts where reading goes on, or all was read.
    read_fits: bool,
}

impl Found {
    /// Looks at the fragments that end at `until` or before.
    pub(super) fn of(payload: &[u8], until: u16, read: u16) -> Self {
        let mut frags = FragIterator::new(payload, 0);
        let mut found = Self { first_is_empty: true, read_fits: read == 0, ..Self::default() };
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
    pub(super) fn packets(&self, flags: Flags) -> u16 {
        let end = flags.contains(Flags::CONTINUES_FROM_PREVIOUS) && self.frags > 0;
        let begin = flags.contains(Flags::CONTINUES_ON_NEXT) && self.frags > 0 && !(end && self.frags == 1);
        let others = u32::from(end && !self.first_is_empty) + u32::from(begin && !self.last_is_empty);
        self.filled.saturating_sub(others) as u16
    }

    pub(super) fn agrees_with(&self, fields: &Mended) -> bool {
        if fields.flags.contains(Flags::PATCHED) {
            // A patch may put anything into a size; reading finds out, from where it goes on.
            return self.read_fits || fields.read == fields.valid;
        }
        self.whole
            && self.read_fits
            && fields.packets == self.packets(fields.flags)
            && fields.flags.contains(Flags::SINGLE) == (self.frags == 1)
            && fields.flags.contains(Flags::EMPTY_LAST) == self.last_is_empty
    }
}
