//! The other end of a device's line: frames in, a trace file out. The command `tracebuf receive`.
//!
//! A frame is COBS-encoded and ends with a zero; another goes before a device's first. It holds flags (1 byte: 1 a
//! packet begins, 2 it ends), a number (2, little-endian, 1 when the device starts, and one more than the frame's
//! before), a piece of a trace file, and CRC-32/ISO-HDLC over all of these (4, little-endian). Whatever happens to the
//! line, only packets all of whose frames arrived intact are passed on. With one exception, as nothing in a frame says
//! which start of the device it is of: a device that is reset just behind its first frame, and of whose next start
//! neither the zero nor the first frame arrive, seems to go on with its second frame. Then two packets pass as one.
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
//! assert_eq!(receiver.report().to_string(), "1 packets from 18 bytes, nothing lost");
//! ```

mod output;
mod packet;
mod source;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::file_error::about;
use crc::{CRC_32_ISO_HDLC, Crc};
use output::Output;
use source::{Waiting, open};

const FIRST: u8 = 1;
const LAST: u8 = 2;
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// Bytes of flags and number; and of the CRC.
const HEAD: usize = 3;
const CHECK: usize = 4;
/// What is shorter than this on the line was no frame: COBS adds a byte.
const MIN_FRAME: usize = HEAD + CHECK + 1;
/// A frame longer than this is none: zeros were lost. Devices make frames of 73 bytes.
const MAX_FRAME: usize = 64 * 1024;
/// A packet longer than this is given up.
const MAX_PACKET: usize = 64 << 20;
/// A device that is reset numbers its frames from 1 again. The frame that the reset cut short has no end but the zero
/// that the device begins with; should that be lost, so is the first frame. One of these should arrive.
const NUMBERS_AT_START: u16 = 16;
/// After a gap of so many frames or more one of those numbers is chance once in thousands of times: it is a restart.
/// Shorter gaps are more likely to be what they look like.
const LONG_GAP: u16 = 1024;

/// What came over a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveReport {
    /// Bytes, all of them.
    pub bytes: u64,
    /// Intact frames.
    pub frames: u64,
    /// Frames that arrived damaged, and whatever else was between two zeros.
    pub frames_corrupt: u64,
    /// Frames that are missing between intact ones, by their numbers, which count to 65,536; of those around a restart
    /// only the ones after it.
    pub frames_lost: u64,
    /// Packets passed on; in what [`receive`] tells at its end, those in the file.
    pub packets: u64,
    /// Packets that were to go into the file when writing it failed, and did not as far as is known.
    pub packets_unwritten: u64,
    /// Packets of which some frames arrived and others did not: at least so many, as the frames on either side of
    /// a gap are taken for one packet's unless they cannot be.
    pub packets_incomplete: u64,
    /// Packets that arrived whole and are none.
    pub packets_malformed: u64,
    /// Frames that the line ended in: none or one.
    pub frames_unfinished: u64,
    /// Whether the first intact frame is not a device's first, which has the number 1 and begins a packet. How many
    /// frames were before it is not known, and none of them is counted as lost.
    pub beginning_missing: bool,
    /// How often the device began to count anew, by numbers that make no sense otherwise. How many frames before that
    /// were lost is not known.
    pub restarts: u64,
}

impl ReceiveReport {
    /// Whether all that came was passed on, and nothing was missing since the first frame.
    fn is_whole(&self) -> bool {
        let frames = [self.frames_lost, self.frames_corrupt, self.frames_unfinished];
        let packets = [self.packets_incomplete, self.packets_malformed, self.packets_unwritten];
        frames == [0; 3] && packets == [0; 3] && self.restarts == 0
    }
}

impl fmt::Display for ReceiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets from {} bytes", self.packets, self.bytes)?;
        if self.frames == 0 {
            return f.write_str(", not one intact frame in them");
        }
        let (beginning, since) = match self.beginning_missing {
            true => (", the beginning missing", " since"),
            false => ("", ""),
        };
        f.write_str(beginning)?;
        if self.is_whole() {
            return write!(f, ", nothing lost{since}");
        }
        write!(f, "; of {} frames ", self.frames.saturating_add(self.frames_lost))?;
        write!(f, "{} lost ({} arrived damaged), ", self.frames_lost, self.frames_corrupt)?;
        write!(f, "{} packets incomplete", self.packets_incomplete)?;
        if self.packets_malformed > 0 {
            write!(f, ", {} malformed", self.packets_malformed)?;
        }
        if self.packets_unwritten > 0 {
            write!(f, ", {} not written", self.packets_unwritten)?;
        }
        if self.restarts > 0 {
            write!(f, "; the device restarted {} times, and what was lost then is not known", self.restarts)?;
        }
        f.write_str(if self.frames_unfinished > 0 { "; it ended in the midst of a frame" } else { "" })
    }
}

/// The packet that the next frame is of, unless one begins with it.
#[derive(Debug, Default)]
enum Current {
    /// None: the last one ended.
    #[default]
    Ended,
    /// All of it so far.
    Whole(Vec<u8>),
    /// Not all of it is here. It is counted, so none of its other frames may count it again.
    Incomplete,
}

/// Makes packets of the bytes of a line.
///
/// After a loss or a restart of the device the next packet of every sequence says so (`previous_packet_dropped`):
/// nobody knows whose packet it was, and readers must not go on with names that they may have missed. A damaged frame
/// is a loss too where no number is missing: a device that was reset may have come to the same number again.
#[derive(Debug, Default)]
pub struct Receiver {
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
            self.frame.extend_from_slice(head);
            let frame = std::mem::take(&mut self.frame);
            if let Some(packet) = self.take_frame(&frame) {
                pass(&packet)?;
                self.report.packets += 1;
            }
        }
        let room = MAX_FRAME.saturating_sub(self.frame.len());
        self.frame.extend_from_slice(rest.get(..room).unwrap_or(rest));
        Ok(())
    }

    /// The packet that a frame completes.
    fn take_frame(&mut self, encoded: &[u8]) -> Option<Vec<u8>> {
        if encoded.is_empty() {
            return None;
        }
        let Some((flags, number, piece)) = decode(encoded) else {
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
        // the first frame that arrives either says nothing.
        let damaged = std::mem::take(&mut self.damaged) && self.expected.is_some();
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
            self.packet = Current::Whole(Vec::new());
        }
        match &mut self.packet {
            Current::Whole(packet) if packet.len() < MAX_PACKET => packet.extend_from_slice(&piece),
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
        let finished = self.tell_of_losses(&packet);
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
        let packet = packet::Parsed::of(packet)?;
        let told = self.told.entry(packet.sequence_id).or_default();
        let lost = std::mem::replace(told, self.losses) != self.losses;
        Some(packet.bytes(lost))
    }
}

/// Whether bytes seem to be what came over a line: half of them or more are intact frames. In a device's memory there
/// may be one too.
pub fn is_line(bytes: &[u8]) -> bool {
    let pieces = bytes.split(|byte| *byte == 0).filter(|piece| piece.len() <= MAX_FRAME);
    let intact: usize = pieces.filter(|piece| decode(piece).is_some()).map(|piece| piece.len() + 1).sum();
    intact > 0 && intact >= bytes.len() / 2
}

/// Flags, number and piece of a frame that is intact.
fn decode(encoded: &[u8]) -> Option<(u8, u16, Vec<u8>)> {
    let mut frame = vec![0; encoded.len()];
    let size = cobs::decode(encoded, &mut frame).ok()?.frame_size();
    frame.truncate(size);
    let check = frame.split_off(size.checked_sub(CHECK).filter(|content| *content >= HEAD)?);
    if CRC.checksum(&frame).to_le_bytes() != *check {
        return None;
    }
    let piece = frame.split_off(HEAD);
    let [flags, low, high] = *frame.first_chunk()?;
    Some((flags, u16::from_le_bytes([low, high]), piece))
}

/// Receives from a regular file, a named pipe or a serial port into a trace file, until the file's end, until the pipe's
/// last writer closes it, or until `stop` is set. Tells how it goes twice a second, and what came in all when it ends,
/// by an error too.
///
/// # Errors
/// What the port or the file system says, or [`InvalidData`](io::ErrorKind::InvalidData) if not one whole packet came.
/// The trace file holds what came until then, as far as it could be written; what was in it before is there until the
/// first packet comes.
pub fn receive(
    port: impl AsRef<Path>,
    baud: u32,
    output: &Path,
    stop: &AtomicBool,
    progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    let port = port.as_ref();
    let line = open(port, baud).map_err(|error| about("receiving from", port, &error))?;
    receive_line(line, port, output, stop, progress)
}

/// The same from what is open already: standard input, a socket, what a debug probe reads. Errors call it `name`.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use std::sync::atomic::AtomicBool;
/// use tracebuf_std::receive::receive_from;
///
/// let (line, mut device) = UnixStream::pair()?;
/// device.write_all(b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0")?;
/// drop(device);
/// # let trace = &std::env::temp_dir().join(format!("receive-from-{}.pftrace", std::process::id()));
/// let report = receive_from(line, "the device", trace, &AtomicBool::new(false), |_| {})?;
/// assert_eq!(report.packets, 1);
/// # std::fs::remove_file(trace)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of [`receive`].
pub fn receive_from(
    line: impl Read + AsFd,
    name: impl AsRef<Path>,
    output: &Path,
    stop: &AtomicBool,
    progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    receive_line(Waiting(line), name.as_ref(), output, stop, progress)
}

/// From a line whose silence ends in an error from time to time.
fn receive_line(
    mut line: impl Read,
    name: &Path,
    output: &Path,
    stop: &AtomicBool,
    mut progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    let receiving = |error| about("receiving from", name, &error);
    let writing = |error| about("writing", output, &error);
    let mut file = Output::to(output).map_err(writing)?;
    let mut receiver = Receiver::new();
    let mut bytes = vec![0; 1 << 16];
    let mut next_word = Instant::now() + Duration::from_millis(500);
    let mut receive_all = || {
        while !stop.load(Ordering::Relaxed) {
            match line.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = bytes.get(..count).unwrap_or_default();
                    receiver.push(bytes, |packet| file.packet(packet)).map_err(writing)?;
                }
                Err(error) if is_silence(&error) => {
                    // Whoever looks at the file while the device is silent sees all there is.
                    file.flush().map_err(writing)?;
                }
                Err(error) => return Err(receiving(error)),
            }
            if Instant::now() >= next_word {
                next_word += Duration::from_millis(500);
                progress(&receiver.report());
            }
        }
        Ok(())
    };
    let received = receive_all();
    let flushed = file.flush().map_err(writing);
    let mut report = receiver.finish();
    (report.packets, report.packets_unwritten) = file.packets();
    progress(&report);
    flushed.and(received)?;
    if report.packets == 0 {
        let what = if report.frames == 0 { "intact frame" } else { "whole packet" };
        let none = format!("not one {what} came, so nothing is written");
        return Err(receiving(io::Error::new(io::ErrorKind::InvalidData, none)));
    }
    Ok(report)
}

fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_packet_that_is_too_long_the_next_one_says_that_something_is_missing() {
        // Of sequence 2.
        const PACKET: &[u8] = &[0x0A, 2, 0x50, 2];
        let frame = |flags, number: u8, piece: &[u8]| {
            let mut frame = [&[flags, number, 0], piece].concat();
            frame.extend(CRC.checksum(&frame).to_le_bytes());
            cobs::encode_vec(&frame)
        };
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take_frame(&frame(FIRST | LAST, 1, PACKET)).as_deref(), Some(PACKET));
        assert_eq!(receiver.take_frame(&frame(FIRST, 2, &[])), None);
        receiver.packet = Current::Whole(vec![0; MAX_PACKET]);
        assert_eq!(receiver.take_frame(&frame(LAST, 3, &[0])), None);
        let next = receiver.take_frame(&frame(FIRST | LAST, 4, PACKET)).unwrap();
        assert_eq!(next, [0x0A, 5, 0x50, 2, 0xD0, 0x02, 1]);
        assert_eq!(receiver.report.packets_incomplete, 1);
    }
}
