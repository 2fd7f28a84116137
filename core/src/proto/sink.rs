//! Protobuf fields into anything that takes bytes: [`Sink`], and [`Message`] for what goes in.

use core::convert::Infallible;

use super::varint;

/// How a field's value is laid out; the low three bits of its tag. Types 3 and 4 (groups) are obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum WireType {
    /// A varint: integers, booleans, enumerations.
    Varint = 0,
    /// Eight bytes, little-endian: `fixed64`, `double`.
    Fixed64 = 1,
    /// A varint length, then that many bytes: strings, bytes, messages, packed arrays.
    Length = 2,
    /// Four bytes, little-endian: `fixed32`, `float`.
    Fixed32 = 5,
}

/// The tag before a field's value, to be written as a varint. `field` is 1 to 2²⁹ − 1.
#[inline]
pub const fn tag(field: u32, wire_type: WireType) -> u32 {
    field << 3 | wire_type as u32
}

/// Something that protobuf fields can be written to.
///
/// Only [`put`](Sink::put) must be implemented; [`head`](Sink::head), through which most of the rest goes, may be too,
/// where there is a faster way. Each field's tag and value, or tag and length, arrive in one call. Field numbers are
/// those of [`fields`](super::fields); a payload above [`MAX_LENGTH`](super::MAX_LENGTH) bytes is not well-formed. Errors
/// are the sink's own.
///
/// ```
/// use tracebuf::proto::{Measure, Sink, fields::track_event};
///
/// let mut size = Measure::default();
/// size.varint(track_event::TYPE, 1)?;
/// size.string(track_event::NAME, "decode")?;
/// assert_eq!(size.len(), 2 + 3 + 6);
/// # Ok::<(), core::convert::Infallible>(())
/// ```
pub trait Sink {
    /// What goes wrong when it takes no more.
    type Error;

    /// Appends `bytes`. After an error, some of them may have been taken.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// A tag and a varint after it: the value, or the length of what comes next.
    fn head(&mut self, tag: u32, value: u64) -> Result<(), Self::Error> {
        let mut head = Head::one(tag.into());
        head.varint(value);
        self.put(head.as_bytes())
    }

    /// An unsigned integer or an enumeration.
    #[inline]
    fn varint(&mut self, field: u32, value: u64) -> Result<(), Self::Error> {
        self.head(tag(field, WireType::Varint), value)
    }

    /// A signed integer (`int32`, `int64`); a negative one takes ten bytes and its tag.
    fn int(&mut self, field: u32, value: i64) -> Result<(), Self::Error> {
        self.varint(field, value as u64)
    }

    /// A boolean.
    fn bool(&mut self, field: u32, value: bool) -> Result<(), Self::Error> {
        self.varint(field, u64::from(value))
    }

    /// A `fixed64`.
    fn fixed64(&mut self, field: u32, value: u64) -> Result<(), Self::Error> {
        let mut head = Head::one(tag(field, WireType::Fixed64).into());
        head.fixed64(value);
        self.put(head.as_bytes())
    }

    /// A `double`.
    fn double(&mut self, field: u32, value: f64) -> Result<(), Self::Error> {
        self.fixed64(field, value.to_bits())
    }

    /// Tag and length of a field whose `len` bytes the caller puts next.
    fn length(&mut self, field: u32, len: usize) -> Result<(), Self::Error> {
        self.head(tag(field, WireType::Length), len as u64)
    }

    /// Bytes.
    fn bytes(&mut self, field: u32, value: &[u8]) -> Result<(), Self::Error> {
        self.length(field, value.len())?;
        self.put(value)
    }

    /// A string.
    fn string(&mut self, field: u32, value: &str) -> Result<(), Self::Error> {
        self.bytes(field, value.as_bytes())
    }

    /// A message within this one, measured first and then written: no buffer, the shortest length,
    /// `message.encode` called twice (2ⁿ times for one nested n deep).
    fn message<M: Message>(&mut self, field: u32, message: &M) -> Result<(), Self::Error>
    where
        Self: Sized,
    {
        self.length(field, message.encoded_len())?;
        message.encode(self)
    }

    /// A packed array of varints. `values` is iterated over twice; without values, nothing is written.
    fn packed<I>(&mut self, field: u32, values: I) -> Result<(), Self::Error>
    where
        Self: Sized,
        I: Iterator<Item = u64> + Clone,
    {
        let len = values.clone().fold(0_usize, |sum, value| sum.saturating_add(varint::len(value)));
        if len == 0 {
            return Ok(());
        }
        self.length(field, len)?;
        for value in values {
            self.put(Head::one(value).as_bytes())?;
        }
        Ok(())
    }
}

/// A tag and the value or length after it, on its way into one [`Sink::put`].
pub(super) struct Head {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl Head {
    /// The longest tag (five bytes), and the longest varint after it.
    const SIZE: usize = 5 + varint::MAX_LEN;

    #[inline]
    pub(super) fn one(value: u64) -> Self {
        let mut head = Self { bytes: [0; Self::SIZE], len: 0 };
        head.varint(value);
        head
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        let rest = self.bytes.get_mut(self.len..).unwrap_or_default();
        self.len += varint::encode(value, rest).unwrap_or(0);
    }

    #[inline]
    fn fixed64(&mut self, value: u64) {
        if let Some(rest) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut) {
            *rest = value.to_le_bytes();
            self.len += rest.len();
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A protobuf message, or the part of one that a type stands for.
///
/// ```
/// use tracebuf::proto::{Encoder, Message, Sink, fields::{interned_string, interned_data}};
///
/// struct Name<'a> { iid: u64, name: &'a str }
///
/// impl Message for Name<'_> {
///     fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
///         out.varint(interned_string::IID, self.iid)?;
///         out.string(interned_string::NAME, self.name)
///     }
/// }
///
/// let mut memory = [0; 32];
/// let mut out = Encoder::new(&mut memory);
/// out.message(interned_data::EVENT_NAMES, &Name { iid: 1, name: "decode" })?;
/// assert_eq!(out.finish()?, b"\x12\x0a\x08\x01\x12\x06decode");
/// # Ok::<(), tracebuf::proto::Overflow>(())
/// ```
pub trait Message {
    /// Writes the fields, the same ones each time, because lengths are measured by a first run. Pass the sink's errors
    /// on.
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error>;

    /// The number of bytes that [`encode`](Message::encode) writes.
    fn encoded_len(&self) -> usize {
        let mut measure = Measure::default();
        match self.encode(&mut measure) {
            Ok(()) => measure.len(),
            Err(never) => match never {},
        }
    }
}

/// A [`Sink`] that keeps only the length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measure {
    len: usize,
}

impl Measure {
    /// Bytes put so far; stays at `usize::MAX` once there.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was put yet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Sink for Measure {
    type Error = Infallible;

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.len = self.len.saturating_add(bytes.len());
        Ok(())
    }

    #[inline]
    fn head(&mut self, tag: u32, value: u64) -> Result<(), Infallible> {
        self.len = self.len.saturating_add(varint::len(tag.into()) + varint::len(value));
        Ok(())
    }
}

/// Grows as it must, and so takes everything.
#[cfg(any(test, fuzzing, feature = "alloc"))]
impl Sink for alloc::vec::Vec<u8> {
    type Error = Infallible;

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn head(&mut self, tag: u32, value: u64) -> Result<(), Infallible> {
        for mut rest in [tag.into(), value] {
            while rest >= 0x80 {
                self.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.push(rest as u8);
        }
        Ok(())
    }
}
