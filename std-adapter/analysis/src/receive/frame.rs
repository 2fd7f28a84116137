//! Frames: a packet, or a piece of one, as it goes over a line.

use crc::{CRC_32_ISO_HDLC, Crc};

pub(super) const FIRST: u8 = 1;
pub(super) const LAST: u8 = 2;
pub(super) const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// Bytes of flags and number; and of the CRC.
const HEAD: usize = 3;
const CHECK: usize = 4;
/// Anything shorter than this on the line was no frame: COBS adds a byte.
pub(super) const MIN_FRAME: usize = HEAD + CHECK + 1;
/// Anything longer than this on the line is no frame: zeros were lost. Devices make frames of 77 bytes.
pub(super) const MAX_FRAME: usize = 64 * 1024;

/// A frame that arrived intact.
pub(super) struct Frame {
    pub(super) flags: u8,
    pub(super) number: u16,
    pub(super) piece: Vec<u8>,
    pub(super) check: u32,
    /// The exclusive or of the CRCs of the packet's frames before it, if the frame has one.
    pub(super) others: Option<u32>,
}

/// Returns true if bytes seem to have come over a line: at least half of them are intact frames. A device's memory may
/// contain a frame too.
pub fn is_line(bytes: &[u8]) -> bool {
    let pieces = bytes.split(|byte| *byte == 0);
    let intact: usize = pieces.filter(|piece| decode(piece).is_some()).map(|piece| piece.len() + 1).sum();
    intact > 0 && intact >= bytes.len() / 2
}

/// The content of a frame, if it is intact.
pub(super) fn decode(encoded: &[u8]) -> Option<Frame> {
    if encoded.len() > MAX_FRAME {
        return None;
    }
    let mut frame = vec![0; encoded.len()];
    let size = cobs::decode(encoded, &mut frame).ok()?.frame_size();
    frame.truncate(size);
    let crc = frame.split_off(size.checked_sub(CHECK).filter(|content| *content >= HEAD)?);
    let check = CRC.checksum(&frame);
    if check.to_le_bytes() != *crc {
        return None;
    }
    let mut piece = frame.split_off(HEAD);
    let [flags, low, high] = *frame.first_chunk()?;
    let others = if flags & (FIRST | LAST) == LAST { split_check(&mut piece) } else { None };
    Some(Frame { flags, number: u16::from_le_bytes([low, high]), piece, check, others })
}

/// Takes four bytes from the end.
fn split_check(piece: &mut Vec<u8>) -> Option<u32> {
    let (rest, check) = piece.split_last_chunk()?;
    let (len, check) = (rest.len(), u32::from_le_bytes(*check));
    piece.truncate(len);
    Some(check)
}
