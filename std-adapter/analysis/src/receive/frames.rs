//! Packets from the frames of a device's line.

use tracebuf::proto::PacketView;
use tracebuf::proto::frame::{CorruptFrame, FIRST, Frame, LAST};

use super::report::ReceiveReport;
use super::starts::Starts;

/// A packet longer than this is given up.
const MAX_PACKET: usize = 64 << 20;
/// A device that is reset numbers its frames from 1 again. The frame that the reset cut short is only ended by the zero
/// that the device begins with; if that is lost, so is the first frame. One of these numbers should arrive.
const NUMBERS_AT_START: u16 = 16;
/// After a gap of this many frames or more, one of those numbers occurs by chance once in thousands of times, so it
/// means a restart. Shorter gaps are more likely to be what they look like.
const LONG_GAP: u16 = 1024;

/// The packet that the next frame belongs to, unless that frame begins one.
#[derive(Debug, Default)]
enum Current {
    /// None: the last one ended.
    #[default]
    Ended,
    /// All of it so far.
    Whole(Pieces),
    /// Not all of it arrived. It has been counted, so none of its other frames may count it again.
    Incomplete,
}

/// All frames of a packet so far.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// The exclusive or of the frames' CRCs.
    checks: u32,
}

/// The frames so far.
#[derive(Debug, Default)]
pub(super) struct Frames {
    packet: Current,
    expected: Option<u16>,
    /// Something that may have been a frame came since the last intact one.
    damaged: bool,
    /// The line was interrupted since then.
    interrupted: bool,
    /// Losses so far.
    losses: u64,
    starts: Starts,
    pub(super) report: ReceiveReport,
}

impl Frames {
    pub(super) fn pass<E>(
        &mut self,
        packets: Vec<(u64, Vec<u8>)>,
        pass: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (start, packet) in packets {
            pass(start, &packet)?;
            self.report.packets += 1;
            self.report.starts = self.report.starts.max(start);
        }
        Ok(())
    }

    /// Takes a frame; returns the number of the start and the packet that it completes.
    pub(super) fn take(&mut self, frame: Result<Frame<'_>, CorruptFrame>) -> Option<(u64, Vec<u8>)> {
        let Frame { flags, number, piece, check, others, .. } = match frame {
            Ok(frame) => frame,
            Err(corrupt) => {
                self.report.frames_corrupt += 1;
                self.damaged |= corrupt.may_be_frame();
                return None;
            }
        };
        self.report.frames += 1;
        let is_devices_first = (number, flags & FIRST) == (1, FIRST);
        if self.expected.is_none() && !is_devices_first {
            // A receiver that joins late may have missed something.
            self.report.beginning_missing = true;
            self.losses += 1;
        }
        // A loss even if the number is the next one: a device that is reset while sending its second frame damages its
        // new first frame with it, and goes on with a second. Noise of a frame's length costs the packet that it is in,
        // shorter noise nothing.
        let damaged = std::mem::take(&mut self.damaged);
        let was_interrupted = std::mem::take(&mut self.interrupted);
        let expected = self.expected.unwrap_or(number);
        let gap = number.wrapping_sub(expected);
        let may_be_start = is_devices_first || (2..=NUMBERS_AT_START).contains(&number);
        let restarted = gap >= LONG_GAP && may_be_start;
        self.expected = Some(number.wrapping_add(1));
        self.report.frames_lost += u64::from(number.wrapping_sub(if restarted { 1 } else { expected }));
        self.report.restarts += u64::from(restarted);
        let lost = gap > 0 || damaged;
        let before = self.losses;
        self.losses += u64::from(lost);
        // Nothing is missing of a start whose first frame is here.
        let before = if is_devices_first { self.losses } else { before };
        if restarted {
            self.starts.restarted(before);
        } else if was_interrupted || may_be_start && number < expected {
            // Or a loss where the numbers wrap, as they do without a restart.
            self.starts.suspected(before);
        }
        if lost || flags & FIRST != 0 {
            // The device gives up packets that were overwritten on their way, and says so itself.
            self.give_up_unfinished();
        }
        if restarted {
            // What comes now belongs to another packet.
            self.packet = Current::Ended;
        }
        if flags & FIRST != 0 {
            self.packet = Current::Whole(Pieces::default());
        }
        if let Current::Whole(packet) = &self.packet
            && flags & (FIRST | LAST) == LAST
            && others != Some(packet.checks)
        {
            // The device was reset after the previous frame, and the first frame of this packet was lost.
            self.give_up();
            self.packet = Current::Ended;
            self.report.restarts += 1;
            self.starts.restarted(self.losses);
        }
        match &mut self.packet {
            Current::Whole(packet) if packet.bytes.len() + piece.len() <= MAX_PACKET => {
                packet.bytes.extend_from_slice(piece);
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
        let finished = self.finish_packet(&packet.bytes);
        let malformed = u64::from(finished.is_none());
        self.report.packets_malformed += malformed;
        self.losses += malformed;
        finished
    }

    pub(super) fn interrupt(&mut self) {
        self.give_up_unfinished();
        self.packet = Current::Ended;
        self.damaged = self.report.bytes > 0;
        self.interrupted = true;
        self.report.interruptions += 1;
    }

    pub(super) fn give_up_unfinished(&mut self) {
        if matches!(self.packet, Current::Whole(_)) {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.packet = Current::Incomplete;
        self.report.packets_incomplete += 1;
    }

    /// Whose it is, and the packet as it tells of losses.
    fn finish_packet(&mut self, packet: &[u8]) -> Option<(u64, Vec<u8>)> {
        let packet = PacketView::of_file(packet)?;
        let (start, lost) = self.starts.take(&packet, self.losses);
        self.report.restarts += self.starts.take_unnoticed();
        let mut bytes = Vec::with_capacity(packet.content.len() + 16);
        let Ok(()) = packet.write_to(lost, &mut bytes);
        Some((start, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of sequence 2.
    const PACKET: &[u8] = &[0x0A, 2, 0x50, 2];

    fn take(
        frames: &mut Frames,
        flags: u8,
        number: u16,
        piece: &[u8],
        others: Option<u32>,
    ) -> Option<(u64, Vec<u8>)> {
        frames.take(Ok(Frame { flags, number, piece, check: 5, others, encoded_len: piece.len() + 8 }))
    }

    #[test]
    fn after_a_packet_that_is_too_long_the_next_one_says_that_something_is_missing() {
        let mut frames = Frames::default();
        assert_eq!(take(&mut frames, FIRST | LAST, 1, PACKET, None), Some((1, PACKET.to_vec())));
        assert_eq!(take(&mut frames, FIRST, 2, &[], None), None);
        frames.packet = Current::Whole(Pieces { bytes: vec![0; MAX_PACKET], checks: 0 });
        assert_eq!(take(&mut frames, LAST, 3, &[9], Some(0)), None);
        let (_, next) = take(&mut frames, FIRST | LAST, 4, PACKET, None).unwrap();
        assert_eq!(next, [0x0A, 5, 0x50, 2, 0xD0, 0x02, 1]);
        assert_eq!(frames.report.packets_incomplete, 1);
    }

    #[test]
    fn the_longest_packet_has_64_mib_wherever_its_frames_end() {
        for (before, told) in [(MAX_PACKET - 2, (0, 1)), (MAX_PACKET - 1, (1, 0))] {
            let mut frames = Frames::default();
            assert_eq!(take(&mut frames, FIRST, 1, &[], None), None);
            frames.packet = Current::Whole(Pieces { bytes: vec![0; before], checks: 0 });
            // Two bytes. All of it together is no packet.
            assert_eq!(take(&mut frames, LAST, 2, &[9, 9], Some(0)), None);
            assert_eq!((frames.report.packets_incomplete, frames.report.packets_malformed), told);
        }
    }
}
