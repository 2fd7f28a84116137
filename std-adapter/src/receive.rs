//! The other end of a device's line: frames in, a trace file out. The command `tracebuf receive`.
//!
//! A frame is COBS-encoded and ends with a zero; another goes before a device's first. It holds flags (1 byte: 1 a
//! packet begins, 2 it ends), a number (2, little-endian, 1 when the device starts, and one more than the frame's
//! before), a piece of a trace file, and CRC-32/ISO-HDLC over all of these (4, little-endian). Behind the last piece of
//! a packet of several frames is the exclusive or of the CRCs of the others (4): their numbers alone could be those of
//! two packets, when a device was reset between them. Whatever happens to the line, only packets all of whose frames
//! arrived intact are passed on.
//!
//! ```
//! use tracebuf_std::receive::Receiver;
//!
//! let mut receiver = Receiver::new();
//! let mut packets = 0;
//! // A packet with the timestamp 5 of sequence 2, and a zero too many, as a line that is turned on may give.
//! let line = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";
//! receiver.push(line, |packet| { assert_eq!(packet.len(), 8); packets += 1; Ok::<_, ()>(()) }).unwrap();
//! assert_eq!(packets, 1);
//! assert_eq!(receiver.report().to_string(), "1 packet from 18 bytes, nothing lost on the line");
//! ```

mod frame;
mod line;
mod output;
mod report;
mod source;

use std::collections::HashMap;

use crate::packet::Parsed;
pub use frame::is_line;
use frame::{FIRST, Frame, LAST, MAX_FRAME, MIN_FRAME, decode};
pub use line::{receive, receive_from};
pub use report::ReceiveReport;

/// A packet longer than this is given up.
const MAX_PACKET: usize = 64 << 20;
/// A device that is reset numbers its frames from 1 again. The frame that the reset cut short has no end but the zero
/// that the device begins with; should that be lost, so is the first frame. One of these should arrive.
const NUMBERS_AT_START: u16 = 16;
/// After a gap of so many frames or more one of those numbers is chance once in thousands of times: it is a restart.
/// Shorter gaps are more likely to be what they look like.
const LONG_GAP: u16 = 1024;

/// The packet that the next frame is of, unless one begins with it.
#[derive(Debug, Default)]
enum Current {
    /// None: the last one ended.
    #[default]
    Ended,
    /// All of it so far.
    Whole(Pieces),
    /// Not all of it is here. It is counted, so none of its other frames may count it again.
    Incomplete,
}

/// Of a packet all frames until now.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// The exclusive or of the frames' CRCs.
    checks: u32,
}

/// Makes packets of the bytes of a line.
///
/// After a loss or a restart of the device the next packet of every sequence says so (`previous_packet_dropped`):
/// nobody knows whose packet it was, and readers must not go on with names that they may have missed. A damaged frame
/// is a loss too where no number is missing: a device that was reset may have come to the same number again.
///
/// A frame of more than 64 KiB, as COBS encodes it and without its zero, and a packet of more than 64 MiB are given up
/// and counted, the one as corrupt, the other as incomplete. What packets come of a line, and what is reported of it,
/// does not depend on the pieces that it is pushed in. Memory is taken for the packet that is on its way, three times
/// its size at most, which is when it is finished, and some 40 bytes for each sequence.
#[derive(Debug, Default)]
pub struct Receiver {
    /// What came of it so far. Of one that is too long it is only as much as shows that.
    frame: Vec<u8>,
    packet: Current,
    expected: Option<u16>,
    /// Since the last intact frame something came that may have been one.
    damaged: bool,
    /// Losses so far, and how many of them each sequence has told of.
    losses: u64,
    told: HashMap<u64, u64>,
    report: ReceiveReport,
}

impl Receiver {
    /// At the start of a line, or anywhere in its midst.
    pub fn new() -> Self {
        Self::default()
    }

    /// What came so far.
    pub fn report(&self) -> ReceiveReport {
        self.report
    }

    /// What came in all, when nothing more will: what is not finished then is lost.
    pub fn finish(mut self) -> ReceiveReport {
        self.report.frames_unfinished += u64::from(!self.frame.is_empty());
        self.give_up_unfinished();
        self.report
    }

    /// Takes the next bytes, and passes on each packet that they complete, as it is to be written into a trace
    /// file.
    ///
    /// # Errors
    /// Those of `pass`; the rest of the bytes is not looked at then.
    pub fn push<E>(&mut self, bytes: &[u8], mut pass: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.report.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            let (head, tail) = rest.split_at(end);
            rest = tail.get(1..).unwrap_or_default();
            self.append(head);
            let frame = std::mem::take(&mut self.frame);
            if let Some(packet) = self.take_frame(&frame) {
                pass(&packet)?;
                self.report.packets += 1;
            }
        }
        self.append(rest);
        Ok(())
    }

    /// Adds to the frame that is on its way.
    fn append(&mut self, bytes: &[u8]) {
        // One byte more than a frame has, or the beginning of a longer one would pass for a frame.
        let room = (MAX_FRAME + 1).saturating_sub(self.frame.len());
        self.frame.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// The packet that a frame completes.
    fn take_frame(&mut self, encoded: &[u8]) -> Option<Vec<u8>> {
        if encoded.is_empty() {
            return None;
        }
        let Some(Frame { flags, number, piece, check, others }) = decode(encoded) else {
            self.report.frames_corrupt += 1;
            self.damaged |= encoded.len() >= MIN_FRAME;
            return None;
        };
        self.report.frames += 1;
        let is_devices_first = (number, flags & FIRST) == (1, FIRST);
        if self.expected.is_none() && !is_devices_first {
            // Who joins late has missed something, perhaps.
            self.report.beginning_missing = true;
            self.losses += 1;
        }
        // Whose number is none the less the next: a device that is reset in the midst of its second frame damages its
        // first with it, and goes on with a second. Of noise of that length nobody knows that it was nothing more; it
        // costs the packet that it is in, while shorter noise, as of a line that is turned on, costs nothing. Before
        // the first frame that arrives it costs none: a device that is reset in the midst of its first frame goes on
        // with what was behind that packet, as if it began there.
        let damaged = std::mem::take(&mut self.damaged);
        let expected = self.expected.unwrap_or(number);
        let gap = number.wrapping_sub(expected);
        let restarted = gap >= LONG_GAP && (is_devices_first || (2..=NUMBERS_AT_START).contains(&number));
        self.expected = Some(number.wrapping_add(1));
        self.report.frames_lost += u64::from(number.wrapping_sub(if restarted { 1 } else { expected }));
        self.report.restarts += u64::from(restarted);
        let lost = gap > 0 || damaged;
        self.losses += u64::from(lost);
        if lost || flags & FIRST != 0 {
            // The device gives packets up that were overwritten on their way, and says so itself.
            self.give_up_unfinished();
        }
        if restarted {
            // What comes now is of another packet.
            self.packet = Current::Ended;
        }
        if flags & FIRST != 0 {
            self.packet = Current::Whole(Pieces::default());
        }
        if let Current::Whole(packet) = &self.packet
            && flags & (FIRST | LAST) == LAST
            && others != Some(packet.checks)
        {
            // The device was reset behind the frame before, and the first of this one's packet was lost.
            self.give_up();
            self.packet = Current::Ended;
            self.report.restarts += 1;
        }
        match &mut self.packet {
            Current::Whole(packet) if packet.bytes.len() + piece.len() <= MAX_PACKET => {
                packet.bytes.extend_from_slice(&piece);
                packet.checks ^= check;
            }
            Current::Incomplete => {}
            // Too long, or without its first frame.
            Current::Whole(_) | Current::Ended => {
                self.losses += 1;
                self.give_up();
            }
        }
        if flags & LAST == 0 {
            return None;
        }
        let Current::Whole(packet) = std::mem::take(&mut self.packet) else {
            return None;
        };
        let finished = self.tell_of_losses(&packet.bytes);
        let malformed = u64::from(finished.is_none());
        self.report.packets_malformed += malformed;
        self.losses += malformed;
        finished
    }

    fn give_up_unfinished(&mut self) {
        if matches!(self.packet, Current::Whole(_)) {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.packet = Current::Incomplete;
        self.report.packets_incomplete += 1;
    }

    fn tell_of_losses(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let packet = Parsed::of(packet)?;
        let told = self.told.entry(packet.sequence_id).or_default();
        let lost = std::mem::replace(told, self.losses) != self.losses;
        Some(packet.bytes(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::frame::CRC;
    use super::*;

    /// Of sequence 2.
    const PACKET: &[u8] = &[0x0A, 2, 0x50, 2];

    fn frame(flags: u8, number: u8, piece: &[u8]) -> Vec<u8> {
        let mut frame = [&[flags, number, 0], piece].concat();
        frame.extend(CRC.checksum(&frame).to_le_bytes());
        cobs::encode_vec(&frame)
    }

    #[test]
    fn after_a_packet_that_is_too_long_the_next_one_says_that_something_is_missing() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take_frame(&frame(FIRST | LAST, 1, PACKET)).as_deref(), Some(PACKET));
        assert_eq!(receiver.take_frame(&frame(FIRST, 2, &[])), None);
        receiver.packet = Current::Whole(Pieces { bytes: vec![0; MAX_PACKET], checks: 0 });
        assert_eq!(receiver.take_frame(&frame(LAST, 3, &[9, 0, 0, 0, 0])), None);
        let next = receiver.take_frame(&frame(FIRST | LAST, 4, PACKET)).unwrap();
        assert_eq!(next, [0x0A, 5, 0x50, 2, 0xD0, 0x02, 1]);
        assert_eq!(receiver.report.packets_incomplete, 1);
    }

    #[test]
    fn the_longest_packet_has_64_mib_wherever_its_frames_end() {
        for (before, told) in [(MAX_PACKET - 2, (0, 1)), (MAX_PACKET - 1, (1, 0))] {
            let mut receiver = Receiver::new();
            assert_eq!(receiver.take_frame(&frame(FIRST, 1, &[])), None);
            receiver.packet = Current::Whole(Pieces { bytes: vec![0; before], checks: 0 });
            // Two bytes, and a check of none before them. All of it together is no packet.
            assert_eq!(receiver.take_frame(&frame(LAST, 2, &[9, 9, 0, 0, 0, 0])), None);
            assert_eq!((receiver.report.packets_incomplete, receiver.report.packets_malformed), told);
        }
    }
}
