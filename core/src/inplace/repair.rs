//! Regions of which something has damaged the header.

use core::cmp::Reverse;

use super::decode::{ChunkView, RegionView, is_sound};
use super::layout::{HEADER, MAGIC, header};
use super::words::Words;

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

impl RegionView<'_> {
    /// Whether its header was damaged, and is here as it must have been.
    pub fn is_repaired(&self) -> bool {
        self.is_repaired
    }

    /// How well its header goes with the rest: with the right one, nearly all chunks are as they should be, the ring is
    /// not larger than what is there, and the frequency is a round number.
    pub(super) fn likeness(&self) -> (usize, Reverse<(usize, usize)>, usize) {
        let is_right = |chunk: &ChunkView<'_>| {
            let sum = chunk.is_open() || chunk.is_intact().is_some() == self.has_sums();
            sum && self.has_writer(chunk.start(), chunk.writer())
                && chunk.records().all(|record| record.is_ok())
        };
        let tenths = core::iter::successors(Some(self.frequency()), |number| Some(number / 10)).take(10);
        let zeros = tenths.take_while(|number| number % 10 == 0).count();
        (self.chunks().filter(is_right).count(), Reverse((self.chunks_missing(), self.size())), zeros)
    }

    /// Whether there was such a start, and such a writer in it: damage may make a chunk look like that of another one.
    pub fn has_writer(&self, start: u32, writer: u32) -> bool {
        let starts = self.starts();
        // Of more starts than are told apart, all may be there; of earlier ones nobody knows how many writers they had.
        let is_start = starts >= 32 || (1..=starts).contains(&start);
        is_start && (start != starts & 31 || writer < self.header[header::WRITERS])
    }
}
