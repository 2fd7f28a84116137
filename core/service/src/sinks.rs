//! Where packets go that are read: replies to a consumer, or a piece of a file.

use alloc::vec::Vec;
use core::convert::Infallible;

use tracebuf::proto::fields::consumer::{read_buffers_response, slice};
use tracebuf::proto::fields::trace;
use tracebuf::proto::{Sink, varint};

use crate::wire::ProtoBuilder;
use crate::wire::frames::{self, MAX_IPC_FRAME};

/// Bytes of the longest part of a packet.
const LONGEST_SLICE: usize = 130_560;
/// Bytes that a slice takes besides its data.
const AROUND_SLICE: usize = 16;
/// Bytes that a frame takes besides its slices.
const AROUND_FRAME: usize = 64;

/// Takes packets.
pub(crate) trait PacketSink {
    /// Takes one of `len` bytes in `parts`, with `suffix` behind them. False if it takes no more, this one included.
    fn packet<'p>(&mut self, len: usize, parts: impl Iterator<Item = &'p [u8]>, suffix: &'p [u8]) -> bool;

    /// Bytes taken.
    fn len(&self) -> usize;

    /// What comes next is of the buffer in this place of the session's, or the service's own.
    fn of_buffer(&mut self, _place: Option<usize>) {}

    /// Takes one of the service's own.
    fn own(&mut self, packet: &[u8]) -> bool {
        self.packet(packet.len(), core::iter::once(packet), &[])
    }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(part);
}

/// Replies to a consumer that reads: packets, in frames.
///
/// ```
/// use tracebuf_service::Slices;
///
/// let mut slices = Slices::new(7); // the number of its call
/// slices.push(&[0; 1 << 20]);
/// assert_eq!(slices.finish(true).len(), 9);
/// ```
#[derive(Debug)]
pub struct Slices {
    request: u64,
    frames: Vec<ProtoBuilder>,
    response: Vec<u8>,
    len: usize,
}

impl Slices {
    /// Without packets, for the call of this number.
    #[must_use]
    pub const fn new(request: u64) -> Self {
        Self { request, frames: Vec::new(), response: Vec::new(), len: 0 }
    }

    fn end_frame(&mut self, has_more: bool) {
        let response = ProtoBuilder::new().fields(&core::mem::take(&mut self.response));
        self.frames.push(frames::reply(self.request, &response, has_more));
    }

    /// Begins a slice of so many bytes, which the caller puts behind it. The last one of a packet is marked before its
    /// data: it is the same to readers.
    fn begin_slice(&mut self, len: usize, is_last: bool) {
        if self.response.len() + len + AROUND_SLICE > MAX_IPC_FRAME - AROUND_FRAME {
            self.end_frame(true);
        }
        let head = 1 + varint::len(len as u64) + if is_last { 2 } else { 0 };
        let Ok::<_, Infallible>(()) = self.response.length(read_buffers_response::SLICES, head + len);
        if is_last {
            let Ok::<_, Infallible>(()) = self.response.bool(slice::LAST_SLICE_FOR_PACKET, true);
        }
        let Ok::<_, Infallible>(()) = self.response.length(slice::DATA, len);
    }

    /// Adds a whole packet.
    pub fn push(&mut self, packet: &[u8]) {
        self.own(packet);
    }

    /// The replies; the last of them says whether there are more to come.
    #[must_use]
    pub fn finish(mut self, is_over: bool) -> Vec<ProtoBuilder> {
        if is_over || !self.response.is_empty() {
            self.end_frame(!is_over);
        }
        self.frames
    }
}

impl PacketSink for Slices {
    fn packet<'p>(&mut self, len: usize, parts: impl Iterator<Item = &'p [u8]>, suffix: &'p [u8]) -> bool {
        let mut left = len + suffix.len();
        self.len += left;
        let mut in_slice = left.min(LONGEST_SLICE);
        self.begin_slice(in_slice, in_slice == left);
        for mut part in parts.chain(core::iter::once(suffix)) {
            while !part.is_empty() {
                if in_slice == 0 {
                    in_slice = left.min(LONGEST_SLICE);
                    self.begin_slice(in_slice, in_slice == left);
                }
                let (now, later) = part.split_at(part.len().min(in_slice));
                put(&mut self.response, now);
                (in_slice, left, part) = (in_slice - now.len(), left - now.len(), later);
            }
        }
        true
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A piece of a trace file: whole packets.
pub(crate) struct Piece {
    bytes: Vec<u8>,
    /// How many bytes it may take.
    room: u64,
}

impl Piece {
    pub(crate) const fn new(room: u64) -> Self {
        Self { bytes: Vec::new(), room }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl PacketSink for Piece {
    fn packet<'p>(&mut self, len: usize, parts: impl Iterator<Item = &'p [u8]>, suffix: &'p [u8]) -> bool {
        let whole = len + suffix.len();
        let framed = 1 + varint::len(whole as u64) + whole;
        if (self.bytes.len() + framed) as u64 > self.room {
            return false;
        }
        let Ok::<_, Infallible>(()) = self.bytes.length(trace::PACKET, whole);
        parts.chain(core::iter::once(suffix)).for_each(|part| put(&mut self.bytes, part));
        true
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frames::ServiceFrame;
    use std::vec;
    use tracebuf::proto::reader::{message, messages, numbers};

    /// The packets in replies, and how many slices there were.
    fn joined(frames: &[ProtoBuilder]) -> (Vec<Vec<u8>>, usize) {
        let (mut packets, mut packet, mut slices) = (vec![], vec![], 0);
        for frame in frames {
            assert!(frame.as_bytes().len() <= MAX_IPC_FRAME, "{}", frame.as_bytes().len());
            let Some(ServiceFrame::Reply(7, Some(response))) = ServiceFrame::of(frame.as_bytes()) else {
                panic!("a reply")
            };
            for one in messages(response, read_buffers_response::SLICES) {
                slices += 1;
                packet.extend_from_slice(message(one, slice::DATA).expect("well-formed"));
                if numbers(one, [slice::LAST_SLICE_FOR_PACKET]) == Some([1]) {
                    packets.push(core::mem::take(&mut packet));
                }
            }
        }
        assert!(packet.is_empty(), "a whole packet");
        (packets, slices)
    }

    #[test]
    fn packets_of_any_size_come_whole_in_frames_that_are_not_too_long() {
        let mut slices = Slices::new(7);
        let sizes = [1, 100_000, 130_556, 130_557, 1 << 20, 5, 131_000, 3];
        for size in sizes {
            let packet = vec![size as u8; size];
            let parts = packet.chunks(997);
            assert!(slices.packet(size, parts, b"tail"));
        }
        assert_eq!(slices.len(), sizes.iter().sum::<usize>() + 4 * sizes.len());
        let (packets, slices) = joined(&slices.finish(true));
        let expected = sizes.map(|size| [vec![size as u8; size], b"tail".to_vec()].concat());
        assert!(packets == expected);
        assert_eq!(slices, 1 + 1 + 1 + 2 + 9 + 1 + 2 + 1);
        let (none, slices) = joined(&Slices::new(7).finish(true));
        assert_eq!((none.len(), slices), (0, 0));
        assert!(Slices::new(7).finish(false).is_empty(), "nothing was read, and there may be more");
    }

    #[test]
    fn a_piece_takes_whole_packets_only_as_far_as_there_is_room() {
        let mut piece = Piece::new(20);
        assert!(piece.packet(3, [&b"ab"[..], b"c"].into_iter(), b"de") && piece.own(b"x"));
        assert!(!piece.own(&[0; 9]) && piece.own(&[1; 8]), "it has 20 bytes");
        assert_eq!(piece.into_bytes(), b"\x0A\x05abcde\x0A\x01x\x0A\x08\x01\x01\x01\x01\x01\x01\x01\x01");
    }
}
