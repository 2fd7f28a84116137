//! A region's header: as it is, and as it must have been before something damaged it.

use super::layout::{HEADER, MAGIC, NameWord, SUMS, VERSION, check, header};
use super::words::Words;

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
