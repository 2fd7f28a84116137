//! Frames: pieces of a trace on a line that loses bytes.
//!
//! A frame is `flags` (1 byte), `number` (2, little-endian), a piece of a trace, and CRC-32/ISO-HDLC over all of these
//! (4, little-endian), COBS-encoded as a whole and ended by a zero. Zeros occur nowhere else, so a receiver that joins
//! late, or lost bytes, is at a frame's start after the next zero. One more zero precedes the first frame, to end what
//! a device that was reset has left on the line, and again each time the numbers start over. Frames are numbered
//! consecutively; a packet's first and last frames are flagged. So a receiver knows whether it has all of a packet, and
//! how many frames are missing.
//!
//! The last frame of a packet with several has, after its bytes of trace, the exclusive or of the CRCs of those before
//! it (4 bytes). Without it, a packet that began before a reset would seem to go on with a frame of the next start.
//!
//! ```
//! use tracebuf::proto::frame::{FIRST, FRAME, FrameDecoder, FrameEncoder, LAST};
//!
//! let (mut encoder, mut line) = (FrameEncoder::new(), [0; FRAME]);
//! let len = encoder.encode(FIRST | LAST, b"packet", &mut line);
//! assert_eq!((len, line[len - 1]), (15, 0));
//!
//! let (mut decoder, mut came) = (FrameDecoder::new([0; 256]), &line[..len]);
//! let frame = decoder.next(&mut came).unwrap().unwrap();
//! assert_eq!((frame.number, frame.flags, frame.piece), (1, FIRST | LAST, &b"packet"[..]));
//! assert!(came.is_empty() && decoder.next(&mut came).is_none());
//! ```

use crate::debug::debug_fields;
use cobs::{CobsEncoder, DecodeResult, DecoderState};
use core::fmt;
use crc::{CRC_32_ISO_HDLC, Crc};

/// A packet begins with this frame.
pub const FIRST: u8 = 1;
/// A packet ends with this frame.
pub const LAST: u8 = 2;
/// The most bytes of trace in a frame that a [`FrameEncoder`] makes.
pub const PAYLOAD: usize = 64;
/// The most bytes of such a frame on the line: flags, number, the CRCs of the packet's other frames, its own, one byte
/// of COBS, the zero.
pub const FRAME: usize = PAYLOAD + HEAD + 2 * CHECK + 2;

/// Bytes of flags and number; and of a CRC.
const HEAD: usize = 3;
const CHECK: usize = 4;
/// With its table of 1 KiB a frame takes 1,500 instructions; bit by bit 4,100, and that code, unrolled for speed, is as
/// long.
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The frames of a device since its start.
#[derive(Debug, Default)]
pub struct FrameEncoder {
    /// The number of the last one.
    number: u16,
    /// The exclusive or of the CRCs of the packet's frames so far.
    others: u32,
}

impl FrameEncoder {
    /// The frames of a device that has sent none.
    pub const fn new() -> Self {
        FrameEncoder { number: 0, others: 0 }
    }

    /// Whether a zero precedes the next one.
    pub const fn is_beginning(&self) -> bool {
        self.number == 0
    }

    /// Puts the next frame around a piece of a packet, and returns its length: 0, and nothing usable, for a piece of
    /// more than [`PAYLOAD`] bytes.
    pub fn encode(&mut self, flags: u8, piece: &[u8], line: &mut [u8; FRAME]) -> usize {
        self.number = self.number.wrapping_add(1);
        if flags & FIRST != 0 {
            self.others = 0;
        }
        let [low, high] = self.number.to_le_bytes();
        let others = self.others.to_le_bytes();
        let others = if flags & (FIRST | LAST) == LAST { &others[..] } else { &[] };
        let content = [&[flags, low, high], piece, others];
        let mut digest = CRC.digest();
        content.iter().for_each(|part| digest.update(part));
        let check = digest.finalize();
        self.others ^= check;
        let mut encoder = CobsEncoder::new(line);
        let check = check.to_le_bytes();
        let pushed = piece.len() <= PAYLOAD
            && content.iter().chain([&&check[..]]).all(|part| encoder.push(part).is_ok());
        let len = encoder.finalize();
        match line.get_mut(len) {
            Some(end) if pushed => {
                *end = 0;
                len + 1
            }
            _ => 0,
        }
    }
}

/// A frame that arrived intact.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame<'f> {
    /// [`FIRST`], [`LAST`], both or neither.
    pub flags: u8,
    /// One more than the previous frame's, 1 for a device's first.
    pub number: u16,
    /// Its bytes of trace.
    pub piece: &'f [u8],
    /// Its CRC.
    pub check: u32,
    /// The exclusive or of the CRCs of the packet's frames before it, if it is the last of several.
    pub others: Option<u32>,
    /// Bytes on the line, without the zero.
    pub encoded_len: usize,
}

impl<'f> Frame<'f> {
    /// What is in it once COBS is undone, if that is intact.
    fn of(decoded: &'f [u8], encoded_len: usize) -> Option<Self> {
        let (content, crc) = decoded.split_last_chunk()?;
        let check = CRC.checksum(content);
        let ([flags, low, high], piece) = content.split_first_chunk()?;
        if check.to_le_bytes() != *crc {
            return None;
        }
        let said = if flags & (FIRST | LAST) == LAST { piece.split_last_chunk() } else { None };
        let (piece, others) = match said {
            Some((piece, others)) => (piece, Some(u32::from_le_bytes(*others))),
            None => (piece, None),
        };
        let number = u16::from_le_bytes([*low, *high]);
        Some(Self { flags: *flags, number, piece, check, others, encoded_len })
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields!(self, f, "Frame", flags, number, piece, check, others, encoded_len)
    }
}

/// Bytes between two zeros of a line that are no intact frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptFrame {
    /// How many, without the zero.
    pub encoded_len: usize,
}

impl CorruptFrame {
    /// Whether it is long enough to have been a frame, and not only noise.
    pub const fn may_be_frame(&self) -> bool {
        // COBS adds a byte.
        self.encoded_len > HEAD + CHECK
    }
}

/// Takes frames out of what comes over a line, in whatever pieces it comes.
///
/// `memory` is as long as the longest frame that it takes, without the zero: [`FRAME`] for those of a
/// [`FrameEncoder`]. What is longer is [corrupt](CorruptFrame): zeros were lost.
#[derive(Default)]
pub struct FrameDecoder<M> {
    memory: M,
    state: DecoderState,
    /// Bytes of the frame that have come, and what they are without COBS.
    encoded: usize,
    decoded: usize,
    is_corrupt: bool,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> FrameDecoder<M> {
    /// At a frame's start.
    pub const fn new(memory: M) -> Self {
        Self { memory, state: DecoderState::Idle, encoded: 0, decoded: 0, is_corrupt: false }
    }

    /// Whether bytes of a frame have come whose end has not.
    pub const fn is_within_frame(&self) -> bool {
        self.encoded > 0
    }

    /// Takes bytes up to the next frame's end, and returns that frame; `None` once all are taken. A zero that follows
    /// another one is passed over.
    ///
    /// # Errors
    /// What has come is no intact frame. The next call goes on behind it.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Result<Frame<'_>, CorruptFrame>> {
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            if *byte != 0 {
                self.take(*byte);
            } else if self.encoded > 0 {
                return Some(self.end());
            }
        }
        None
    }

    fn take(&mut self, byte: u8) {
        self.encoded = self.encoded.saturating_add(1);
        self.is_corrupt |= self.encoded > self.memory.as_ref().len();
        if self.is_corrupt {
            return;
        }
        match self.state.feed(byte) {
            Ok(DecodeResult::DataContinue(byte)) => match self.memory.as_mut().get_mut(self.decoded) {
                Some(place) => {
                    *place = byte;
                    self.decoded += 1;
                }
                None => self.is_corrupt = true,
            },
            Ok(_) => {}
            Err(_) => self.is_corrupt = true,
        }
    }

    fn end(&mut self) -> Result<Frame<'_>, CorruptFrame> {
        let is_whole = matches!(self.state.feed(0), Ok(DecodeResult::DataComplete)) && !self.is_corrupt;
        let (encoded_len, decoded) = (self.encoded, self.decoded);
        self.state = DecoderState::Idle;
        (self.encoded, self.decoded, self.is_corrupt) = (0, 0, false);
        let decoded = self.memory.as_ref().get(..decoded).filter(|_| is_whole);
        decoded.and_then(|decoded| Frame::of(decoded, encoded_len)).ok_or(CorruptFrame { encoded_len })
    }
}

/// Without what its memory holds.
impl<M> fmt::Debug for FrameDecoder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameDecoder").field("encoded", &self.encoded).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The frame on a line of one, and what it is without COBS and its CRC.
    fn decoded(line: &[u8]) -> (Frame<'static>, Vec<u8>) {
        assert_eq!(line.iter().position(|byte| *byte == 0), Some(line.len() - 1));
        let mut content = [0; FRAME];
        let len = cobs::decode(&line[..line.len() - 1], &mut content).unwrap().frame_size() - CHECK;
        let (mut decoder, mut rest) = (FrameDecoder::new(std::vec![0; FRAME].leak()), line);
        let frame = decoder.next(&mut rest).unwrap().unwrap();
        assert_eq!((frame.check, frame.encoded_len), (CRC.checksum(&content[..len]), line.len() - 1));
        let piece = frame.piece.to_vec().leak();
        (Frame { piece, ..frame }, content[..len].to_vec())
    }

    #[test]
    fn a_frame_of_any_length_comes_back_and_holds_no_zero_but_its_last_byte() {
        for len in 0..=PAYLOAD {
            let piece: Vec<u8> = (0..len).map(|i| (i % 3) as u8).collect();
            for flags in [0, FIRST, LAST, FIRST | LAST] {
                let (mut encoder, mut line) =
                    (FrameEncoder { number: 0x0101, others: 0x0500_0700 }, [0xEE; FRAME]);
                let size = encoder.encode(flags, &piece, &mut line);
                let (frame, content) = decoded(&line[..size]);
                assert_eq!((frame.flags, frame.number, frame.piece), (flags, 0x0102, &piece[..]));
                assert_eq!(frame.others, (flags == LAST).then_some(0x0500_0700));
                assert_eq!(content[..3], [flags, 2, 1]);
                let others: &[u8] = if flags == LAST { &[0, 7, 0, 5] } else { &[] };
                assert_eq!(content[3..], [&piece, others].concat());
            }
        }
    }

    #[test]
    fn the_last_of_several_frames_knows_those_before_it() {
        let (mut encoder, mut line) = (FrameEncoder::new(), [0; FRAME]);
        let mut next = |flags: u8, piece: &[u8]| {
            let size = encoder.encode(flags, piece, &mut line);
            decoded(&line[..size]).0
        };
        // A packet that was given up does not count.
        for pieces in [&[&b"given up"[..]][..], &[b"a", b"b", b"c"], &[b"whole"], &[b"d", b"e"]] {
            let mut others = 0;
            for (i, piece) in pieces.iter().enumerate() {
                let is_last = i + 1 == pieces.len() && pieces[0] != b"given up";
                let flags = u8::from(i == 0) | u8::from(is_last) << 1;
                let frame = next(flags, piece);
                assert_eq!(frame.others, (flags == LAST).then_some(others));
                others ^= frame.check;
            }
        }
    }

    #[test]
    fn a_piece_that_is_too_long_gives_no_frame() {
        assert_eq!(FrameEncoder::new().encode(0, &[1; PAYLOAD + 1], &mut [0; FRAME]), 0);
    }

    /// A line with noise, a frame that was damaged, and others: all that a decoder says of it, in pieces of this size.
    fn told(line: &[u8], piece: usize, room: usize) -> Vec<Result<(u16, Vec<u8>), usize>> {
        let mut decoder = FrameDecoder::new(std::vec![0; room]);
        let mut all = Vec::new();
        for mut came in line.chunks(piece) {
            while let Some(next) = decoder.next(&mut came) {
                all.push(
                    next.map(|frame| (frame.number, frame.piece.to_vec()))
                        .map_err(|corrupt| corrupt.encoded_len),
                );
            }
        }
        all
    }

    #[test]
    fn frames_come_out_of_a_damaged_line_in_whatever_pieces_it_comes() {
        let (mut encoder, mut line) = (FrameEncoder::new(), b"\0\0noise\0".to_vec());
        let mut ends = Vec::new();
        for piece in [&b""[..], b"a", &[0; PAYLOAD], &[7; PAYLOAD], b"last"] {
            let mut frame = [0; FRAME];
            let len = encoder.encode(FIRST | LAST, piece, &mut frame);
            line.extend(&frame[..len]);
            ends.push(line.len());
        }
        line[ends[1] + 9] ^= 4;
        let damaged = ends[2] - ends[1] - 1;
        let whole = [Err(5), Ok((1, Vec::new())), Ok((2, b"a".to_vec())), Err(damaged)];
        let rest = [Ok((4, std::vec![7; PAYLOAD])), Ok((5, b"last".to_vec()))];
        for piece in [1, 2, 7, 50, 1000] {
            assert_eq!(told(&line, piece, FRAME), [&whole[..], &rest].concat());
        }
        // A zero is lost, and the two frames together are no frame, or too long for one.
        line.remove(ends[3] - 1);
        let both = ends[4] - ends[2] - 2;
        for room in [FRAME, 2 * FRAME] {
            assert_eq!(told(&line, 3, room), [&whole[..], &[Err(both)]].concat());
        }
    }

    #[test]
    fn what_is_too_short_for_a_frame_is_noise() {
        let may_be = |encoded_len| CorruptFrame { encoded_len }.may_be_frame();
        assert_eq!((may_be(7), may_be(8)), (false, true));
        let mut line = [0; FRAME];
        let len = FrameEncoder::new().encode(0, &[], &mut line);
        assert_eq!(len - 1, 8);
    }

    #[test]
    fn a_line_knows_where_in_a_frame_it_is_and_what_is_no_cobs_is_corrupt() {
        let (mut encoder, mut line) = (FrameEncoder::new(), [0; FRAME]);
        assert!(encoder.is_beginning());
        let len = encoder.encode(FIRST | LAST, b"packet", &mut line);
        assert!(!encoder.is_beginning());

        let mut decoder = FrameDecoder::new([0; FRAME]);
        assert!(!decoder.is_within_frame());
        assert_eq!(decoder.next(&mut &line[..5]), None);
        assert!(decoder.is_within_frame());
        assert_eq!(std::format!("{decoder:?}"), "FrameDecoder { encoded: 5, .. }");
        let frame = decoder.next(&mut &line[5..len]).unwrap().unwrap();
        let told = std::format!("{frame:?}");
        assert!(told.starts_with("Frame { flags: 3, number: 1, piece: [112, 97, 99"), "{told}");
        assert!(!decoder.is_within_frame());

        // A frame that says it goes on for 9 bytes, and ends after one; a whole one with fewer bytes than a CRC.
        for corrupt in [&[10, 1, 0][..], &[3, 1, 2, 0]] {
            let found = decoder.next(&mut &corrupt[..]).unwrap().unwrap_err();
            assert_eq!((found.encoded_len, found.may_be_frame()), (corrupt.len() - 1, false));
        }
    }
}
