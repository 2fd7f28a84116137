//! The validator of packets that an untrusted producer wrote: [`PacketValidator`].

use core::fmt;

use super::fields::trace_packet as field;
use super::{MAX_LENGTH, varint};
use crate::debug::debug_fields;

/// Bytes a tag or a length may take. What they may say fits in five; at a sixth, protobuf's own decoders give up on the
/// whole trace.
const MAX_SHORT_LEN: u8 = 5;

/// The last byte that a value's varint may have, counted from 0.
const LAST: usize = varint::MAX_LEN - 1;

/// Whether only the service may write this field of a `TracePacket`.
///
/// Such fields say who wrote a packet, are about the trace as a whole, or hold packets that are compressed.
#[inline]
pub const fn is_service_only(number: u32) -> bool {
    matches!(
        number,
        field::TRUSTED_UID
            | field::TRUSTED_PACKET_SEQUENCE_ID
            | field::TRACE_CONFIG
            | field::TRACE_STATS
            | field::SYNCHRONIZATION_MARKER
            | field::COMPRESSED_PACKETS
            | field::SERVICE_EVENT
            | field::TRUSTED_PID
            | field::MACHINE_ID
            | field::TRACE_PROVENANCE
            | field::PROTOVMS
            | field::ZSTD_COMPRESSED_PACKETS
    )
}

/// What is wrong with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Fault {
    /// It ends within a field.
    Truncated,
    /// A tag above 32 bits or of more than five bytes.
    TagTooLarge,
    /// Field number 0.
    FieldNumberZero,
    /// A wire type that is a group's (3, 4) or no one's (6, 7).
    WireType(u8),
    /// A value of more than ten bytes of varint, or with bits above the 64th.
    VarintTooLong,
    /// A length above [`MAX_LENGTH`] or of more than five bytes.
    LengthTooLarge,
    /// A field that [only the service](is_service_only) may write.
    ServiceOnlyField(u32),
}

/// Why a packet is refused, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InvalidPacket {
    /// What is wrong.
    pub fault: Fault,
    /// Where the field at fault begins, in bytes from the start of the packet.
    pub offset: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Truncated => f.write_str("a field that does not end"),
            Fault::TagTooLarge => f.write_str("a tag above 32 bits or of more than 5 bytes"),
            Fault::FieldNumberZero => f.write_str("field number 0"),
            Fault::WireType(wire_type) => write!(f, "wire type {wire_type}"),
            Fault::VarintTooLong => f.write_str("a varint above 64 bits or of more than 10 bytes"),
            Fault::LengthTooLarge => write!(f, "a length above {MAX_LENGTH} or of more than 5 bytes"),
            Fault::ServiceOnlyField(number) => write!(f, "field {number} is the service's to write"),
        }
    }
}

impl fmt::Display for InvalidPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {} of the packet", self.fault, self.offset)
    }
}

impl core::error::Error for InvalidPacket {}

/// What was learned about a packet while checking it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ValidPacket {
    /// Its length in bytes.
    pub len: usize,
    /// The producer's own `previous_packet_dropped` (0 if it set none; the last if several). To be
    /// OR-ed into [`TrustedFields`](super::TrustedFields), whose value replaces it.
    pub previous_packet_dropped: u32,
}

/// Checks one packet, fragment by fragment, without joining them.
///
/// Well-formed means: field after field, numbers 1 to 2²⁹ − 1, wire types 0, 1, 2 and 5, values of up to 64 bits in up
/// to ten bytes of varint, lengths up to [`MAX_LENGTH`], tags and lengths in up to five bytes, and the packet's end at
/// the end of a field; it may be empty. Beyond that, no field may be one that [`is_service_only`]. Where fragments are
/// cut makes no difference, not even to the error. Cost: it depends on the number of fields and fragments, not on bytes.
///
/// ```
/// use tracebuf::proto::{Fault, PacketValidator};
///
/// let mut validator = PacketValidator::new();
/// validator.push(&[0xD2])?; // the first byte of field 42's tag, were it length-delimited, and
/// validator.push(&[0x02, 3, b'a'])?; // the second, its length, and one byte of it
/// assert_eq!(validator.finish().unwrap_err().fault, Fault::Truncated);
/// validator.push(b"bc")?;
/// assert_eq!(validator.finish()?.len, 6);
/// # Ok::<(), tracebuf::proto::InvalidPacket>(())
/// ```
#[derive(Clone, Default)]
pub struct PacketValidator {
    state: State,
    /// The bits of a varint that is not complete, and how many of its bytes were seen.
    value: u64,
    seen: u8,
    /// The tag's field number, while its value is awaited.
    number: u32,
    /// Bytes of earlier fragments.
    offset: usize,
    /// Where the current field began.
    field_start: usize,
    previous_packet_dropped: u32,
    fault: Option<Fault>,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Tag,
    Value,
    Length,
    /// This many more bytes of contents; never 0.
    Contents(u32),
}

impl fmt::Debug for PacketValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields! {
            self, f, "PacketValidator",
            state, value, seen, number, offset, field_start, previous_packet_dropped, fault
        }
    }
}

impl PacketValidator {
    /// At the start of a packet.
    pub const fn new() -> Self {
        Self {
            state: State::Tag,
            value: 0,
            seen: 0,
            number: 0,
            offset: 0,
            field_start: 0,
            previous_packet_dropped: 0,
            fault: None,
        }
    }

    /// Checks a whole packet.
    ///
    /// # Errors
    /// The first fault, in the order of the packet's bytes.
    pub fn check<'a, I>(fragments: I) -> Result<ValidPacket, InvalidPacket>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut validator = Self::new();
        for fragment in fragments {
            validator.push(fragment)?;
        }
        validator.finish()
    }

    /// Checks the packet's next bytes.
    ///
    /// # Errors
    /// The first fault; the same again for whatever comes after it.
    pub fn push(&mut self, fragment: &[u8]) -> Result<(), InvalidPacket> {
        let mut rest = fragment;
        while !rest.is_empty() && self.fault.is_none() {
            if self.state == State::Tag && self.seen == 0 {
                self.field_start = self.offset.saturating_add(fragment.len().saturating_sub(rest.len()));
            }
            match self.advance(rest) {
                Ok(after) => rest = after,
                Err(fault) => self.fault = Some(fault),
            }
        }
        self.offset = self.offset.saturating_add(fragment.len());
        self.fault.map_or(Ok(()), |fault| Err(self.invalid(fault)))
    }

    /// The verdict if the packet ends here.
    ///
    /// # Errors
    /// The first fault; [`Fault::Truncated`] if a field is not complete.
    pub fn finish(&self) -> Result<ValidPacket, InvalidPacket> {
        match self.fault {
            Some(fault) => Err(self.invalid(fault)),
            None if self.state != State::Tag || self.seen != 0 => Err(self.invalid(Fault::Truncated)),
            None => {
                Ok(ValidPacket { len: self.offset, previous_packet_dropped: self.previous_packet_dropped })
            }
        }
    }

    #[cold]
    fn invalid(&self, fault: Fault) -> InvalidPacket {
        InvalidPacket { fault, offset: self.field_start }
    }

    /// Takes some of `bytes`, which is not empty, and returns the rest of it.
    #[inline]
    fn advance<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        match self.state {
            State::Contents(remaining) => Ok(self.step_over(remaining, bytes)),
            State::Tag if self.seen == 0 => match self.whole_head(bytes)? {
                Some(after) => Ok(after),
                // Cut by the fragment's end, or longer than any varint.
                None => self.byte(bytes),
            },
            _ => self.byte(bytes),
        }
    }

    /// A field whose tag, and value or length, lie in `bytes` as a whole: nearly every one.
    #[inline]
    fn whole_head<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Fault> {
        let Some((tag, len)) = varint::decode(bytes) else { return Ok(None) };
        let (number, expected) = check_tag(tag, len as u8)?;
        let after = bytes.get(len..).unwrap_or_default();
        if let State::Contents(size) = expected {
            return Ok(Some(self.step_over(size, after)));
        }
        let Some((value, len)) = varint::decode(after) else { return Ok(None) };
        let (varint, after) = after.split_at_checked(len).unwrap_or_default();
        if expected == State::Length {
            return Ok(Some(self.step_over(check_length(value, len as u8)?, after)));
        }
        if let Some(&last) = varint.get(LAST) {
            check_last(last)?;
        }
        self.note(number, value);
        Ok(Some(after))
    }

    /// One byte of a varint that is cut into pieces.
    fn byte<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        let Some((&byte, after)) = bytes.split_first() else { return Ok(bytes) };
        self.value |= u64::from(byte & 0x7F).wrapping_shl(7 * u32::from(self.seen));
        self.seen += 1; // never above 10: refused or reset below
        if usize::from(self.seen) > LAST {
            check_last(byte)?;
        }
        if byte >= 0x80 {
            return match self.state {
                State::Tag if self.seen >= MAX_SHORT_LEN => Err(Fault::TagTooLarge),
                State::Length if self.seen >= MAX_SHORT_LEN => Err(Fault::LengthTooLarge),
                _ => Ok(after),
            };
        }
        let (value, seen) = (self.value, self.seen);
        (self.value, self.seen) = (0, 0);
        match self.state {
            State::Tag => (self.number, self.state) = check_tag(value, seen)?,
            State::Length => return Ok(self.step_over(check_length(value, seen)?, after)),
            State::Value | State::Contents(_) => {
                self.note(self.number, value);
                self.state = State::Tag;
            }
        }
        Ok(after)
    }

    /// Skips `size` bytes of `bytes`, or all of them and then the rest in what comes next.
    #[inline]
    fn step_over<'a>(&mut self, size: u32, bytes: &'a [u8]) -> &'a [u8] {
        match bytes.get(size as usize..) {
            Some(after) => {
                self.state = State::Tag;
                after
            }
            None => {
                // Fewer than `size`, so it fits in 32 bits.
                self.state = State::Contents(size.saturating_sub(bytes.len() as u32));
                &[]
            }
        }
    }

    #[inline]
    fn note(&mut self, number: u32, value: u64) {
        if number == field::PREVIOUS_PACKET_DROPPED {
            self.previous_packet_dropped = value as u32; // a uint32: decoders keep the low 32 bits
        }
    }
}

/// The field number of a tag of `len` bytes, and what comes after it.
#[inline]
fn check_tag(tag: u64, len: u8) -> Result<(u32, State), Fault> {
    let tag = match u32::try_from(tag) {
        Ok(tag) if len <= MAX_SHORT_LEN => tag,
        _ => return Err(Fault::TagTooLarge),
    };
    let number = tag >> 3;
    if number == 0 {
        return Err(Fault::FieldNumberZero);
    }
    let expected = match tag & 7 {
        0 => State::Value,
        1 => State::Contents(8),
        2 => State::Length,
        5 => State::Contents(4),
        other => return Err(Fault::WireType(other as u8)),
    };
    if is_service_only(number) {
        return Err(Fault::ServiceOnlyField(number));
    }
    Ok((number, expected))
}

/// Checks that the tenth byte holds only the value's 64th bit, and says that no more follow.
#[inline]
fn check_last(byte: u8) -> Result<(), Fault> {
    if byte > 1 { Err(Fault::VarintTooLong) } else { Ok(()) }
}

#[inline]
fn check_length(length: u64, len: u8) -> Result<u32, Fault> {
    match u32::try_from(length) {
        Ok(length) if length <= MAX_LENGTH && len <= MAX_SHORT_LEN => Ok(length),
        _ => Err(Fault::LengthTooLarge),
    }
}

#[cfg(test)]
mod tests;
