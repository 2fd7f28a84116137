//! Fields of bytes that lie in one piece, or in the arena, in a node or a chain of cells.

use super::arena::Arena;
use super::cell::{CELL, LINK, PAYLOAD};
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

impl Arena<'_> {
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
        while self.field(span, field) {
            if field.id == id {
                return true;
            }
        }
        false
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
    pub(super) fn next_word(&self, span: &mut Span) -> u32 {
        if let Some(word) = self.flat.get(span.at as usize..).and_then(|flat| flat.first_chunk())
            && let Some(len) = span.len.checked_sub(4)
        {
            *span = Span { at: span.at + 4, len };
            return u32::from_le_bytes(*word);
        }
        (0..4).fold(0, |word, byte| word | u32::from(self.byte(span).unwrap_or(0)) << (8 * byte))
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

/// The position of a cell, and the cell at a position.
pub(super) const fn position(cell: u32) -> u32 {
    STORED | cell << 2
}

const fn cell_at(position: u32) -> u32 {
    (position & !STORED) >> 2
}
