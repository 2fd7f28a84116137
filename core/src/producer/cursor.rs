//! `Cursor`: a writer's place in its chunk, written to in whole 32-bit words.

use super::atomics::{AtomicU32, Ordering};
use super::chunk_header::SmbChunkHeader;
use crate::SMALL;

/// Where a writer stands in its chunk. Nothing is written past the chunk's end. A word that is not full yet is loaded
/// again when more comes: cores forward it from their store buffer.
pub(crate) struct Cursor<'a> {
    /// The chunk, its header included.
    words: &'a [AtomicU32],
    /// Bytes from the start of the chunk.
    pos: usize,
}

/// Up to this many words are stored one after the other, more in a loop: on microcontrollers that is half the code.
const UNROLLED: usize = if SMALL { 5 } else { 8 };

#[inline]
pub(crate) fn load(words: &[AtomicU32], index: usize) -> u32 {
    words.get(index).map_or(0, |w| u32::from_le(w.load(Ordering::Relaxed)))
}

#[inline]
fn store(words: &[AtomicU32], index: usize, value: u32) {
    if let Some(w) = words.get(index) {
        w.store(value.to_le(), Ordering::Relaxed);
    }
}

/// The bits of a word below a byte's position, how far a value moves to get there, and what part of the moved value
/// goes into the next word.
#[inline]
fn split(value: u32, pos: usize) -> (u32, u32, u32) {
    let shift = (pos % 4 * 8) as u32;
    let below = (1 << shift) - 1;
    if !SMALL {
        let moved = u64::from(value) << shift;
        return (below, moved as u32, (moved >> 32) as u32);
    }
    // In two steps: there is no shift by 32.
    (below, value << shift, value >> 1 >> (31 - shift))
}

/// At most four bytes as the low ones of a word.
pub(crate) fn word_of(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Stores words at the byte `pos`, which is in the first of `place`, as far as there is room.
#[inline(always)]
fn shift_into(place: &[AtomicU32], words: &[u32], pos: usize) {
    let mut carry = load(place, 0) & split(0, pos).0;
    for (to, word) in place.iter().zip(words) {
        let (_, here, next) = split(*word, pos);
        to.store((carry | here).to_le(), Ordering::Relaxed);
        carry = next;
    }
}

/// Fills a four-byte size field at any offset, with the chunk's owner as the only writer.
#[inline(never)]
pub(crate) fn fill_size(words: &[AtomicU32], field: usize, size: u32) {
    Cursor { words, pos: field }.put(redundant_varint(size), 4);
}

/// The varint of less than 2²¹, and its length.
#[cfg_attr(not(tracebuf_small), inline)]
pub(crate) fn short_varint(value: u32) -> (u32, usize) {
    let first = value & 0x7F;
    match value {
        0..0x80 => (first, 1),
        0x80..0x4000 => (first | 0x80 | value >> 7 << 8, 2),
        _ => (first | 0x8080 | value << 1 & 0x7F00 | value >> 14 << 16, 3),
    }
}

/// A varint, and its length.
#[inline]
pub(crate) fn varint_words(value: u64) -> ([u32; 3], usize) {
    if value < 1 << 21 {
        let (word, len) = short_varint(value as u32);
        return ([word, 0, 0], len);
    }
    let len = (70 - (value | 1).leading_zeros() as usize) / 7;
    let word = |index: usize| {
        // All bytes but the last say that there are more.
        let more = (len - 1).saturating_sub(4 * index).min(4);
        spread((value >> (28 * index)) as u32) | 0x8080_8080 & ((1_u64 << (8 * more)) - 1) as u32
    };
    ([word(0), word(1), word(2)], len)
}

/// Seven bits in each byte.
#[inline(always)]
const fn spread(value: u32) -> u32 {
    (value & 0x7F) | (value >> 7 & 0x7F) << 8 | (value >> 14 & 0x7F) << 16 | (value >> 21 & 0x7F) << 24
}

/// `size` as the redundant four-byte varint of size fields, in little-endian order.
#[cfg_attr(not(tracebuf_small), inline)]
#[cfg_attr(tracebuf_small, inline(never))]
pub(crate) const fn redundant_varint(size: u32) -> u32 {
    spread(size) | 0x0080_8080
}

impl<'a> Cursor<'a> {
    /// In no chunk: without room.
    pub(crate) const NONE: Self = Cursor { words: &[], pos: 0 };

    /// At the start of a chunk's payload.
    pub(crate) const fn new(words: &'a [AtomicU32]) -> Self {
        Cursor { words, pos: SmbChunkHeader::SIZE }
    }

    /// At a byte of a chunk.
    #[cfg(not(tracebuf_small))]
    pub(super) const fn at(words: &'a [AtomicU32], pos: usize) -> Self {
        Cursor { words, pos }
    }

    #[inline]
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    #[inline]
    pub(crate) fn room(&self) -> usize {
        (self.words.len() * 4).wrapping_sub(self.pos)
    }

    /// Appends the `len` low bytes (at most 4) of `value`, whose other bytes are zero. There is room.
    ///
    /// The bytes before them in the same word and, in a second one, after them stay as they are.
    #[cfg_attr(not(tracebuf_small), inline(always))]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(crate) fn put(&mut self, value: u32, len: usize) {
        let (index, (below, here, next)) = (self.pos / 4, split(value, self.pos));
        store(self.words, index, load(self.words, index) & below | here);
        if self.pos % 4 + len > 4 {
            store(self.words, index + 1, load(self.words, index + 1) & !below | next);
        }
        self.pos += len;
    }

    /// Appends the first `len` bytes of `words`, which has three bytes more. There is room; what is beyond them in the
    /// chunk is lost.
    #[inline]
    pub(crate) fn put_words<const N: usize>(&mut self, words: [u32; N], len: usize) {
        let index = self.pos / 4;
        let place = self.words.get(index..index + N).and_then(<[_]>::first_chunk::<N>);
        let Some(place) = place.filter(|_| N <= UNROLLED) else {
            // A copy: as long as nothing points to them, the words are in registers.
            return self.put_slice(&{ words }, len);
        };
        shift_into(place, &words, self.pos);
        self.pos += len;
    }

    /// Like [`put_words`](Self::put_words), for any number of words, up to the chunk's end, but slower.
    #[inline(never)]
    pub(crate) fn put_slice(&mut self, words: &[u32], len: usize) {
        let place = self.words.get(self.pos / 4..).unwrap_or_default();
        shift_into(place, words, self.pos);
        self.pos += len;
    }

    /// Appends as many bytes as there is room for, and returns the others. What is beyond them in the chunk is lost.
    #[cfg(not(tracebuf_small))]
    pub(crate) fn put_bytes<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (here, others) = bytes.split_at_checked(self.room()).unwrap_or((bytes, &[]));
        let (fours, rest) = here.as_chunks::<4>();
        let last = match here.last_chunk::<4>() {
            // Without a look at each of its bytes.
            Some(four) => (u64::from(u32::from_le_bytes(*four)) << (rest.len() * 8) >> 32) as u32,
            None => word_of(rest),
        };
        let place = self.words.get(self.pos / 4..).unwrap_or_default();
        let (body, end) = place.split_at_checked(fours.len()).unwrap_or((place, &[]));
        let mut carry = load(place, 0) & split(0, self.pos).0;
        for (to, four) in body.iter().zip(fours) {
            let (_, here, next) = split(u32::from_le_bytes(*four), self.pos);
            to.store((carry | here).to_le(), Ordering::Relaxed);
            carry = next;
        }
        let (_, last, next) = split(last, self.pos);
        store(end, 0, carry | last);
        store(end, 1, next);
        self.pos += here.len();
        others
    }

    /// Goes back to an earlier position.
    pub(crate) fn rewind(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Fills a four-byte size field written before.
    pub(crate) fn fill_size(&mut self, field: usize, size: u32) {
        fill_size(self.words, field, size);
    }

    /// Replaces the four-byte size field at `field` by the one byte `size`. What follows moves three bytes back: a word
    /// of it is always the same bytes of two others.
    pub(crate) fn compact(&mut self, field: usize, size: u32) {
        self.pos = self.pos.saturating_sub(3);
        let (below, here, _) = split(size, field);
        let mut index = field / 4;
        let mut word = load(self.words, index);
        // In the first word, all up to the size stays.
        let mut kept = word & below | here;
        let mut moved = !below << 8;
        loop {
            let next = load(self.words, index + 1);
            store(self.words, index, kept | (word >> 24 | next << 8) & moved);
            (kept, moved) = (0, !0);
            word = next;
            index += 1;
            if index * 4 >= self.pos {
                break;
            }
        }
    }

    /// Moves what was written from the byte `from` on, which is not among the first ones, by `by` bytes, at most 8: to
    /// where there is room. What lies between must then be written, and up to three bytes after it are lost.
    #[cfg(not(tracebuf_small))]
    pub(crate) fn make_place(&mut self, from: usize, by: usize) {
        let end = self.pos + by;
        let (first, below) = ((from + by) / 4, split(0, from + by).0);
        // From the end on: nothing is written over before it was moved. A word is always the same bytes of two others.
        for index in (first..end.div_ceil(4)).rev() {
            let source = index.saturating_sub(by.div_ceil(4));
            let [low, high] = [source, source + 1].map(|index| u64::from(load(self.words, index)));
            let moved = ((low | high << 32) >> (by.wrapping_neg() % 4 * 8)) as u32;
            let kept = if index == first { below } else { 0 };
            store(self.words, index, load(self.words, index) & kept | moved & !kept);
        }
        self.pos = end;
    }

    /// Fills a size field of one byte that is 0.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(crate) fn fill_short_size(&self, field: usize, size: u32) {
        let word = load(self.words, field / 4);
        store(self.words, field / 4, word | size << (field % 4 * 8));
    }

    /// Leaves out the last `words` words of the chunk, and returns all of its words.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(crate) fn leave_out(&mut self, words: usize) -> &'a [AtomicU32] {
        let (all, most) = (self.words, self.words.len().saturating_sub(words));
        self.words = all.get(..most).unwrap_or_default();
        all
    }

    /// Goes on in all of the chunk's words.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(crate) fn take_in(&mut self, words: &'a [AtomicU32]) {
        self.words = words;
    }

    /// Counts one more fragment in the header; all before it are there. False if it counts `most` already.
    #[inline]
    pub(crate) fn count_fragment(&self, most: u16) -> bool {
        let count = load(self.words, 1);
        if count >> 16 & u32::from(SmbChunkHeader::MAX_FRAGMENTS) >= u32::from(most) {
            return false;
        }
        if let Some(w) = self.words.get(1) {
            w.store(count.wrapping_add(1 << 16).to_le(), Ordering::Release);
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
