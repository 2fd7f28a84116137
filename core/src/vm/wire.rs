//! Fields of bytes that lie in one piece, or in the arena, in a node or a chain of cells.

use super::arena::Arena;
use super::cell::{CELL, LINK, PAYLOAD};
#[cfg(not(tracebuf_size))]
use crate::proto::varint::split;
use zerocopy::IntoBytes;

/// The greatest field number.
pub(super) const MAX_FIELD: u32 = (1 << 29) - 1;

/// The wire types of varints and of bytes.
pub(super) const VARINT: u32 = 0;
pub(super) const LENGTH: u32 = 2;

/// In a position: it is one in the arena.
pub(super) const STORED: u32 = 1 << 31;

/// Bytes of a cell.
const CELL_BYTES: u32 = CELL * 4;

/// Bytes at a position.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A field of a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Field {
    pub(super) id: u32,
    pub(super) wire: u32,
    /// A scalar's bits, lower ones first; or position and length of bytes.
    pub(super) value: [u32; 2],
}

impl Field {
    /// Its bytes, if it is no scalar.
    pub(super) const fn bytes(&self) -> Span {
        let [at, len] = self.value;
        Span { at, len }
    }
}

impl<'r> Arena<'r> {
    /// The flat bytes as a field. Of more than 2 GiB, the rest is cut off.
    pub(super) fn whole(&self) -> Field {
        Field {
            id: 0,
            wire: LENGTH,
            value: [0, u32::try_from(self.flat.len()).unwrap_or(STORED).min(STORED - 1)],
        }
    }

    /// Reads the next field and moves the span behind it. Nothing at the end, and where it is malformed: the span is then
    /// not empty.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn field(&mut self, span: &mut Span, field: &mut Field) -> bool {
        #[cfg(not(tracebuf_size))]
        if span.len == 0 {
            self.charge();
            return false;
        } else if self.small_field(span, field) {
            return !self.failed;
        }
        let (mut rest, mut tag) = (*span, [0; 2]);
        while self.charge() && self.number(&mut rest, VARINT, &mut tag) {
            let [low, high] = tag;
            (field.id, field.wire) = (low >> 3, low & 7);
            if field.id | high == 0 || !self.number(&mut rest, field.wire, &mut field.value) {
                break;
            }
            if field.wire == LENGTH {
                let [len, excess] = field.value;
                if excess != 0 || len > rest.len {
                    break;
                }
                field.value = [rest.at, len];
                rest = Span { at: self.skip(rest.at, len), len: rest.len.wrapping_sub(len) };
            }
            *span = rest;
            // No message has a greater number, but it is well-formed.
            if high == 0 {
                return true;
            }
        }
        false
    }

    /// Reads the next field with that number.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn field_of(&mut self, span: &mut Span, id: u32, field: &mut Field) -> bool {
        loop {
            #[cfg(not(tracebuf_size))]
            {
                self.pass(span, id);
                if self.small_field(span, field) {
                    if field.id == id {
                        return !self.failed;
                    }
                    continue;
                }
            }
            if !self.field(span, field) {
                return false;
            }
            if field.id == id {
                return true;
            }
        }
    }

    /// Moves a span of flat bytes over fields with other numbers whose values need not be known, as far as this is
    /// simple.
    #[cfg(not(tracebuf_size))]
    #[inline(always)]
    fn pass(&mut self, span: &mut Span, id: u32) {
        let Some(mut rest) = self.flat_of(*span) else { return };
        while let Some((tag, behind)) = short(rest) {
            if tag >> 3 == id || tag >> 3 == 0 || self.budget == 0 {
                break;
            }
            let next = match tag & 7 {
                VARINT => varint_len(behind),
                LENGTH => behind.first().filter(|len| **len < 0x80).map(|len| usize::from(*len) + 1),
                _ => None,
            };
            let Some(next) = next.and_then(|next| behind.get(next..)) else { break };
            self.budget -= 1;
            rest = next;
        }
        let passed = span.len.wrapping_sub(rest.len() as u32);
        *span = Span { at: span.at.wrapping_add(passed), len: rest.len() as u32 };
    }

    /// The next field, if it is of flat bytes, its tag is small and it is one of bytes or a varint.
    #[cfg(not(tracebuf_size))]
    #[inline(always)]
    fn small_field(&mut self, span: &mut Span, field: &mut Field) -> bool {
        let Some((tag, behind)) = self.flat_of(*span).and_then(short) else { return false };
        let Some((value, rest)) = split(behind) else { return false };
        let (id, wire, left) = (tag >> 3, tag & 7, rest.len() as u32);
        let at = span.at.wrapping_add(span.len.wrapping_sub(left));
        let (low, high) = (value as u32, (value >> 32) as u32);
        let (value, skipped) = match wire {
            VARINT => ([low, high], 0),
            LENGTH if high == 0 && low <= left => ([at, low], low),
            _ => return false,
        };
        if id == 0 || self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        *field = Field { id, wire, value };
        *span = Span { at: at.wrapping_add(skipped), len: left.wrapping_sub(skipped) };
        true
    }

    #[cfg(not(tracebuf_size))]
    #[inline(always)]
    fn flat_of(&self, span: Span) -> Option<&'r [u8]> {
        self.flat.get(span.at as usize..)?.get(..span.len as usize)
    }

    /// A varint, also as a length, or a fixed number: what stands first in a field of that wire type. Whether there is
    /// one.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn number(&self, span: &mut Span, wire: u32, number: &mut [u32; 2]) -> bool {
        *number = [0; 2];
        let [low, high] = number;
        let fixed = match wire {
            1 => 8,
            5 => 4,
            VARINT | LENGTH => {
                // Most are in one piece.
                #[cfg(not(tracebuf_size))]
                if let Some(flat) = self.flat.get(span.at as usize..)
                    && let Some((value, len)) = crate::proto::varint::decode(flat)
                    && let Some(rest) = span.len.checked_sub(len as u32)
                {
                    *span = Span { at: span.at.wrapping_add(len as u32), len: rest };
                    (*low, *high) = (value as u32, (value >> 32) as u32);
                    return true;
                }
                let (mut value, mut shift) = (0_u64, 0);
                while shift < 70 {
                    let Some(byte) = self.byte(span) else { break };
                    value |= u64::from(byte & 0x7F) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        (*low, *high) = (value as u32, (value >> 32) as u32);
                        return true;
                    }
                }
                return false;
            }
            _ => return false,
        };
        if span.len < fixed {
            return false;
        }
        *low = self.next_word(span);
        if fixed == 8 {
            *high = self.next_word(span);
        }
        true
    }

    fn byte(&self, span: &mut Span) -> Option<u8> {
        span.len = span.len.checked_sub(1)?;
        let bytes = if span.at < STORED { self.flat } else { self.cells.as_bytes() };
        let byte = *bytes.get((span.at & !STORED) as usize)?;
        span.at = self.skip(span.at, 1);
        Some(byte)
    }

    /// The next four bytes, or as many as there are and zeros.
    #[cfg_attr(not(tracebuf_size), inline(always))]
    pub(super) fn next_word(&self, span: &mut Span) -> u32 {
        #[cfg(not(tracebuf_size))]
        if span.len == 0 {
            return 0;
        }
        if let Some(word) = self.flat.get(span.at as usize..).and_then(|flat| flat.first_chunk())
            && let Some(len) = span.len.checked_sub(4)
        {
            *span = Span { at: span.at + 4, len };
            return u32::from_le_bytes(*word);
        }
        self.next_bytes(span)
    }

    #[cfg_attr(tracebuf_size, inline(always))]
    #[cfg_attr(not(tracebuf_size), inline(never))]
    fn next_bytes(&self, span: &mut Span) -> u32 {
        (0..4).fold(0, |word, byte| word | u32::from(self.byte(span).unwrap_or(0)) << (8 * byte))
    }

    /// Copies flat bytes into a new cell of a chain; whether they are flat.
    #[cfg(not(tracebuf_size))]
    #[inline(always)]
    pub(super) fn fill(&mut self, cell: u32, span: &mut Span) -> bool {
        #[cfg(test)]
        super::tests::crash_here(|| self.image());
        let count = span.len.min(PAYLOAD);
        let Some(flat) = self.flat_of(Span { len: count, ..*span }) else { return false };
        let Some(cell) = self.cells.get_mut((cell / CELL) as usize) else { return false };
        let (words, rest) = flat.as_chunks::<4>();
        let mut places = cell.as_mut_bytes().as_chunks_mut::<4>().0.iter_mut();
        for (word, place) in words.iter().zip(places.by_ref()) {
            *place = *word;
        }
        for (place, byte) in places.flatten().zip(rest) {
            *place = *byte;
        }
        *span = Span { at: span.at.wrapping_add(count), len: span.len.wrapping_sub(count) };
        true
    }

    /// The position so many bytes further on.
    pub(super) fn skip(&self, at: u32, count: u32) -> u32 {
        if at < STORED {
            return at.wrapping_add(count);
        }
        let (mut cell, mut within) = (at / CELL_BYTES * CELL_BYTES, (at % CELL_BYTES).wrapping_add(count));
        while within >= PAYLOAD {
            within -= PAYLOAD;
            cell = position(self.word(cell_at(cell), LINK));
        }
        cell | within
    }
}

/// A varint of one or two bytes, and what follows.
#[cfg(not(tracebuf_size))]
#[inline(always)]
const fn short(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [low @ ..0x80, rest @ ..] => Some((*low as u32, rest)),
        [low, high @ ..0x80, rest @ ..] => Some((*low as u32 & 0x7F | (*high as u32) << 7, rest)),
        _ => None,
    }
}

/// The length of a varint that does not end within the last four bytes.
#[cfg(not(tracebuf_size))]
#[inline(always)]
fn varint_len(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks();
    let mut words = words.iter().map(|word| !u32::from_le_bytes(*word) & 0x8080_8080);
    let first = words.next()?;
    if first != 0 {
        return Some((first.trailing_zeros() / 8 + 1) as usize);
    }
    let second = words.next()?;
    (second != 0).then(|| (second.trailing_zeros() / 8 + 5) as usize)
}

/// The position of a cell, and the cell at a position.
pub(super) const fn position(cell: u32) -> u32 {
    STORED | cell << 2
}

const fn cell_at(position: u32) -> u32 {
    (position & !STORED) >> 2
}
