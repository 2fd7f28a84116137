//! The receiving end of a device's line, from frames to trace files or into a session: the command `tracebuf receive`.
//!
//! A device sends packets, or what it [records in place](tracebuf::inplace), of which packets are made here; a receiver
//! sees which. Whatever happens to the line, only packets all of whose [frames](tracebuf::proto::frame) arrived intact
//! are passed on, and events of chunks that did.
//!
//! A device that restarts begins its clock anew, so each of its starts is a trace of its own. With every packet, the
//! receiver says which start it belongs to; [`Receiver`] tells how it finds out.
//!
//! ```
//! use tracebuf_analysis::receive::Receiver;
//!
//! let mut receiver = Receiver::new();
//! let mut packets = 0;
//! // A packet with the timestamp 5 of sequence 2, and a zero too many, as a line that is turned on may give.
//! let line = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";
//! receiver
//!     .push(line, |start, packet| {
//!         assert_eq!((start, packet.len()), (1, 8));
//!         packets += 1;
//!         Ok::<_, ()>(())
//!     })
//!     .unwrap();
//! assert_eq!(packets, 1);
//! assert_eq!(receiver.report().to_string(), "1 packet from 18 bytes, nothing lost on the line");
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `line` | the loop from a line's bytes to the trace | all below |
//! | `options` | what to receive, and how | nothing |
//! | `source` | what is read, or waited for | `tcp` |
//! | `tcp` | a probe's server, read with a time limit | nothing |
//! | this one | the receiver: packets from a line's bytes | `chunks`, `starts`, `report` |
//! | `chunks` | names, starts and chunks of what is recorded in place | `known`, `timeline`, `host_clock`, `report` |
//! | `destination` | where packets go | `files`, `session` |
//! | `files` | a trace file for each start of the device | `output` |
//! | `session` | a session's trace | nothing |
//! | `output` | a trace file, and the packets in it | `clocks` |
//! | `known` | a device's names, and what it says of itself | nothing |
//! | `clocks` | how clocks of a trace are related | `host_clock` |
//! | `host_clock` | packets that tell what clocks showed at one moment | `timeline` |
//! | `timeline` | the host's time of a device's times | nothing |
//! | `starts`, `report` | starts of a device that sends packets, counts | nothing |

mod chunks;
mod clocks;
mod destination;
mod files;
mod host_clock;
mod known;
mod line;
mod options;
mod output;
mod report;
mod session;
mod source;
mod starts;
mod tcp;
mod timeline;

use chunks::{Chunks, DeviceOptions};
pub use destination::Destination;
pub use line::{receive, receive_all, receive_from};
pub use options::ReceiveOptions;
pub use report::ReceiveReport;
use starts::Starts;
use tracebuf::proto::PacketView;
use tracebuf::proto::frame::{CorruptFrame, FIRST, Frame, FrameDecoder, LAST};

/// Anything longer than this on the line is no frame: zeros were lost. Devices make frames of 77 bytes.
const MAX_FRAME: usize = 64 * 1024;
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

/// Turns the bytes of a line into packets.
///
/// ```
/// use std::io::Write;
/// use tracebuf_analysis::receive::Receiver;
///
/// # let line = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";
/// # let mut pieces = line.chunks(7);
/// # let mut read = || pieces.next();
/// let (mut receiver, mut trace) = (Receiver::new(), Vec::new());
/// while let Some(bytes) = read() { // as they come over a serial line, in pieces of any size
///     receiver.push(bytes, |_start, packet| trace.write_all(packet))?;
/// }
/// let report = receiver.finish();
/// assert_eq!((report.packets, trace.len()), (1, 8));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// After a loss or a restart, the next packet of every sequence says so (`previous_packet_dropped`): nobody knows whose
/// packet was lost. A damaged frame is a loss even where no number is missing. A start does not report what was lost
/// before it.
///
/// # Starts
///
/// A restart shows in the frames' numbers. A device whose memory outlived the reset first sends what the previous start
/// had not sent yet. So after a restart, packets belong to the new start only from one of these on:
///
/// - The first packet of a sequence ([`FIRST_PACKET_ON_SEQUENCE`]) that had packets already, or one whose clock is
///   behind that sequence's last: the memory was lost, and everything from here on belongs to the new start.
/// - A packet of a producer (the upper half of a [`sequence_id`]) that was not heard before: the memory was kept, and
///   the device counts its starts there. This producer's packets belong to the new start, other producers' to theirs.
///
/// Until then, packets belong to the start that their producer was in. Each restart has at most one new start; several
/// producers of a start are in one trace. One restart in 64 has numbers as after a short loss: after such a loss, a
/// clock that goes back or a new producer tells the start.
///
/// If a new start's first packets are lost, its clock tells the start. Two starts become one trace if the device ran
/// for less time before the restart than it then does until a sequence's next state, or if little of one was received.
///
/// [`FIRST_PACKET_ON_SEQUENCE`]: tracebuf::proto::fields::trace_packet::FIRST_PACKET_ON_SEQUENCE
/// [`sequence_id`]: tracebuf::service::sequence_id
///
/// # Limits
///
/// Frames of more than 64 KiB on the line count as corrupt, packets of more than 64 MiB as incomplete. Memory: 64 KiB,
/// up to three times the packet being received, and some 100 bytes for each sequence.
///
/// # Recorded in place
///
/// Of a device that records in place, each start says its number, and says it again about once a second; chunks from
/// before the first time wait for it, and chunks whose names are not known for these, up to 256 of them. So call
/// [`release`](Self::release) when nothing more comes.
#[derive(Debug)]
pub struct Receiver {
    decoder: FrameDecoder<Vec<u8>>,
    frames: Frames,
    chunks: Chunks,
    /// Packets of a device would have numbers of the host's or another device's.
    refuses_packets: bool,
}

/// The frames so far.
#[derive(Debug, Default)]
struct Frames {
    packet: Current,
    expected: Option<u16>,
    /// Something that may have been a frame came since the last intact one.
    damaged: bool,
    /// The line was interrupted since then.
    interrupted: bool,
    /// Losses so far.
    losses: u64,
    starts: Starts,
    report: ReceiveReport,
}

impl Receiver {
    /// Makes a receiver that begins at the start of a line, or anywhere within it.
    pub fn new() -> Self {
        Self::of_device(DeviceOptions::default(), false)
    }

    /// The same for a device among others, or with the host's time.
    fn of_device(options: DeviceOptions, refuses_packets: bool) -> Self {
        let chunks = Chunks::new(options);
        Self { decoder: decoder(), frames: Frames::default(), chunks, refuses_packets }
    }

    /// Counts of what came so far.
    pub fn report(&self) -> ReceiveReport {
        self.frames.report.clone()
    }

    /// The report when nothing more will come: what is not finished then is lost.
    pub fn finish(mut self) -> ReceiveReport {
        self.frames.give_up_unfinished();
        self.end_frame();
        self.frames.report
    }

    /// Notes that the line was interrupted, as when the device was unplugged: what is not finished is lost, and so may
    /// be more. The device may have restarted meanwhile.
    pub fn interrupt(&mut self) {
        self.frames.give_up_unfinished();
        self.end_frame();
        self.decoder = decoder();
        self.frames.packet = Current::Ended;
        self.frames.damaged = self.frames.report.bytes > 0;
        self.frames.interrupted = true;
        self.frames.report.interruptions += 1;
    }

    fn end_frame(&mut self) {
        self.frames.report.frames_unfinished += u64::from(self.decoder.is_within_frame());
    }

    /// Takes the next bytes, and passes on each packet that they complete, in the form in which it goes into a trace
    /// file. The number before it is that of the device's start, from 1 on. A packet of an earlier start may follow
    /// those of a later one, and belongs into the earlier start's file.
    ///
    /// # Errors
    /// Those of `pass`; the rest of the bytes is then not looked at.
    pub fn push<E>(&mut self, bytes: &[u8], pass: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        self.push_at(None, bytes, pass)
    }

    /// The same for bytes that were read at this time of the host.
    fn push_at<E>(
        &mut self,
        now: Option<u64>,
        bytes: &[u8],
        mut pass: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { decoder, frames, chunks, refuses_packets } = self;
        frames.report.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while let Some(frame) = decoder.next(&mut rest) {
            let packets = match frame {
                Ok(frame) if Chunks::is_of(&frame) => {
                    frames.report.frames += 1;
                    chunks.take(&frame, now, &mut frames.report)
                }
                frame => {
                    let whole = frames.take(frame);
                    let refused = whole.is_some() && *refuses_packets;
                    frames.report.packets_refused += u64::from(refused);
                    whole.filter(|_| !refused).into_iter().collect()
                }
            };
            frames.pass(packets, &mut pass)?;
        }
        Ok(())
    }

    /// Passes on what waits for more to come: chunks whose names are not known. To be called when nothing more will
    /// come.
    ///
    /// # Errors
    /// Those of `pass`; what waits is then lost.
    pub fn release<E>(&mut self, mut pass: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let packets = self.chunks.release(None, true, &mut self.frames.report);
        self.frames.pass(packets, &mut pass)
    }

    /// Passes on what has waited for long enough.
    fn look<E>(&mut self, now: u64, mut pass: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let packets = self.chunks.release(Some(now), false, &mut self.frames.report);
        self.frames.pass(packets, &mut pass)
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

fn decoder() -> FrameDecoder<Vec<u8>> {
    FrameDecoder::new(vec![0; MAX_FRAME])
}

/// Returns true if bytes seem to have come over a line: at least half of them are intact frames. A device's memory may
/// contain a frame too.
pub fn is_line(bytes: &[u8]) -> bool {
    let (mut decoder, mut intact) = (decoder(), 0);
    // The last frame's zero may be missing.
    for mut rest in [bytes, &[0]] {
        while let Some(frame) = decoder.next(&mut rest) {
            intact += frame.map_or(0, |frame| frame.encoded_len + 1);
        }
    }
    intact > 0 && intact >= bytes.len() / 2
}

impl Frames {
    fn pass<E>(
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
    fn take(&mut self, frame: Result<Frame<'_>, CorruptFrame>) -> Option<(u64, Vec<u8>)> {
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

    fn give_up_unfinished(&mut self) {
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
