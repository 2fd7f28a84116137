//! Fields of bytes that lie in one piece or in a chain of cells.

use super::cell::{Cell, FLAT, NONE, PAYLOAD, Span};
use crate::proto::varint;

/// The greatest field number.
pub(super) const MAX_FIELD: u32 = (1 << 29) - 1;

/// The wire type of bytes.
pub(super) const BYTES: u8 = 2;

/// A field of a message.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) id: u32,
    pub(super) wire: u8,
    /// A scalar's bits.
    pub(super) value: u64,
    /// The bytes of a field that is no scalar.
    pub(super) bytes: Span,
}

/// Copies as many bytes as there are in both. (`copy_from_slice` panics if they are not as many.)
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// Where the bytes of spans lie.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) cells: &'a [Cell],
    pub(super) flat: &'a [u8],
}

impl<'a> Source<'a> {
    pub(super) const fn flat(flat: &'a [u8]) -> Self {
        Self { cells: &[], flat }
    }

    /// The flat bytes as a span. A patch or a program of more than 4 GiB is cut.
    pub(super) fn whole(&self) -> Span {
        Span::flat(0, u32::try_from(self.flat.len()).unwrap_or(u32::MAX))
    }

    /// The next field; moves the span behind it. `None` at the end, and where it is malformed: the span is then not
    /// empty.
    pub(super) fn field(&self, span: &mut Span) -> Option<Field> {
        let mut rest = *span;
        loop {
            let tag = self.varint(&mut rest)?;
            let wire = (tag & 7) as u8;
            let mut field = Field { id: 0, wire, value: 0, bytes: Span::EMPTY };
            match wire {
                0 => field.value = self.varint(&mut rest)?,
                1 => field.value = self.fixed(&mut rest, 8)?,
                5 => field.value = self.fixed(&mut rest, 4)?,
                BYTES => {
                    let len = u32::try_from(self.varint(&mut rest)?).ok()?;
                    field.bytes = Span { len, ..rest };
                    self.skip(&mut rest, len)?;
                }
                _ => return None,
            }
            match tag >> 3 {
                0 => return None,
                id if id <= MAX_FIELD.into() => {
                    *span = rest;
                    return Some(Field { id: id as u32, ..field });
                }
                // No message has such a number, but it is well-formed.
                _ => *span = rest,
            }
        }
    }

    /// The first field of that number.
    pub(super) fn first(&self, mut span: Span, id: u32) -> Option<Field> {
        loop {
            let field = self.field(&mut span)?;
            if field.id == id {
                return Some(field);
            }
        }
    }

    /// The bytes at the start of the span that lie in one piece: none only at its end.
    pub(super) fn piece(&self, span: &Span) -> Option<&'a [u8]> {
        let bytes = match span.cell {
            FLAT => self.flat,
            cell => self.cells.get(cell as usize)?.payload(),
        };
        let piece = bytes.get(span.at as usize..)?;
        Some(piece.get(..span.len as usize).unwrap_or(piece))
    }

    /// Moves the span's start.
    pub(super) fn skip(&self, span: &mut Span, mut count: u32) -> Option<()> {
        span.len = span.len.checked_sub(count)?;
        while span.cell != FLAT && count >= (PAYLOAD as u32).checked_sub(span.at)? {
            count = count.checked_sub((PAYLOAD as u32).checked_sub(span.at)?)?;
            if span.len == 0 && count == 0 {
                return Some(());
            }
            (span.cell, span.at) = (self.cells.get(span.cell as usize)?.link.get(), 0);
            if span.cell == NONE {
                return None;
            }
        }
        span.at = span.at.checked_add(count)?;
        Some(())
    }

    /// Fills `to` with the first bytes; returns how many there were.
    pub(super) fn read(&self, span: &mut Span, to: &mut [u8]) -> Option<usize> {
        let mut filled = 0_usize;
        while span.len > 0 {
            let free = to.get_mut(filled..)?;
            let piece = self.piece(span)?;
            let count = piece.len().min(free.len());
            if count == 0 {
                break;
            }
            copy(free, piece);
            self.skip(span, count as u32)?;
            filled = filled.checked_add(count)?;
        }
        Some(filled)
    }

    fn fixed(&self, span: &mut Span, len: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let read = self.read(span, bytes.get_mut(..len)?)?;
        (read == len).then_some(u64::from_le_bytes(bytes))
    }

    fn varint(&self, span: &mut Span) -> Option<u64> {
        if let Some((value, len)) = varint::decode(self.piece(span)?) {
            self.skip(span, len as u32)?;
            return Some(value);
        }
        // It goes on in the next cell, or is malformed.
        let mut bytes = [0; varint::MAX_LEN];
        let mut ahead = *span;
        let read = self.read(&mut ahead, &mut bytes)?;
        let (value, len) = varint::decode(bytes.get(..read)?)?;
        self.skip(span, len as u32)?;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number and the value of each field, and whether all of it is well-formed.
    fn fields(bytes: &[u8]) -> (std::vec::Vec<(u32, u8, u64)>, bool) {
        let source = Source::flat(bytes);
        let mut span = source.whole();
        let told = core::iter::from_fn(|| source.field(&mut span));
        let told =
            told.map(|field| (field.id, field.wire, field.value | u64::from(field.bytes.len))).collect();
        (told, span.len == 0)
    }

    #[test]
    fn fields_come_up_to_the_first_malformed_one() {
        assert_eq!(fields(b"\x08\xAC\x02\x12\x02ab"), (std::vec![(1, 0, 300), (2, 2, 2)], true));
        for malformed in
            [&b"\x00\x01"[..], b"\x10", b"\x10\x80", b"\x13\x01", b"\x12\x02a", b"\x15abc", b"\x11abcdefg"]
        {
            let bytes = [b"\x08\x05", malformed].concat();
            assert_eq!(fields(&bytes), (std::vec![(1, 0, 5)], false), "{malformed:x?}");
        }
    }

    #[test]
    fn numbers_that_no_field_has_are_passed_over() {
        // 2^29, and 2^61 - 1, before field 1.
        assert_eq!(fields(b"\x80\x80\x80\x80\x10\x07\x08\x05"), (std::vec![(1, 0, 5)], true));
        assert_eq!(
            fields(b"\xF8\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x07\x08\x05"),
            (std::vec![(1, 0, 5)], true)
        );
    }
}
