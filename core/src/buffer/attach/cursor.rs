//! The write cursor of a region that was found.

use crate::buffer::region::{Mode, State};
use crate::buffer::ring::Items;
use crate::buffer::tb_chunk::{Flags, Item};

/// What the chunks' laps say.
struct Laps {
    /// The lap of the ring's first chunk: the one being written, if there are two.
    first: bool,
    /// Where the first chunk starts and the last one ends.
    start: u32,
    end: u32,
    /// Where the chunks of the first lap end and those of the other start.
    turn: Option<(u32, u32)>,
    /// Whether they change back, as they never do in a ring.
    is_broken: bool,
    /// Whether the place that the header names is inside a chunk.
    covers_hint: bool,
}

impl State<'_> {
    /// Finds the write cursor, by the chunks' laps: the header's may be off by a chunk.
    pub(super) fn place_cursor(&mut self) {
        let (used, hint) = (self.header.used.get(), self.header.write.get());
        let laps = self.laps(used, hint);
        let mut lap = self.header.mode().contains(Mode::LAP);
        let covered = laps.as_ref().is_some_and(|laps| laps.covers_hint);
        let sane = hint <= used && hint.is_multiple_of(4) && !covered;
        let between = |low, high, or| if sane && low <= hint && hint <= high { hint } else { or };
        let (size, there) = (self.header.ring_size(), self.ring.bytes().len());
        let write = match laps {
            _ if used < size && there == size as usize => used,
            Some(Laps { is_broken: false, turn: Some((low, high)), first, .. }) => {
                lap = first;
                between(low, high, low)
            }
            Some(Laps { is_broken: false, first, end, .. }) if first == lap => between(end, used, end),
            Some(Laps { is_broken: false, start, .. }) => between(0, start, 0),
            _ => between(0, used, 0),
        };
        self.header.write.set(write);
        self.split_gap(write, used);
        let mut mode = self.header.mode() & (Mode::FIXED | Mode::SEALED);
        mode.set(Mode::LAP, lap);
        if !mode.contains(Mode::DISCARD) {
            mode.remove(Mode::SEALED);
        }
        self.header.set_mode(mode);
        let (first_lap, write_at) = (used < size, u64::from(write));
        let known = if first_lap { write_at..=write_at } else { write_at..=u64::MAX / 2 };
        if !known.contains(&self.header.position.get()) {
            let lapped = u64::from(size).saturating_add(write_at);
            self.header.position.set(if first_lap { write_at } else { lapped });
        }
        // There are no leases yet that a copy in front of the cursor could have ended.
        self.header.touched.set(self.header.touched.get().min(self.header.position.get()));
        self.mark_laps(used, write, lap);
    }

    fn laps(&self, used: u32, hint: u32) -> Option<Laps> {
        let mut laps: Option<Laps> = None;
        let mut items = Items::of(0..used);
        while let Some(chunk) = items.next_chunk(&self.ring) {
            let (at, lap) = (chunk.offset, chunk.has(Flags::LAP));
            let next = at.checked_add(chunk.outer_size())?;
            let new =
                Laps { first: lap, start: at, end: at, turn: None, is_broken: false, covers_hint: false };
            let laps = laps.get_or_insert(new);
            if laps.turn.is_none() && lap != laps.first {
                laps.turn = Some((laps.end, at));
            }
            laps.is_broken |= laps.turn.is_some() && lap == laps.first;
            laps.covers_hint |= at < hint && hint < next;
            laps.end = next;
        }
        laps
    }

    /// Makes an item start at the write cursor.
    fn split_gap(&mut self, write: u32, used: u32) {
        let mut items = Items::of(0..write);
        while let Some((at, item)) = items.next(&self.ring) {
            let Some(next) = item.end_from(at) else { return };
            if next > write && write < used {
                let (head, tail) = (write.saturating_sub(at), next.saturating_sub(write));
                let part = |size| {
                    if matches!(item, Item::Padding(_)) { Item::Padding(size) } else { Item::Free(size) }
                };
                self.ring.set_gap(write, part(tail));
                self.ring.set_gap(at, part(head));
            }
        }
    }

    /// Marks the chunks before the cursor as of this lap, and those after it as of the lap before.
    fn mark_laps(&mut self, used: u32, write: u32, lap: bool) {
        let mut items = Items::of(0..used);
        while let Some(chunk) = items.next_chunk(&self.ring) {
            let mut flags = chunk.flags();
            flags.set(Flags::LAP, (chunk.offset < write) == lap);
            if flags != chunk.flags() {
                self.ring.set_flags(&chunk, flags);
            }
        }
    }
}
