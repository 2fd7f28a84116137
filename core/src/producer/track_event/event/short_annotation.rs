//! Annotations of few bytes, put together in registers.

use super::Value;
use crate::producer::TraceWriter;
use crate::producer::cursor::varint_words;
use crate::proto::fields::{debug_annotation, track_event};
use crate::proto::{WireType, tag};

const ANNOTATION: u32 = tag(track_event::DEBUG_ANNOTATIONS, WireType::Length);
const KEY: u32 = tag(debug_annotation::NAME_IID, WireType::Varint);

/// Bytes that it may have after its size, which is one byte long.
const MOST: usize = 127;

/// Writes an annotation into the open event:
///
/// ```text
/// 22 size  08 key  tag value
/// ```
///
/// as bytes. False, with nothing written, if what is before a text does not fit the chunk or the size takes more than a
/// byte.
pub(super) fn write(key: u32, value: Value<'_>, writer: &mut TraceWriter<'_>) -> bool {
    let varint = |field, value| {
        let (words, len) = varint_words(value);
        (tag(field, WireType::Varint), words, len)
    };
    let (field, [first, second, third], len) = match value {
        Value::Bool(value) => varint(debug_annotation::BOOL_VALUE, value.into()),
        Value::Uint(value) => varint(debug_annotation::UINT_VALUE, value),
        Value::Int(value) => varint(debug_annotation::INT_VALUE, value as u64),
        Value::Pointer(value) => varint(debug_annotation::POINTER_VALUE, value),
        Value::Double(value) => {
            let bits = value.to_bits();
            (tag(debug_annotation::DOUBLE_VALUE, WireType::Fixed64), [bits as u32, (bits >> 32) as u32, 0], 8)
        }
        Value::Str(text) => return write_text(key, text, writer),
    };
    let size = 3 + len;
    let (head, begin) = (head(size, key), field | first << 8);
    if len < 4 {
        // Most are.
        return writer.put_at_once([head, begin, 0], 2 + size);
    }
    writer.put_at_once(
        [head, begin, first >> 24 | second << 8, second >> 24 | third << 8, third >> 24],
        2 + size,
    )
}

fn write_text(key: u32, text: &str, writer: &mut TraceWriter<'_>) -> bool {
    let (size, field) = (4 + text.len(), tag(debug_annotation::STRING_VALUE, WireType::Length));
    let begun = size <= MOST && writer.put_at_once([head(size, key), field | (text.len() as u32) << 8, 0], 6);
    if begun {
        // Its size is known: it may go on in the next chunk.
        writer.put_bytes(text.as_bytes());
    }
    begun
}

/// The annotation as far as its key.
fn head(size: usize, key: u32) -> u32 {
    ANNOTATION | (size as u32) << 8 | KEY << 16 | key << 24
}
