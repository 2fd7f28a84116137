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
//! | this one | the receiver: packets from a line's bytes | `frames`, `chunks`, `report` |
//! | `frames` | packets from a line's frames | `starts`, `report` |
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
mod frames;
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
use frames::Frames;
pub use line::{receive, receive_all, receive_from};
pub use options::ReceiveOptions;
pub use report::ReceiveReport;
use tracebuf::proto::frame::FrameDecoder;

/// Anything longer than this on the line is no frame: zeros were lost. Devices make frames of 77 bytes.
const MAX_FRAME: usize = 64 * 1024;
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
        self.frames.interrupt();
        self.end_frame();
        self.decoder = decoder();
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
