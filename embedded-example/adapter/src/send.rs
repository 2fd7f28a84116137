//! The sender: packets out of the ring, a piece at a time, while recording goes on.
//!
//! A packet is leased, not copied: its bytes are fetched from the ring when the line has room for them. If the writers
//! were faster and have overwritten it, it is given up, and its sequence's next packet says so. A reset costs at most
//! the packet on its way, which a receiver of frames reports.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf_embedded::export::Blocking;
//! use tracebuf_embedded::send::{Progress, Sender};
//!
//! let mut buffer = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?;
//! let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
//! buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 5] }); // a packet: timestamp = 5
//!
//! let mut line = [0; 64];
//! let mut sender = Sender::framed(Blocking(&mut line[..]));
//! while sender.poll(&mut buffer).unwrap() == Progress::Sent {}
//! assert_eq!(sender.packets(), 1);
//! # Ok::<(), tracebuf::buffer::RegionError>(())
//! ```

use crate::export::Export;
pub use crate::export::Progress;
use crate::line::{Envelope, Line};
use crate::recorder::{InboxLosses, RingRecorder};
use core::fmt;
use core::iter::once;
use tracebuf::buffer::{DataLoss, Lease, ReadOnlyTraceBuffer, TraceBuffer};
use tracebuf::producer::Producer;
use tracebuf::proto::trace_stats::{BufferStats, TraceStats, TraceStatsPacket};
use tracebuf::proto::{Encoder, Message, SequenceId, TrustedFields};

/// Sends the packets of a ring as a trace file, each with what only the service may say about it.
///
/// Always give it the same ring: a packet that was begun is fetched from whatever ring comes with the next call. With
/// several recorders, each has its own sender, line and trace, because they number their writers alike.
pub struct Sender<E> {
    line: Line<E>,
    current: Option<Current>,
    packets: u32,
    given_up: u32,
    invalid: u32,
}

/// The packet that a sender had read but not fully sent, for [another sender](Sender::resuming) of the same ring.
#[derive(Default)]
#[must_use = "dropped, the packet is lost, and nothing tells it"]
pub struct Unsent {
    current: Option<Current>,
    given_up: u32,
    invalid: u32,
}

impl fmt::Debug for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent").field("is_packet", &self.current.is_some()).finish_non_exhaustive()
    }
}

/// The packet on its way.
struct Current {
    lease: Lease,
    envelope: Envelope,
    at: usize,
    /// Whether its last piece is on the line: it is not sent until the line has taken that.
    is_last: bool,
}

impl<E: Export> Sender<E> {
    /// Sends the trace file as it is, over a line that loses nothing.
    ///
    /// An error ends that file, perhaps in the middle of a packet. What comes later belongs in a file of its own, from
    /// another sender that [resumes](Self::resuming) where this one ended, or after [`abandon`](Self::abandon).
    pub const fn raw(exporter: E) -> Self {
        Self::new(exporter, false)
    }

    /// Sends frames, over a line that may lose bytes.
    pub const fn framed(exporter: E) -> Self {
        Self::new(exporter, true)
    }

    const fn new(exporter: E, framed: bool) -> Self {
        Sender { line: Line::new(exporter, framed), current: None, packets: 0, given_up: 0, invalid: 0 }
    }

    /// Sends that packet first, from its beginning, or gives it up if it has been overwritten.
    pub fn resuming(self, unsent: Unsent) -> Self {
        let Unsent { current, given_up, invalid } = unsent;
        Self { current, given_up, invalid, ..self }
    }

    /// Ends this sender after an error, and returns the packet that it has not fully sent, with its counts. A reset
    /// before the next sender costs the packet, and nothing reports it.
    pub fn into_unsent(self) -> Unsent {
        let current = self.current.map(|current| Current { at: 0, is_last: false, ..current });
        Unsent { current, given_up: self.given_up, invalid: self.invalid }
    }

    /// The line.
    pub const fn exporter(&mut self) -> &mut E {
        &mut self.line.exporter
    }

    /// Packets sent whole.
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets that were overwritten while they were being sent, or abandoned. At the end of a trace they are part of
    /// `chunks_overwritten`.
    pub const fn given_up(&self) -> u32 {
        self.given_up
    }

    /// Sends one piece, of at most 64 bytes of packet. Without frames it sends a whole packet and waits for the line,
    /// because nothing would tell a reader that a packet was given up.
    ///
    /// A loop that records more than a piece in a turn calls this, and the drain before each call, until it returns
    /// [`Busy`](Progress::Busy) or [`Idle`](Progress::Idle): otherwise the ring laps over what is still to be sent.
    /// While writers keep up with the line, it returns neither.
    ///
    /// # Errors
    /// The line's. With frames, the next call sends the piece again. Without frames there must be no next call: see
    /// [`raw`](Self::raw).
    pub fn poll<M: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        buffer: &mut TraceBuffer<M>,
    ) -> Result<Progress, E::Error> {
        loop {
            while self.line.left() == 0 {
                if !self.next_piece(buffer) {
                    return Ok(Progress::Idle);
                }
            }
            let progress = self.offer()?;
            if self.line.framed || (self.line.left() == 0 && self.current.is_none()) {
                return Ok(progress);
            }
        }
    }

    fn offer(&mut self) -> Result<Progress, E::Error> {
        let is_taken = self.line.offer()?;
        if self.line.left() == 0 && self.current.take_if(|current| current.is_last).is_some() {
            self.packets = self.packets.saturating_add(1);
        }
        Ok(if is_taken { Progress::Sent } else { Progress::Busy })
    }

    /// Fetches the next piece. False if there is no packet.
    fn next_piece<M: AsRef<[u8]> + AsMut<[u8]>>(&mut self, buffer: &mut TraceBuffer<M>) -> bool {
        let Some(mut current) = self.current.take().or_else(|| self.next_packet(buffer)) else {
            return false;
        };
        let Ok(packet) = buffer.leased(&current.lease) else {
            buffer.give_up(current.lease, DataLoss::OVERWRITE, []);
            self.given_up = self.given_up.saturating_add(1);
            return true;
        };
        let total = current.envelope.total(packet.len());
        current.at = self.line.stage(current.envelope.around(packet.slices()), current.at, total);
        current.is_last = current.at >= total;
        self.current = Some(current);
        true
    }

    fn next_packet<M: AsRef<[u8]> + AsMut<[u8]>>(&mut self, buffer: &mut TraceBuffer<M>) -> Option<Current> {
        loop {
            let lease = buffer.read().lease_packet()?;
            if let Some(envelope) = buffer.leased(&lease).ok().and_then(Envelope::of) {
                return Some(Current { lease, envelope, at: 0, is_last: false });
            }
            buffer.give_up(lease, DataLoss::CHUNK_CORRUPTED, []);
            self.invalid = self.invalid.saturating_add(1);
        }
    }

    /// Gives up the packet that was read and not fully sent, after an error. The next packet of its sequence reports the
    /// loss; if there is none, only [`given_up`](Self::given_up) has it. A receiver of frames notices half a packet.
    pub fn abandon<M: AsRef<[u8]> + AsMut<[u8]>>(&mut self, buffer: &mut TraceBuffer<M>) {
        self.line.clear();
        if let Some(current) = self.current.take() {
            // A gap in what is sent.
            buffer.give_up(current.lease, DataLoss::READ_GAP, []);
            self.given_up = self.given_up.saturating_add(1);
        }
    }

    /// Sends what is in the ring, waiting for the line, with a drain after each piece (without frames, each packet): so
    /// recording goes on. It also ends when writers faster than the line have filled the ring once more.
    /// [`finish`](Self::finish) then sends the rest, without draining.
    ///
    /// # Errors
    /// The line's, as for [`finish`](Self::finish).
    pub fn catch_up(
        &mut self,
        recorder: &mut RingRecorder<'_>,
        producer: &Producer<'_>,
    ) -> Result<(), E::Error> {
        let start = recorder.buffer().stats().bytes_written;
        loop {
            recorder.drain(producer);
            let stats = recorder.buffer().stats();
            let is_lapped = stats.bytes_written.saturating_sub(start) >= stats.buffer_size;
            if self.poll(recorder.buffer())? == Progress::Idle || is_lapped {
                return Ok(());
            }
        }
    }

    /// Sends everything in the ring and a packet of counters that tells readers of losses, waiting for the line.
    ///
    /// # Errors
    /// The line's, as for [`poll`](Self::poll): with frames the next call goes on where this one ended, but sends the
    /// counters anew. If they were on their way, a receiver counts a packet as incomplete.
    pub fn finish(&mut self, recorder: &mut RingRecorder<'_>) -> Result<(), E::Error> {
        while self.poll(recorder.buffer())? != Progress::Idle {}
        // Includes what was lost while waiting for the line.
        let losses = recorder.losses();
        self.send_counters_of(recorder.buffer(), losses)
    }

    /// Like [`finish`](Self::finish), for a ring without a recorder, such as one left by an earlier start.
    ///
    /// # Errors
    /// The line's, as for [`finish`](Self::finish).
    pub fn finish_ring<M: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        buffer: &mut TraceBuffer<M>,
    ) -> Result<(), E::Error> {
        while self.poll(buffer)? != Progress::Idle {}
        self.send_counters_of(buffer, InboxLosses::default())
    }

    fn send_counters_of<M: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        buffer: &TraceBuffer<M>,
        losses: InboxLosses,
    ) -> Result<(), E::Error> {
        let mut counters = buffer.stats().of_trace(buffer.policy());
        counters.trace_writer_packet_loss =
            counters.trace_writer_packet_loss.saturating_add(losses.packets.into());
        counters.patches_failed = counters.patches_failed.saturating_add(losses.patches.into());
        // They were consumed for the ring, which did not count overwriting them as a loss; and not every sequence has a
        // packet to report it.
        counters.chunks_overwritten = counters.chunks_overwritten.saturating_add(self.given_up.into());
        self.send_counters(counters)
    }

    fn send_counters(&mut self, counters: BufferStats) -> Result<(), E::Error> {
        let buffers = [counters];
        let stats =
            TraceStats { buffers: &buffers, invalid_packets: self.invalid.into(), ..Default::default() };
        // Twenty counters of the buffer and nine of the service, of at most 12 bytes each.
        let mut memory = [0; 400];
        let mut encoder = Encoder::new(&mut memory);
        let _ = TraceStatsPacket { timestamp: None, stats }.encode(&mut encoder);
        let packet = encoder.finish().unwrap_or_default();
        let envelope = Envelope::new(packet.len(), &TrustedFields::new(0, SequenceId::SERVICE));
        self.send_whole(&envelope, once(packet), packet.len())
    }

    /// Sends everything in a snapshot and a packet of its counters, waiting for the line: before any packet was sent, or
    /// after [`finish`](Self::finish).
    ///
    /// # Errors
    /// The line's.
    pub fn send_snapshot<M: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        snapshot: &mut ReadOnlyTraceBuffer<M>,
    ) -> Result<(), E::Error> {
        let mut reader = snapshot.read();
        while let Some(packet) = reader.next_packet() {
            match Envelope::of(packet) {
                Some(envelope) => {
                    self.send_whole(&envelope, packet.slices(), packet.len())?;
                    self.packets = self.packets.saturating_add(1);
                }
                None => {
                    reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
                    self.invalid = self.invalid.saturating_add(1);
                }
            }
        }
        self.send_counters(snapshot.stats().of_trace(snapshot.policy()))
    }

    /// Sends a packet of `len` bytes, waiting for the line.
    fn send_whole<'p>(
        &mut self,
        envelope: &'p Envelope,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
        len: usize,
    ) -> Result<(), E::Error> {
        let (mut at, total) = (0, envelope.total(len));
        while at < total {
            at = self.line.stage(envelope.around(packet.clone()), at, total);
            while self.line.left() > 0 {
                self.offer()?;
            }
        }
        Ok(())
    }
}

/// Shows how far it has come, whatever its line is.
impl<E> fmt::Debug for Sender<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("framed", &self.line.framed)
            .field("bytes_on_line", &self.line.left())
            .field("is_in_packet", &self.current.is_some())
            .field("packets", &self.packets)
            .field("given_up", &self.given_up)
            .field("invalid", &self.invalid)
            .finish_non_exhaustive()
    }
}
