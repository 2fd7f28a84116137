//! The reader of a trace file in memory: [`TracePackets`].

use core::fmt;

use super::fields::trace;
use super::{MAX_LENGTH, WireType, tag, varint};

/// What is wrong in a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TraceFileFault {
    /// It ends within a packet, as when its writing was cut short.
    Truncated,
    /// Something that is not a packet.
    NotAPacket,
    /// A length above [`MAX_LENGTH`], or one that is no varint.
    BadLength,
}

/// Where and why reading a trace file ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TraceFileError {
    /// What is wrong.
    pub fault: TraceFileFault,
    /// The end of the last whole packet, in bytes from the start; what comes before is a trace.
    pub offset: usize,
}

impl fmt::Display for TraceFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            TraceFileFault::Truncated => "the trace ends within a packet",
            TraceFileFault::NotAPacket => "something other than a packet",
            TraceFileFault::BadLength => "a packet without a valid length",
        };
        write!(f, "{what}, after {} bytes of whole packets", self.offset)
    }
}

impl core::error::Error for TraceFileError {}

/// The packets of a trace file in memory, in order: an iterator.
///
/// Packets are not looked into; [`PacketValidator`](super::PacketValidator) does that. After an error
/// there are no more.
///
/// ```
/// use tracebuf::proto::{TraceFileFault, TracePackets};
///
/// let mut packets = TracePackets::new(&[0x0A, 2, 0x40, 5, 0x0A, 9]);
/// assert_eq!(packets.next(), Some(Ok(&[0x40, 5][..])));
///
/// let error = packets.next().unwrap().unwrap_err();
/// assert_eq!((error.fault, error.offset), (TraceFileFault::Truncated, 4));
/// assert_eq!(packets.next(), None);
/// ```
#[derive(Debug, Clone)]
pub struct TracePackets<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> TracePackets<'a> {
    /// From the start of `trace`.
    pub const fn new(trace: &'a [u8]) -> Self {
        Self { rest: trace, offset: 0 }
    }

    /// The end of the last packet given out, in bytes from the start.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The packet at the start of the rest, and its length with tag and size.
    fn packet(&self) -> Result<(&'a [u8], usize), TraceFileFault> {
        const PACKET: u64 = tag(trace::PACKET, WireType::Length) as u64;
        let varint = |bytes: &[u8], too_long| {
            let fault = if bytes.len() < varint::MAX_LEN { TraceFileFault::Truncated } else { too_long };
            varint::decode(bytes).ok_or(fault)
        };
        let (found, tag_len) = varint(self.rest, TraceFileFault::NotAPacket)?;
        if found != PACKET {
            return Err(TraceFileFault::NotAPacket);
        }
        let after_tag = self.rest.get(tag_len..).unwrap_or_default();
        let (len, len_len) = varint(after_tag, TraceFileFault::BadLength)?;
        if len > u64::from(MAX_LENGTH) {
            return Err(TraceFileFault::BadLength);
        }
        let len = len as usize;
        let packet = after_tag.get(len_len..).and_then(|rest| rest.get(..len));
        Ok((packet.ok_or(TraceFileFault::Truncated)?, tag_len + len_len + len))
    }
}

impl<'a> Iterator for TracePackets<'a> {
    type Item = Result<&'a [u8], TraceFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match self.packet() {
            Ok((packet, whole)) => {
                self.rest = self.rest.get(whole..).unwrap_or_default();
                self.offset = self.offset.saturating_add(whole);
                Some(Ok(packet))
            }
            Err(fault) => {
                self.rest = &[];
                Some(Err(TraceFileError { fault, offset: self.offset }))
            }
        }
    }
}

impl core::iter::FusedIterator for TracePackets<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn last(trace: &[u8]) -> Option<TraceFileError> {
        TracePackets::new(trace).last().and_then(Result::err)
    }

    #[test]
    fn a_trace_cut_anywhere_gives_its_whole_packets_and_where_they_end() {
        let trace = [0x0A, 2, 0x40, 5, 0x0A, 0, 0x0A, 0x83, 0x80, 0x80, 0, 1, 2, 3];
        let ends = [0, 4, 6, 14];
        for cut in 0..=trace.len() {
            let packets: Vec<_> = TracePackets::new(&trace[..cut]).collect();
            let whole = *ends.iter().rfind(|&&end| end <= cut).unwrap();
            let good = packets.iter().filter(|packet| packet.is_ok()).count();
            assert_eq!(ends[good], whole);
            let error =
                (whole != cut).then_some(TraceFileError { fault: TraceFileFault::Truncated, offset: whole });
            assert_eq!(last(&trace[..cut]), error, "cut at {cut}");
            let mut read = TracePackets::new(&trace[..cut]);
            assert!(read.by_ref().all(|packet| packet.is_ok() || whole != cut));
            assert_eq!(read.offset(), whole);
        }
    }

    #[test]
    fn other_fields_and_impossible_lengths_end_the_trace() {
        let fault = |trace: &[u8]| last(trace).unwrap().fault;
        assert_eq!(fault(&[0x12, 0]), TraceFileFault::NotAPacket);
        assert_eq!(fault(&[0x08, 0]), TraceFileFault::NotAPacket);
        assert_eq!(fault(&[0xFF; 11]), TraceFileFault::NotAPacket);
        assert_eq!(fault(&[0x0A, 0x80, 0x80, 0x80, 0x80, 0x01]), TraceFileFault::BadLength);
        assert_eq!(fault(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), TraceFileFault::BadLength);
        assert_eq!(fault(&[0x0A, 0xFF, 0xFF, 0xFF, 0x7F]), TraceFileFault::Truncated);
    }
}
