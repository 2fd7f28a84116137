//! Frames: pieces of a trace on a line that loses bytes.
//!
//! A frame is `flags` (1 byte), `number` (2, little-endian), up to 64 bytes of trace, and CRC-32/ISO-HDLC over all of
//! these (4, little-endian), COBS-encoded as a whole and ended by a zero. Zeros occur nowhere else, so a receiver that
//! joins late, or lost bytes, is at a frame's start after the next zero. One more zero precedes the first frame, to end
//! what a device that was reset has left on the line, and again each time the numbers start over. Frames are numbered
//! consecutively; a packet's first and last frames are flagged. So a receiver knows whether it has all of a packet, and
//! how many frames are missing.
//!
//! The last frame of a packet with several has, after its bytes of trace, the exclusive or of the CRCs of those before
//! it (4 bytes). A device that is reset numbers its frames from 1 again: without this, a packet that began before a
//! reset would seem to continue with the second frame of the next start, if the first was lost.
//!
//! ```
//! use tracebuf_embedded::frame::{FIRST, FRAME, Frames, LAST};
//!
//! let (mut frames, mut line) = (Frames::new(), [0; FRAME]);
//! let len = frames.encode(FIRST | LAST, b"packet", &mut line);
//! assert_eq!((len, line[len - 1]), (15, 0));
//! let lens = [frames.encode(FIRST, b"pac", &mut line), frames.encode(LAST, b"ket", &mut line)];
//! assert_eq!(lens, [12, 16]);
//! ```

use cobs::CobsEncoder;
use crc::{CRC_32_ISO_HDLC, Crc};

/// A packet begins with this frame.
pub const FIRST: u8 = 1;
/// A packet ends with this frame.
pub const LAST: u8 = 2;
/// The most bytes of trace in a frame.
pub const PAYLOAD: usize = 64;
/// The most bytes of a frame on the line: flags, number, the CRCs of the packet's other frames, its own, one byte of
/// COBS, the zero.
pub const FRAME: usize = PAYLOAD + 13;

/// With its table of 1 KiB a frame takes 1,500 instructions; bit by bit 4,100, and that code, unrolled for speed, is as
/// long.
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The frames of a device since its start.
#[derive(Debug)]
pub struct Frames {
    /// The number of the last one.
    number: u16,
    /// The exclusive or of the CRCs of the packet's frames so far.
    others: u32,
}

impl Frames {
    /// The frames of a device that has sent none.
    pub const fn new() -> Self {
        Frames { number: 0, others: 0 }
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

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a frame on the line without its CRC, and the CRC.
    fn decoded(line: &[u8]) -> (Vec<u8>, u32) {
        assert_eq!(line.iter().position(|byte| *byte == 0), Some(line.len() - 1));
        let mut decoded = [0; FRAME];
        let report = cobs::decode(&line[..line.len() - 1], &mut decoded).unwrap();
        let (content, check) = decoded[..report.frame_size()].split_last_chunk().unwrap();
        assert_eq!(CRC.checksum(content), u32::from_le_bytes(*check));
        (content.to_vec(), CRC.checksum(content))
    }

    #[test]
    fn a_frame_of_any_length_comes_back_and_holds_no_zero_but_its_last_byte() {
        for len in 0..=PAYLOAD {
            let piece: Vec<u8> = (0..len).map(|i| (i % 3) as u8).collect();
            for flags in [0, FIRST, LAST, FIRST | LAST] {
                let (mut frames, mut line) = (Frames { number: 0x0101, others: 0x0500_0700 }, [0xEE; FRAME]);
                let size = frames.encode(flags, &piece, &mut line);
                let (content, _) = decoded(&line[..size]);
                assert_eq!(content[..3], [flags, 2, 1]);
                let others: &[u8] = if flags == LAST { &[0, 7, 0, 5] } else { &[] };
                assert_eq!(content[3..], [&piece, others].concat());
            }
        }
    }

    #[test]
    fn the_last_of_several_frames_knows_those_before_it() {
        let (mut frames, mut line) = (Frames::new(), [0; FRAME]);
        let mut next = |flags: u8, piece: &[u8]| {
            let size = frames.encode(flags, piece, &mut line);
            decoded(&line[..size])
        };
        // A packet that was given up does not count.
        for pieces in [&[&b"given up"[..]][..], &[b"a", b"b", b"c"], &[b"whole"], &[b"d", b"e"]] {
            let mut others = 0;
            for (i, piece) in pieces.iter().enumerate() {
                let is_last = i + 1 == pieces.len() && pieces[0] != b"given up";
                let flags = u8::from(i == 0) | u8::from(is_last) << 1;
                let (content, check) = next(flags, piece);
                if flags == LAST {
                    assert!(content.ends_with(&u32::to_le_bytes(others)));
                }
                others ^= check;
            }
        }
    }

    #[test]
    fn a_piece_that_is_too_long_gives_no_frame() {
        assert_eq!(Frames::new().encode(0, &[1; PAYLOAD + 1], &mut [0; FRAME]), 0);
    }
}
