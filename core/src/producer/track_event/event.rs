//! The details of an event.

use super::names::{NameKind, Names};
use crate::producer::cursor::varint_words;
use crate::producer::{MessageHandle, TraceWriter};
use crate::proto::fields::{debug_annotation, source_location, track_event, track_event_type};
use crate::proto::{WireType, tag};
use core::fmt;

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum EventType {
    SliceBegin = track_event_type::SLICE_BEGIN as u32,
    SliceEnd = track_event_type::SLICE_END as u32,
    Instant = track_event_type::INSTANT as u32,
    Counter = track_event_type::COUNTER as u32,
}

/// Details of an event while it is being written.
///
/// ```
/// # use tracebuf::producer::track_event::*;
/// # fn example<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) {
/// track.instant_with("request", |event| {
///     event.category("net").arg("bytes", 1500).arg("peer", "10.0.0.1").flow(17)
/// });
/// # }
/// ```
pub struct Event<'e, 'w, 'a> {
    pub(super) message: &'e mut MessageHandle<'w, 'a>,
    pub(super) names: &'e mut dyn Intern<'a>,
    /// Whether it ends a slice. With a name or a category, trace_processor would take it for the end of a slice that
    /// has the same and leave any other open. So it has neither, as with Perfetto's SDK.
    pub(super) is_end: bool,
}

/// Details of an event: a closure that returns its [`Event`], as the event's own functions do. For one that returns
/// nothing there is [`details`].
///
/// ```
/// # use tracebuf::producer::track_event::*;
/// # fn example<'a, const N: usize, const T: usize>(track: OnTrack<'_, 'a, impl Clock, N, T>) {
/// fn size<'a>(bytes: usize) -> impl Details<'a> {
///     move |event: &mut Event<'_, '_, 'a>| event.arg("bytes", bytes)
/// }
/// track.instant_with("sent", size(1500));
/// track.instant_with("received", |event| event.category("net").arg("bytes", 40));
/// # }
/// ```
pub trait Details<'a>:
    for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>
{
}

impl<'a, F> Details<'a> for F where
    F: for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>
{
}

/// Details by a closure that returns nothing: for loops, conditions and several statements.
///
/// ```
/// use tracebuf::producer::track_event::*;
///
/// # fn example<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) {
/// let sizes = [40, 1500];
/// track.instant_with("sent", details(|event| {
///     event.category("net");
///     for size in sizes {
///         event.arg("bytes", size);
///     }
/// }));
/// # }
/// ```
pub fn details<F>(
    write: F,
) -> impl for<'x, 'e, 'w, 'a> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>
where
    F: for<'e, 'w, 'a> FnOnce(&mut Event<'e, 'w, 'a>),
{
    move |event| {
        write(event);
        event
    }
}

/// [`Names`] of any size.
pub(super) trait Intern<'a> {
    fn intern(&mut self, kind: NameKind, name: &'a str) -> Option<u32>;
}

impl<'a, const N: usize> Intern<'a> for Names<'a, N> {
    fn intern(&mut self, kind: NameKind, name: &'a str) -> Option<u32> {
        Names::intern(self, kind, name)
    }
}

/// The value of an annotation. Made from numbers, `bool` and `&str` with `into`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'v> {
    /// Yes or no.
    Bool(bool),
    /// A number without a sign.
    Uint(u64),
    /// A number with a sign.
    Int(i64),
    /// A fraction.
    Double(f64),
    /// A text.
    Str(&'v str),
    /// An address.
    Pointer(u64),
}

impl<'a> Event<'_, '_, 'a> {
    /// A debug annotation. The key is interned.
    ///
    /// trace_processor shows a `u64` of 2⁶³ or more as a negative number, and replaces `.`, `[` and `]` in keys by `_`.
    pub fn arg<'v>(&mut self, key: &'a str, value: impl Into<Value<'v>>) -> &mut Self {
        self.annotate(key, value.into());
        self
    }

    /// Like [`arg`](Self::arg), with a key that need not live as long as the tracer: it is written out in each event.
    pub fn named_arg<'v>(&mut self, key: &str, value: impl Into<Value<'v>>) -> &mut Self {
        let mut annotation = self.message.message(track_event::DEBUG_ANNOTATIONS);
        annotation.string(debug_annotation::NAME, key);
        write_value(&mut annotation, value.into());
        drop(annotation);
        self
    }

    /// A category. It is interned; an event can have several. The end of a slice has none: its begin's count.
    pub fn category(&mut self, name: &'a str) -> &mut Self {
        if self.is_end {
            return self;
        }
        match self.names.intern(NameKind::CATEGORY, name) {
            Some(iid) => self.message.varint(track_event::CATEGORY_IIDS, u64::from(iid)),
            None => self.message.string(track_event::CATEGORIES, name),
        }
        self
    }

    /// A category that does not live as long as the tracer, written as it is.
    pub fn category_text(&mut self, name: &str) -> &mut Self {
        if !self.is_end {
            self.message.string(track_event::CATEGORIES, name);
        }
        self
    }

    /// Where in the source the event is: a file's path, and a line from 1.
    ///
    /// It is interned, as one of the tracer's names, and costs 3 bytes; on microcontrollers it is written out in each
    /// event.
    pub fn source_location(&mut self, file: &'a str, line: u32) -> &mut Self {
        match NameKind::source(line).and_then(|kind| self.names.intern(kind, file)) {
            Some(iid) => self.message.varint(track_event::SOURCE_LOCATION_IID, u64::from(iid)),
            None => return self.source_text(file, line),
        }
        self
    }

    /// The same for a path that does not live as long as the tracer, written as it is.
    pub fn source_text(&mut self, file: &str, line: u32) -> &mut Self {
        let mut location = self.message.message(track_event::SOURCE_LOCATION);
        location.string(source_location::FILE_NAME, file);
        location.varint(source_location::LINE_NUMBER, u64::from(line));
        drop(location);
        self
    }

    /// Makes the event part of a flow, as all with the same id are: ui.perfetto.dev draws arrows between them.
    pub fn flow(&mut self, id: u64) -> &mut Self {
        self.message.fixed64(track_event::FLOW_IDS, id);
        self
    }

    /// Ends the flow here: the id may be used again.
    pub fn end_flow(&mut self, id: u64) -> &mut Self {
        self.message.fixed64(track_event::TERMINATING_FLOW_IDS, id);
        self
    }

    /// An annotation whose text is formatted into the event, as it is written.
    ///
    /// If formatting fails, the text up to there stays. If it traces on the same tracer, those events are skipped
    /// ([`TracerStats`](super::TracerStats)).
    pub fn arg_fmt(&mut self, key: &'a str, text: fmt::Arguments<'_>) -> &mut Self {
        let iid = self.names.intern(NameKind::ANNOTATION, key);
        self.annotation(iid, key).formatted(debug_annotation::STRING_VALUE, text);
        self
    }

    /// A name that does not live as long as the tracer, written as it is, for an event begun without one, that is, with
    /// "". The end of a slice has none: its begin's counts.
    pub fn name(&mut self, name: &str) -> &mut Self {
        if !self.is_end {
            self.message.string(track_event::NAME, name);
        }
        self
    }

    /// An annotation without its value, whose key has this number if it has any.
    fn annotation(&mut self, iid: Option<u32>, key: &'a str) -> MessageHandle<'_, 'a> {
        let mut annotation = self.message.message(track_event::DEBUG_ANNOTATIONS);
        match iid {
            Some(iid) => annotation.varint(debug_annotation::NAME_IID, u64::from(iid)),
            None => annotation.string(debug_annotation::NAME, key),
        }
        annotation
    }

    fn annotate(&mut self, key: &'a str, value: Value<'_>) {
        let iid = self.names.intern(NameKind::ANNOTATION, key);
        if iid.is_some_and(|iid| write_short(iid, value, self.message.here())) {
            return;
        }
        write_value(&mut self.annotation(iid, key), value);
    }
}

fn write_value(annotation: &mut MessageHandle<'_, '_>, value: Value<'_>) {
    match value {
        Value::Bool(value) => annotation.bool(debug_annotation::BOOL_VALUE, value),
        Value::Uint(value) => annotation.varint(debug_annotation::UINT_VALUE, value),
        Value::Int(value) => annotation.varint(debug_annotation::INT_VALUE, value as u64),
        Value::Double(value) => annotation.double(debug_annotation::DOUBLE_VALUE, value),
        Value::Str(value) => annotation.string(debug_annotation::STRING_VALUE, value),
        Value::Pointer(value) => annotation.varint(debug_annotation::POINTER_VALUE, value),
    }
}

const ANNOTATION: u32 = tag(track_event::DEBUG_ANNOTATIONS, WireType::Length);
const ANNOTATION_KEY: u32 = tag(debug_annotation::NAME_IID, WireType::Varint);

/// Bytes that a short one may have after its size, which is one byte long.
const MOST_SHORT: usize = 127;

/// Writes an annotation of few bytes, put together in registers, into the open event: 22 size, 08 key, tag value. False,
/// with nothing written, if what is before a text does not fit the chunk or the size takes more than a byte.
fn write_short(key: u32, value: Value<'_>, writer: &mut TraceWriter<'_>) -> bool {
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
        Value::Str(text) => return write_short_text(key, text, writer),
    };
    let size = 3 + len;
    let (head, begin) = (annotation_head(size, key), field | first << 8);
    if len < 4 {
        // Most are.
        return writer.put_at_once([head, begin, 0], 2 + size);
    }
    writer.put_at_once(
        [head, begin, first >> 24 | second << 8, second >> 24 | third << 8, third >> 24],
        2 + size,
    )
}

fn write_short_text(key: u32, text: &str, writer: &mut TraceWriter<'_>) -> bool {
    let (size, field) = (4 + text.len(), tag(debug_annotation::STRING_VALUE, WireType::Length));
    let begun = size <= MOST_SHORT
        && writer.put_at_once([annotation_head(size, key), field | (text.len() as u32) << 8, 0], 6);
    if begun {
        // Its size is known: it may go on in the next chunk.
        writer.put_bytes(text.as_bytes());
    }
    begun
}

/// The annotation as far as its key.
fn annotation_head(size: usize, key: u32) -> u32 {
    ANNOTATION | (size as u32) << 8 | ANNOTATION_KEY << 16 | key << 24
}

macro_rules! value_from {
    ($($from:ty => $variant:ident as $to:ty),* $(,)?) => {
        $(impl From<$from> for Value<'_> {
            fn from(value: $from) -> Self {
                Value::$variant(value as $to)
            }
        })*
    };
}

value_from! {
    bool => Bool as bool,
    u8 => Uint as u64, u16 => Uint as u64, u32 => Uint as u64, u64 => Uint as u64, usize => Uint as u64,
    i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, isize => Int as i64,
    f32 => Double as f64, f64 => Double as f64,
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(value: &'v str) -> Self {
        Value::Str(value)
    }
}
