//! Frames: pieces of a trace on a line that loses bytes.
//!
//! A frame is `flags` (1 byte), `number` (2, little-endian), up to 64 bytes of trace, and CRC-32/ISO-HDLC over
//! all of these (4, little-endian), all of it COBS-encoded and ended by a zero. The zero is nowhere else, so a
//! receiver that joins late, or lost bytes, is at a frame's start after the next zero. One more zero goes before the
//! first frame, to end what a device that was reset has left on the line, and again each time the numbers begin anew.
//! Frames are numbered one after the other; a packet's first and last frames are flagged. So a receiver knows of every
//! packet whether it has all of it, and how many frames it has not. What it cannot know: whether a second frame is that
//! of the start whose first it has, when a reset came between the two and what the next start sent first was lost.
//!
//! ```
//! use tracebuf_firmware::frame::{FIRST, FRAME, LAST, encode};
//!
//! let mut line = [0; FRAME];
//! let len = encode(FIRST | LAST, 7, b"packet", &mut line);
//! assert_eq!((len, line[len - 1]), (15, 0));
//! ```

use cobs::CobsEncoder;
use crc::{CRC_32_ISO_HDLC, Crc};

/// A packet begins with this frame.
pub const FIRST: u8 = 1;
/// A packet ends with this frame.
pub const LAST: u8 = 2;
/// Bytes of trace in a frame, at most.
pub const PAYLOAD: usize = 64;
/// Bytes of a frame on the line, at most: flags, number, CRC, one byte of COBS, the zero.
pub const FRAME: usize = PAYLOAD + 9;

/// With its table of 1 KiB a frame takes 1,500 instructions, bit by bit 4,100; and unrolled for speed that is as long.
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Puts a frame around a piece, and says how long it is: 0, and nothing usable, for a piece of more than
/// [`PAYLOAD`] bytes.
pub fn encode(flags: u8, number: u16, piece: &[u8], line: &mut [u8; FRAME]) -> usize {
    let [low, high] = number.to_le_bytes();
    let head = [flags, low, high];
    let mut digest = CRC.digest();
    digest.update(&head);
    digest.update(piece);
    let check = digest.finalize().to_le_bytes();
    let mut encoder = CobsEncoder::new(line);
    let pushed = [&head, piece, &check].iter().all(|part| encoder.push(part).is_ok());
    let len = encoder.finalize();
    match line.get_mut(len) {
        Some(end) if pushed => {
            *end = 0;
            len + 1
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_any_length_comes_back_and_holds_no_zero_but_its_last_byte() {
        for len in 0..=PAYLOAD {
            let piece: Vec<u8> = (0..len).map(|i| (i % 3) as u8).collect();
            let mut line = [0xEE; FRAME];
            let size = encode(FIRST, 0x0102, &piece, &mut line);
            assert_eq!(line[..size].iter().position(|byte| *byte == 0), Some(size - 1), "{len}");
            let mut decoded = [0; FRAME];
            let report = cobs::decode(&line[..size - 1], &mut decoded).unwrap();
            let decoded = &decoded[..report.frame_size()];
            assert_eq!(decoded[..3], [FIRST, 2, 1]);
            assert_eq!(decoded[3..len + 3], piece);
            assert_eq!(decoded[len + 3..], CRC.checksum(&decoded[..len + 3]).to_le_bytes());
        }
    }

    #[test]
    fn a_piece_that_is_too_long_gives_no_frame() {
        assert_eq!(encode(0, 0, &[1; PAYLOAD + 1], &mut [0; FRAME]), 0);
    }
}
