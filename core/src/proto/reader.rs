//! Fields of a message, read by the wire format alone.
//!
//! ```
//! use tracebuf::proto::fields::{track_event, trace_packet};
//! use tracebuf::proto::reader::{Fields, FieldValue, message, number};
//!
//! let packet = [0x40, 0xAC, 0x02, 0x5A, 2, 0x48, 1]; // timestamp 300, and an event of type 1
//! let mut fields = Fields::of(&packet);
//! for field in &mut fields {
//!     match (field.number, field.value) {
//!         (trace_packet::TIMESTAMP, FieldValue::Number(time)) => assert_eq!(time, 300),
//!         (trace_packet::TRACK_EVENT, FieldValue::Bytes(event)) => assert_eq!(event, [0x48, 1]),
//!         _ => {}
//!     }
//! }
//! assert!(fields.is_at_end(), "malformed");
//!
//! // Or one at a time.
//! let event = message(&packet, trace_packet::TRACK_EVENT).expect("well-formed");
//! assert_eq!(number(event, track_event::TYPE), Some(1));
//! ```

use super::varint;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'m> {
    /// A varint: an integer, a boolean or an enumeration.
    Number(u64),
    /// A string, bytes, a submessage, or a packed array.
    Bytes(&'m [u8]),
    /// Four or eight bytes, as an unsigned integer: also a `float` or a `double`.
    Fixed(u64),
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'m> {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: FieldValue<'m>,
    /// All of its bytes, including the tag.
    pub whole: &'m [u8],
}

/// The fields of a message, up to its end or the first malformed one: an iterator.
///
/// Groups are malformed, as are field numbers above 32 bits. Limits of packets, such as the longest length, are not
/// checked: see [`PacketValidator`](super::PacketValidator).
#[derive(Clone, Debug)]
pub struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    /// From the start of `message`.
    pub const fn of(message: &'m [u8]) -> Self {
        Self(message)
    }

    /// Whether nothing is left. If no more fields come but something is left, that is malformed.
    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Field<'m>;

    // Inlined into the reader's loop, so that what it does not use is not even computed: long traces are read so.
    #[inline(always)]
    fn next(&mut self) -> Option<Field<'m>> {
        let (tag, after) = varint::split(self.0)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let (value, rest) = match tag & 7 {
            0 => varint::split(after).map(|(value, rest)| (FieldValue::Number(value), rest))?,
            1 => {
                let (bytes, rest) = after.split_first_chunk()?;
                (FieldValue::Fixed(u64::from_le_bytes(*bytes)), rest)
            }
            2 => {
                let (len, after) = varint::split(after)?;
                let (bytes, rest) = after.split_at_checked(usize::try_from(len).ok()?)?;
                (FieldValue::Bytes(bytes), rest)
            }
            5 => {
                let (bytes, rest) = after.split_first_chunk()?;
                (FieldValue::Fixed(u32::from_le_bytes(*bytes).into()), rest)
            }
            _ => return None,
        };
        let whole = self.0.get(..self.0.len().checked_sub(rest.len())?)?;
        self.0 = rest;
        Some(Field { number, value, whole })
    }
}

/// The last string or submessage in field `of`: empty if there is none, `None` if the message is malformed.
pub fn message(message: &[u8], of: u32) -> Option<&[u8]> {
    let mut within = &[][..];
    let mut fields = Fields::of(message);
    for field in &mut fields {
        if let (true, FieldValue::Bytes(bytes)) = (field.number == of, field.value) {
            within = bytes;
        }
    }
    fields.is_at_end().then_some(within)
}

/// The strings or submessages in field `of`, up to a malformed field; a value of another kind is skipped.
pub fn messages(message: &[u8], of: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(message).filter_map(move |field| match field.value {
        FieldValue::Bytes(bytes) if field.number == of => Some(bytes),
        _ => None,
    })
}

/// The last number in field `of`, if there is one before a malformed field.
pub fn number(message: &[u8], of: u32) -> Option<u64> {
    let numbers = Fields::of(message).filter_map(|field| match field.value {
        FieldValue::Number(number) if field.number == of => Some(number),
        _ => None,
    });
    numbers.last()
}

/// The last number in each of the fields `of`, 0 where there is none; `None` if the message is malformed.
pub fn numbers<const N: usize>(message: &[u8], of: [u32; N]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut fields = Fields::of(message);
    for field in &mut fields {
        if let FieldValue::Number(value) = field.value {
            let wanted = of.iter().zip(&mut numbers).find(|(number, _)| **number == field.number);
            wanted.into_iter().for_each(|(_, number)| *number = value);
        }
    }
    fields.is_at_end().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn fields_of_every_kind_are_told_whole_until_one_is_malformed() {
        // 1: 300; 2: eight bytes; 3: "ab"; 4: four bytes.
        let whole = b"\x08\xAC\x02\x11abcdefgh\x1A\x02ab\x25abcd";
        let mut fields = Fields::of(whole);
        let told: Vec<_> = fields.by_ref().map(|field| (field.number, field.whole)).collect();
        let expected: [(u32, &[u8]); 4] =
            [(1, b"\x08\xAC\x02"), (2, b"\x11abcdefgh"), (3, b"\x1A\x02ab"), (4, b"\x25abcd")];
        assert_eq!(told, expected);
        assert!(fields.is_at_end());
        let values: Vec<_> = Fields::of(whole).map(|field| field.value).collect();
        let (eight, four) = (u64::from_le_bytes(*b"abcdefgh"), u32::from_le_bytes(*b"abcd").into());
        let expected = [
            FieldValue::Number(300),
            FieldValue::Fixed(eight),
            FieldValue::Bytes(b"ab"),
            FieldValue::Fixed(four),
        ];
        assert_eq!(values, expected);
        // A group, a tag of too large a number, and each that is cut short.
        let malformed: [&[u8]; 9] = [
            b"\x0B",
            b"\x80\x80\x80\x80\x80\x01",
            b"\x80",
            b"\x08",
            b"\x08\x80",
            b"\x11abcdefg",
            b"\x1A",
            b"\x1A\x02a",
            b"\x25abc",
        ];
        for malformed in malformed {
            let bytes = [b"\x08\x01", malformed].concat();
            let mut fields = Fields::of(&bytes);
            assert!(fields.next().is_some() && fields.next().is_none() && fields.next().is_none());
            assert!(!fields.is_at_end(), "{malformed:x?}");
            assert_eq!((message(&bytes, 3), numbers(&bytes, [1]), number(&bytes, 1)), (None, None, Some(1)));
        }
    }

    #[test]
    fn a_field_is_found_by_number_and_kind_and_the_last_counts() {
        let bytes = b"\x0A\x01a\x08\x07\x0A\x01b\x08\x09\x12\x01c";
        assert_eq!((message(bytes, 1), message(bytes, 3)), (Some(&b"b"[..]), Some(&[][..])));
        assert!(messages(bytes, 1).eq([b"a", b"b"]));
        assert_eq!((number(bytes, 1), number(bytes, 2)), (Some(9), None));
        assert_eq!(numbers(bytes, [2, 1]), Some([0, 9]));
    }
}
