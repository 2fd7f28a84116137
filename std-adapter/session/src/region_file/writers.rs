//! The table of writers: which of them writes to which buffer, for shared memory in a file.
//!
//! Each writer has a few words of eight bytes, the oldest first: a buffer, and the first chunk that is for it. There is
//! more than one only while shared memory holds chunks of an earlier writer of the same number for another buffer.

/// Words for each writer; beyond that the oldest is forgotten.
pub(super) const ENTRIES: usize = 4;

/// Buffer in the lower 16 bits, the first chunk's number in the upper 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    pub(super) const NONE: Self = Self(0);
    const IS_THERE: u64 = 1 << 16;
    const FROM_THE_FIRST: u64 = 1 << 17;

    /// All chunks are for this buffer.
    pub(super) const fn all(target: u16) -> Self {
        Self(target as u64 | Self::IS_THERE | Self::FROM_THE_FIRST)
    }

    /// The chunks after this one are.
    pub(super) const fn behind(chunk_id: u32, target: u16) -> Self {
        Self(target as u64 | Self::IS_THERE | (chunk_id.wrapping_add(1) as u64) << 32)
    }

    pub(super) fn target(self) -> Option<u16> {
        (self.0 & Self::IS_THERE != 0).then_some(self.0 as u16)
    }

    fn has(self, chunk_id: u32) -> bool {
        let first = (self.0 >> 32) as u32;
        self.0 & Self::FROM_THE_FIRST != 0 || chunk_id.wrapping_sub(first) as i32 >= 0
    }
}

/// The buffer that a chunk of the writer with these words is for, if known.
pub(super) fn target_of(entries: &[Entry], chunk_id: u32) -> Option<u16> {
    let there = entries.iter().rev().filter(|entry| entry.target().is_some());
    there.copied().find(|entry| entry.has(chunk_id)).and_then(Entry::target)
}

/// The words to write, in order and with their places, when a writer begins whose number another one had: so that a
/// kill between two of them leaves nothing wrong. `newest` finds that number's newest chunk.
pub(super) fn changes(
    entries: [Entry; ENTRIES],
    target: u16,
    newest: impl FnOnce() -> Option<u32>,
) -> impl Iterator<Item = (usize, Entry)> {
    let last = entries.iter().rposition(|entry| entry.target().is_some());
    let is_same = last.and_then(|last| entries.get(last)).and_then(|last| last.target()) == Some(target);
    let mut after = entries;
    let mut places = [0, 1, 2, 3];
    match last.filter(|_| !is_same).and_then(|last| Some((last, newest()?))) {
        _ if is_same => {}
        Some((last, newest)) => {
            let mut next = last + 1;
            if next == ENTRIES {
                after.rotate_left(1);
                next = last;
            }
            if let Some(next) = after.get_mut(next) {
                *next = Entry::behind(newest, target);
            }
        }
        // No chunk could be looked up. The last place comes first, because the last word that is there counts.
        None => {
            after = [Entry::all(target), Entry::NONE, Entry::NONE, Entry::NONE];
            places.reverse();
        }
    }
    places.into_iter().filter_map(move |place| {
        let (before, after) = (entries.get(place)?, after.get(place)?);
        (before != after).then_some((place, *after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers of one number, one after the other, with the newest chunk that the one before has left.
    fn after(writers: &[(u16, Option<u32>)]) -> [Entry; ENTRIES] {
        let mut entries = [Entry::NONE; ENTRIES];
        for (target, newest) in writers {
            for (place, entry) in changes(entries, *target, || *newest) {
                entries[place] = entry;
            }
        }
        entries
    }

    #[test]
    fn chunks_are_for_the_buffer_of_the_writer_that_wrote_them() {
        let targets = |writers: &[_]| [4, 5, 6, 9, 10].map(|chunk_id| target_of(&after(writers), chunk_id));
        assert_eq!(targets(&[]), [None; 5]);
        assert_eq!(targets(&[(3, None)]), [Some(3); 5]);
        assert_eq!(targets(&[(3, None), (3, Some(5))]), [Some(3); 5], "it goes on");
        assert_eq!(targets(&[(3, None), (7, None)]), [Some(7); 5], "all were taken");
        let two = [(3, None), (7, Some(5))];
        assert_eq!(targets(&two), [Some(3), Some(3), Some(7), Some(7), Some(7)]);
        let three = [(3, None), (7, Some(5)), (3, Some(9))];
        assert_eq!(targets(&three), [Some(3), Some(3), Some(7), Some(7), Some(3)]);
        assert_eq!(targets(&[(3, None), (7, Some(5)), (1, None)]), [Some(1); 5]);
        // One word more than there is room for: the oldest is forgotten, not taken for another's.
        let five = [(3, None), (7, Some(4)), (3, Some(5)), (7, Some(6)), (2, Some(9))];
        assert_eq!(targets(&five), [None, Some(7), Some(3), Some(7), Some(2)]);
    }

    #[test]
    fn behind_the_last_number_comes_0() {
        let entries = after(&[(3, None), (7, Some(u32::MAX - 1))]);
        let targets = [u32::MAX - 1, u32::MAX, 0, 1].map(|chunk_id| target_of(&entries, chunk_id));
        assert_eq!(targets, [Some(3), Some(7), Some(7), Some(7)]);
    }

    #[test]
    fn killed_in_between_no_chunk_is_taken_for_another_buffer_s() {
        let before = after(&[(3, None), (7, Some(4)), (3, Some(5)), (7, Some(6))]);
        let whole = [4, 5, 6, 7].map(|chunk_id| target_of(&before, chunk_id));
        for stop in 0..=ENTRIES {
            let mut entries = before;
            for (place, entry) in changes(before, 2, || Some(9)).take(stop) {
                entries[place] = entry;
            }
            for (chunk_id, expected) in (4..).zip(whole) {
                let found = target_of(&entries, chunk_id);
                assert!(found == expected || found.is_none(), "chunk {chunk_id}, {stop}: {found:?}");
            }
        }
        let before = after(&[(3, None), (7, Some(4))]);
        for stop in 0..=ENTRIES {
            let mut entries = before;
            for (place, entry) in changes(before, 2, || None).take(stop) {
                entries[place] = entry;
            }
            // There is no chunk; and the new writer's are written after all of it.
            assert!(stop < 2 || target_of(&entries, 9) == Some(2));
        }
    }
}
