//! A region's header: as it is, and as it must have been before something damaged it.

use super::layout::{HEADER, MAGIC, NameWord, SUMS, VERSION, check, header};
use super::words::Words;

/// What a region's header says: [`RegionView`](super::RegionView) and [`Hello`](super::Hello) have one.
#[derive(Clone, Copy, Debug)]
pub struct HeaderView(pub(super) [u32; HEADER]);

impl HeaderView {
    /// The timer's ticks per second; 0 if the device gave none.
    pub fn frequency(&self) -> u32 {
        self.0[header::FREQUENCY]
    }

    /// How many starts have recorded, this one included. 1: nothing was kept, so names are other ones.
    pub fn starts(&self) -> u32 {
        self.0[header::STARTS]
    }

    /// Events that found no place, in all starts.
    pub fn dropped(&self) -> u32 {
        self.0[header::DROPPED]
    }

    /// How often a name found no place in the table.
    pub fn unnamed(&self) -> u32 {
        self.0[header::UNNAMED]
    }

    /// Whether complete chunks have [sums](super::ChunkView::is_intact).
    pub fn has_sums(&self) -> bool {
        self.0[header::TEXT] & SUMS != 0
    }

    /// The [build](super::Name::build) whose linker numbered the names of a start, given modulo 32. `None`: nobody knows. It
    /// recorded no such name, or there were two other builds since.
    pub fn build(&self, start: u32) -> Option<u32> {
        let word = |at: usize| self.0[at % HEADER];
        let start = self.starts().checked_sub(self.starts().wrapping_sub(start) & 31)?;
        let build = if start >= word(header::BUILD_SINCE) {
            word(header::BUILD)
        } else if start >= word(header::BEFORE_SINCE) {
            word(header::BUILD_BEFORE)
        } else {
            0
        };
        Some(build).filter(|build| *build != 0)
    }

    /// The binary logarithm of a size: 1 for words of a chunk, 2 for chunks, 3 for names.
    pub(super) fn log(&self, byte: u32) -> u32 {
        self.0[header::GEOMETRY] >> (8 * byte) & 0xFF
    }
}

/// A region's header, if it is one of this version.
pub(super) fn header_of(words: Words<'_>) -> Option<[u32; HEADER]> {
    if words.get(header::MAGIC)? != MAGIC {
        return None;
    }
    let mut header = [0; HEADER];
    for (index, word) in header.iter_mut().enumerate() {
        *word = words.get(index)?;
    }
    is_sound(&header).then_some(header)
}

/// Whether a header is one of this version.
pub(super) fn is_sound(header: &[u32; HEADER]) -> bool {
    let (geometry, text) = (header[header::GEOMETRY], header[header::TEXT]);
    let [version, chunk, chunks, names] = geometry.to_le_bytes();
    u32::from(version) == VERSION
        && (5..=7).contains(&chunk)
        && (2..=15).contains(&chunks)
        && names <= 10
        && (text & !SUMS) < NameWord::NO_TEXT
        && header[header::CHECK] == check(geometry, text, header[header::FREQUENCY])
}

/// What a region's header may have been, judging by what is left: one bit of the words that its check is of is another
/// one, or the first word is gone.
pub(super) fn repaired(words: Words<'_>) -> impl Iterator<Item = [u32; HEADER]> {
    let mut header = [0; HEADER];
    let read = header.iter_mut().enumerate().all(|(at, to)| words.get(at).map(|word| *to = word).is_some());
    let changed = (header[header::MAGIC] ^ MAGIC).count_ones();
    header[header::MAGIC] = MAGIC;
    // Without the first word, more of them would be right by chance too often.
    let may_differ = if read && changed <= 1 { header::GEOMETRY..header::CHECK + 1 } else { 0..0 };
    let bits = may_differ.flat_map(|word| (0..32).map(move |bit| (word % HEADER, 1 << bit)));
    let others = bits.map(move |(word, bit)| {
        let mut other = header;
        other[word] ^= bit;
        other
    });
    core::iter::once(header).filter(move |_| read).chain(others).filter(is_sound)
}
