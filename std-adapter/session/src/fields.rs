//! The fields of a protobuf message, by the wire format alone.

use tracebuf::proto::{WireType, fields, tag, varint};

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
    /// Four or eight bytes; no field that is looked for has this type.
    Fixed,
}

/// One field.
#[derive(Debug)]
pub struct Field<'m> {
    pub number: u32,
    pub value: Value<'m>,
    /// All of its bytes, including the tag.
    pub whole: &'m [u8],
}

/// The fields of a message, up to its end or the first malformed one.
#[derive(Clone, Debug)]
pub struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    pub fn of(message: &'m [u8]) -> Self {
        Self(message)
    }

    /// Whether nothing is left. If no more fields come but something is left, that is malformed.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Field<'m>;

    // Inlined into the reader's loop, so that what it does not use is not even computed: long traces are read so.
    #[inline(always)]
    fn next(&mut self) -> Option<Field<'m>> {
        let (tag, after) = take(self.0)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let (value, rest) = match tag & 7 {
            0 => take(after).map(|(value, rest)| (Value::Number(value), rest))?,
            1 => (Value::Fixed, after.get(8..)?),
            2 => {
                let (len, after) = take(after)?;
                let (bytes, rest) = after.split_at_checked(usize::try_from(len).ok()?)?;
                (Value::Bytes(bytes), rest)
            }
            5 => (Value::Fixed, after.get(4..)?),
            _ => return None,
        };
        let whole = self.0.get(..self.0.len().checked_sub(rest.len())?)?;
        self.0 = rest;
        Some(Field { number, value, whole })
    }
}

/// The last submessage with this number: empty if there is none, `None` if the message is malformed.
pub fn message(bytes: &[u8], of: u32) -> Option<&[u8]> {
    let mut within = &[][..];
    let mut fields = Fields::of(bytes);
    for field in &mut fields {
        if let (true, Value::Bytes(bytes)) = (field.number == of, field.value) {
            within = bytes;
        }
    }
    fields.is_at_end().then_some(within)
}

/// The last number in this field, if there is one.
pub fn number(message: &[u8], of: u32) -> Option<u64> {
    let numbers = Fields::of(message).filter_map(|field| match field.value {
        Value::Number(number) if field.number == of => Some(number),
        _ => None,
    });
    numbers.last()
}

/// The strings or submessages in this field; a value of another kind is skipped.
pub fn messages(message: &[u8], of: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(message).filter_map(move |field| match field.value {
        Value::Bytes(bytes) if field.number == of => Some(bytes),
        _ => None,
    })
}

/// A varint, and what follows it.
pub fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, size) = varint::decode(bytes)?;
    Some((value, bytes.get(size..)?))
}

/// Appends a varint.
fn push(bytes: &mut Vec<u8>, value: u64) {
    let mut room = [0; varint::MAX_LEN];
    let size = varint::encode(value, &mut room).unwrap_or(0);
    bytes.extend_from_slice(room.get(..size).unwrap_or_default());
}

/// Appends a field of a number.
pub fn push_number(bytes: &mut Vec<u8>, field: u32, value: u64) {
    push(bytes, tag(field, WireType::Varint).into());
    push(bytes, value);
}

/// Appends a field of bytes, given in parts.
pub fn push_bytes(bytes: &mut Vec<u8>, field: u32, parts: &[&[u8]]) {
    push(bytes, tag(field, WireType::Length).into());
    push(bytes, parts.iter().map(|part| part.len() as u64).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

/// Appends a packet, given in parts, to a trace.
pub fn push_packet(trace: &mut Vec<u8>, parts: &[&[u8]]) {
    push_bytes(trace, fields::trace::PACKET, parts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind_are_told_whole_until_one_is_malformed() {
        // 1: 300; 2: eight bytes; 3: "ab"; 4: four bytes.
        let message = b"\x08\xAC\x02\x11abcdefgh\x1A\x02ab\x25abcd";
        let mut fields = Fields::of(message);
        let told: Vec<_> = fields.by_ref().map(|field| (field.number, field.whole)).collect();
        let expected: [(u32, &[u8]); 4] =
            [(1, b"\x08\xAC\x02"), (2, b"\x11abcdefgh"), (3, b"\x1A\x02ab"), (4, b"\x25abcd")];
        assert_eq!(told, expected);
        assert!(fields.is_at_end());
        let values = Fields::of(message).map(|field| field.value);
        assert!(values.clone().any(|value| matches!(value, Value::Number(300))));
        assert!(values.clone().any(|value| matches!(value, Value::Bytes(b"ab"))));
        assert_eq!(values.filter(|value| matches!(value, Value::Fixed)).count(), 2);
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
            let message = [b"\x08\x01", malformed].concat();
            let mut fields = Fields::of(&message);
            assert!(fields.next().is_some() && fields.next().is_none() && fields.next().is_none());
            assert!(!fields.is_at_end(), "{malformed:x?}");
        }
    }
}
