//! `FragIterator`: the fragments of a chunk's payload.

use super::tb_chunk::{Flags, TBChunk};
use crate::SMALL;
use crate::proto::varint::{self, ABORTED_SIZE};
use crate::steps::step;

/// A fragment, as places in its chunk's payload; `start` is after the size field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frag {
    pub(super) start: u16,
    pub(super) size: u16,
}

impl Frag {
    #[inline]
    pub(super) fn end(self) -> u16 {
        self.start.wrapping_add(self.size)
    }
}

/// The fragments of a payload one after the other. It trusts nothing and changes nothing.
#[derive(Clone)]
pub(super) struct FragIterator<'p> {
    payload: &'p [u8],
    rest: &'p [u8],
}

impl<'p> FragIterator<'p> {
    /// Starts at `at`, which must be where a fragment starts; the payload has at most 65,535 bytes.
    #[inline]
    pub(super) fn new(payload: &'p [u8], at: u16) -> Self {
        Self { payload, rest: payload.get(usize::from(at)..).unwrap_or_default() }
    }

    /// Where the next fragment starts, its size field included.
    #[inline]
    pub(super) fn position(&self) -> u16 {
        self.payload.len().wrapping_sub(self.rest.len()) as u16
    }

    /// The next fragment. `None` after the last one, and if its size field or its bytes leave the payload.
    #[inline(always)]
    pub(super) fn next_frag(&mut self) -> Option<Frag> {
        let start = self.skip()?;
        Some(Frag { start, size: self.position().wrapping_sub(start) })
    }

    /// Steps over the next fragment and returns where its first byte is.
    #[inline(always)]
    fn skip(&mut self) -> Option<u16> {
        step();
        let (size, header) = size_field(self.rest);
        let start = self.position().wrapping_add(header as u16);
        self.rest = self.rest.get((size as usize).wrapping_add(header)..)?;
        Some(start)
    }

    /// The next fragment's size field and what lies behind it, and all fragments after it, if its size is one byte and
    /// not 0, and it is surely not the last.
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<(&'p [u8; PEEKED], Self)> {
        step();
        let head: &[u8; PEEKED] = self.rest.first_chunk()?;
        let [size @ 1..=0x7F, ..] = *head else { return None };
        let size = usize::from(size) + 1;
        if size >= self.rest.len() {
            return None;
        }
        Some((head, Self { payload: self.payload, rest: self.rest.get(size..)? }))
    }

    /// Whether the writer gave up the packet that comes next. To be called when there is no next fragment.
    #[inline]
    fn is_aborted(&self) -> bool {
        size_field(self.rest).0 == ABORTED_SIZE
    }

    /// Whether nothing is left.
    #[inline(always)]
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that the fragments lie in.
    #[inline]
    pub(super) fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// The bytes of the fragment just taken.
    #[inline(always)]
    pub(super) fn bytes_of(&self, frag: Frag) -> Option<&'p [u8]> {
        self.payload.get(usize::from(frag.start)..usize::from(frag.end()))
    }

    /// Whether what is left might be nothing, or nothing but empty fragments: one quick look.
    #[inline]
    pub(super) fn may_be_over(&self) -> bool {
        self.rest.first().is_none_or(|byte| byte & 0x7F == 0)
    }

    /// Where the fragment just taken from a chunk ends. Trailing empty ones go with it, so that a chunk read to the
    /// end counts as read.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(always))]
    pub(super) fn end_before(&self, chunk: &TBChunk) -> u16 {
        if self.only_empty_left() && !chunk.has(Flags::CONTINUES_ON_NEXT) {
            chunk.valid.get()
        } else {
            self.position()
        }
    }

    /// Whether nothing but empty fragments is left.
    #[inline]
    fn only_empty_left(&self) -> bool {
        let mut rest = self.clone();
        while !rest.rest.is_empty() {
            if !rest.may_be_over() || rest.next_frag().is_none_or(|frag| frag.size > 0) {
                return false;
            }
        }
        true
    }
}

/// How many bytes of a fragment are peeked at, its size field among them.
pub(super) const PEEKED: usize = 16;

/// More than any chunk has room for: the size where there is no size field, or one whose size has more than 28 bits.
const TOO_LARGE: u32 = ABORTED_SIZE + 1;

/// The size field at the start of `bytes`: the size, at most [`TOO_LARGE`], and the bytes of the field itself.
#[cfg_attr(not(tracebuf_small), inline(always))]
#[cfg_attr(tracebuf_small, inline(never))]
pub(super) fn size_field(bytes: &[u8]) -> (u32, usize) {
    if !SMALL && let Some(&[low, high]) = bytes.first_chunk() {
        if low < 0x80 {
            return (u32::from(low), 1);
        }
        if high < 0x80 {
            return (u32::from(low & 0x7F) | (u32::from(high) << 7), 2);
        }
    }
    // Four bytes: as writers leave it at packets of 127 bytes and more, and where a packet spans several chunks.
    if !SMALL
        && let Some(word) = bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
        && word & 0x8080_8080 == 0x0080_8080
    {
        return (varint::of_four_bytes(word), 4);
    }
    any_size_field(bytes)
}

/// A size field of 1 to 10 bytes.
#[cfg_attr(not(tracebuf_small), cold, inline(never))]
#[cfg_attr(tracebuf_small, inline(always))]
fn any_size_field(bytes: &[u8]) -> (u32, usize) {
    let mut size = 0;
    for (index, byte) in bytes.iter().take(varint::MAX_LEN).enumerate() {
        // The tenth byte's first bit is the 64th of all; its other bits are dropped.
        let bits = u32::from(byte & if index < 9 { 0x7F } else { 1 });
        if index < 4 {
            size |= bits << (7 * index);
        } else if bits > 0 {
            size = TOO_LARGE;
        }
        if *byte < 0x80 {
            return (size, index + 1);
        }
    }
    (TOO_LARGE, 0)
}

/// What a payload turned out to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tokens {
    /// Bytes up to the end of the last well-formed fragment.
    pub(super) valid: u16,
    /// Well-formed fragments.
    pub(super) frags: u32,
    /// Non-empty whole packets among the fragments that were looked at.
    pub(super) packets: u16,
    /// The commit's flags, changed by what was found: with end marks, and without what a chunk cut short loses.
    pub(super) flags: Flags,
}

/// Splits a payload into the fragments it declares.
///
/// Starts at `from`, after `before` fragments that are known; `flags` are those of the commit.
pub(super) fn tokenise(payload: &[u8], from: u16, before: u32, declared: u32, flags: Flags) -> Tokens {
    tokenise_inline(payload, from, before, declared, flags)
}

/// Like [`tokenise`], for the hot path, where what it finds must stay in registers: written to memory and read back in
/// other widths, it would have to wait for the copy of the previous chunk.
#[inline(always)]
pub(super) fn tokenise_inline(payload: &[u8], from: u16, before: u32, declared: u32, flags: Flags) -> Tokens {
    let mut frags = FragIterator::new(payload, from);
    let mut tokens = Tokens { valid: 0, frags: before, packets: 0, flags };
    // The end of a packet is not a packet by itself, nor is its beginning.
    let mut whole = from > 0 || !flags.contains(Flags::CONTINUES_FROM_PREVIOUS);
    let (mut last, mut last_counts) = (1, false);
    // This loop is most of what a commit costs besides the copy.
    while tokens.frags < declared {
        let Some(frag) = frags.next_frag() else {
            tokens.flags -= Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
            tokens.flags |= if frags.is_aborted() { Flags::ABORTED } else { Flags::TRUNCATED };
            break;
        };
        last = frag.size;
        last_counts = whole && last > 0;
        tokens.packets = tokens.packets.wrapping_add(u16::from(last_counts));
        tokens.frags += 1;
        whole = true;
    }
    tokens.valid = frags.position();
    if tokens.flags.contains(Flags::CONTINUES_ON_NEXT) {
        tokens.packets = tokens.packets.wrapping_sub(u16::from(last_counts));
    }
    tokens.flags.set(Flags::SINGLE, tokens.frags == 1);
    tokens.flags.set(Flags::EMPTY_LAST, last == 0);
    tokens
}

/// How many fragments a payload holds, up to its end or to where it is malformed, and where the last one ends.
#[inline(never)]
pub(super) fn count_frags(payload: &[u8]) -> (u32, u16) {
    let mut frags = FragIterator::new(payload, 0);
    let mut count = 0;
    while frags.skip().is_some() {
        count += 1;
    }
    (count, frags.position())
}

/// Whether a fragment of `payload`, or the payload itself, starts at `offset`.
pub(super) fn starts_fragment(payload: &[u8], offset: u16) -> bool {
    payload.get(..usize::from(offset)).is_some_and(|before| count_frags(before).1 == offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// The fragments' sizes, and whether they fill the payload.
    fn sizes(payload: &[u8]) -> (std::vec::Vec<u16>, bool) {
        let mut frags = FragIterator::new(payload, 0);
        let sizes = core::iter::from_fn(|| frags.next_frag()).map(|frag| frag.size).collect();
        (sizes, usize::from(frags.position()) == payload.len())
    }

    #[test]
    fn redundant_varints_up_to_ten_bytes_are_sizes() {
        assert_eq!(sizes(&[0x81, 0x80, 0x80, 0x00, 7]), (vec![1], true));
        assert_eq!(sizes(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 7]), (vec![1], true));
        assert_eq!(sizes(&[0x80; 11]), (vec![], false));
        // Bits beyond the 64th are dropped.
        assert_eq!(sizes(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 7]), (vec![1], true));
    }

    #[test]
    fn a_size_of_more_than_64_bits_leaves_the_chunk() {
        let mut field = [0xFF; 10];
        field[9] = 0x7F;
        assert_eq!(sizes(&field), (vec![], false));
        // 2^32 + 1 must not be taken for 1.
        assert_eq!(sizes(&[0x81, 0x80, 0x80, 0x80, 0x10, 7]), (vec![], false));
    }

    #[test]
    fn a_fragment_that_ends_one_byte_outside_is_malformed() {
        assert_eq!(sizes(&[2, 1, 2]), (vec![2], true));
        assert_eq!(sizes(&[3, 1, 2]), (vec![], false));
        assert_eq!(sizes(&[0, 0x80]), (vec![0], false));
    }

    #[test]
    fn tokenising_stops_at_an_aborted_packet_and_takes_the_ending_flags_away() {
        let payload = [1, 9, 0xFF, 0xFF, 0xFF, 0x7F, 1, 9];
        let all = Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        let tokens = tokenise(&payload, 0, 0, 3, all);
        assert_eq!((tokens.valid, tokens.frags, tokens.packets), (2, 1, 1));
        assert_eq!(tokens.flags, Flags::ABORTED | Flags::SINGLE);
    }

    #[test]
    fn whole_packets_are_counted_without_ends_and_begins() {
        let payload = [1, 9, 0, 2, 9, 9, 1, 9];
        let both = Flags::CONTINUES_FROM_PREVIOUS | Flags::CONTINUES_ON_NEXT;
        assert_eq!(tokenise(&payload, 0, 0, 4, Flags::empty()).packets, 3);
        assert_eq!(tokenise(&payload, 0, 0, 4, both).packets, 1);
        let middle = tokenise(&payload, 0, 0, 1, both);
        assert_eq!((middle.packets, middle.flags.contains(Flags::SINGLE)), (0, true));
    }

    #[test]
    fn trailing_empty_fragments_are_known_as_such_in_any_spelling() {
        assert!(FragIterator::new(&[1, 9, 0, 0x80, 0x80, 0x80, 0], 2).only_empty_left());
        assert!(FragIterator::new(&[1, 9], 2).only_empty_left());
        assert!(!FragIterator::new(&[1, 9, 0x80, 1], 2).only_empty_left());
    }
}
