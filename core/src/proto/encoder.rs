//! Protobuf fields into a slice: [`Encoder`].

use core::fmt;

use super::sink::Head;
use super::{Sink, WireType, tag, varint};

/// An [`Encoder`]'s slice is full: what was written is cut short and must not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for a protobuf field")
    }
}

impl core::error::Error for Overflow {}

/// A [`Sink`] over a slice.
///
/// A field that does not fit is an [`Overflow`], and so is everything after it: errors may be ignored
/// until [`finish`](Encoder::finish), which repeats them.
///
/// ```
/// use tracebuf::proto::{Encoder, Overflow, Sink, fields::{trace_packet, track_event}};
///
/// let mut memory = [0; 16];
/// let mut packet = Encoder::new(&mut memory);
/// packet.varint(trace_packet::TIMESTAMP, 300)?;
/// packet.nested(trace_packet::TRACK_EVENT, |event| event.varint(track_event::TYPE, 2))?;
/// assert_eq!(packet.finish()?, [0x40, 0xAC, 0x02, 0x5A, 0x82, 0x80, 0x80, 0x00, 0x48, 0x02]);
///
/// let mut short = Encoder::new(&mut memory[..2]);
/// assert_eq!(short.varint(trace_packet::TIMESTAMP, 300), Err(Overflow));
/// # Ok::<(), Overflow>(())
/// ```
#[derive(Debug)]
pub struct Encoder<'a> {
    memory: &'a mut [u8],
    len: usize,
    overflow: bool,
}

impl<'a> Encoder<'a> {
    /// Starts at the beginning of `memory`, with room for its length.
    pub const fn new(memory: &'a mut [u8]) -> Self {
        Self { memory, len: 0, overflow: false }
    }

    /// Bytes written so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A message written in place: four bytes are kept for its length and filled in after `fields`.
    ///
    /// Takes three bytes more than [`Sink::message`] for a short one, but each field is encoded once.
    ///
    /// # Errors
    /// [`Overflow`] if it does not fit or is longer than [`MAX_LENGTH`](super::MAX_LENGTH).
    pub fn nested<F>(&mut self, field: u32, fields: F) -> Result<(), Overflow>
    where
        F: FnOnce(&mut Self) -> Result<(), Overflow>,
    {
        self.put(Head::one(tag(field, WireType::Length).into()).as_bytes())?;
        let size_at = self.len;
        self.put(&[0; varint::REDUNDANT_LEN])?;
        let start = self.len;
        let written = fields(self);
        let size = u32::try_from(self.len.saturating_sub(start)).ok().and_then(varint::encode_redundant);
        let place = self.memory.get_mut(size_at..).and_then(<[u8]>::first_chunk_mut);
        match (written, size, place) {
            (Ok(()), Some(size), Some(place)) if !self.overflow => {
                *place = size;
                Ok(())
            }
            _ => {
                self.overflow = true;
                Err(Overflow)
            }
        }
    }

    /// What was written.
    ///
    /// # Errors
    /// [`Overflow`] if anything did not fit.
    pub fn finish(self) -> Result<&'a [u8], Overflow> {
        if self.overflow {
            return Err(Overflow);
        }
        self.memory.get(..self.len).ok_or(Overflow)
    }
}

impl Sink for Encoder<'_> {
    type Error = Overflow;

    /// Straight into place, with no copy on the way.
    fn head(&mut self, tag: u32, value: u64) -> Result<(), Overflow> {
        let rest = self.memory.get_mut(self.len..).filter(|_| !self.overflow).unwrap_or_default();
        let len = varint::encode(tag.into(), rest).and_then(|tag_len| {
            let value_len = varint::encode(value, rest.get_mut(tag_len..)?)?;
            Some(tag_len + value_len)
        });
        self.overflow |= len.is_none();
        self.len += len.unwrap_or(0);
        len.map(|_| ()).ok_or(Overflow)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Overflow> {
        let room = self.memory.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        match room {
            Some(room) if !self.overflow => {
                room.copy_from_slice(bytes); // of equal length: `get_mut` has just made sure
                self.len += bytes.len();
                Ok(())
            }
            _ => {
                self.overflow = true;
                Err(Overflow)
            }
        }
    }
}

#[cfg(test)]
mod tests;
