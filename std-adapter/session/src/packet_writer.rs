//! Writers of packets that programs make themselves.

use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::producer::{Exhaustion, PacketHandle, TraceWriter, TraceWriterStats};

use crate::interrupts;
use crate::producer_cell::ProducerCell;
use crate::recording_gate::RecordingGate;

self_cell!(
    struct WriterCell {
        owner: Arc<ProducerCell>,
        #[covariant]
        dependent: TraceWriter,
    }
);

/// Writes packets of any content on a sequence of its own.
///
/// ```
/// use tracebuf_session::Session;
///
/// let session = Session::builder().start()?;
/// let mut writer = session.recorder().packet_writer().expect("a free writer");
/// writer.packet(|packet| {
///     packet.varint(8, 1_000_000); // timestamp
///     packet.message(900).string(1, "hello"); // for_testing
/// });
/// drop(writer);
/// session.stop()?;
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
pub struct PacketWriter {
    /// `None` only while it is dropped.
    cell: Option<WriterCell>,
    gate: Arc<RecordingGate>,
}

impl PacketWriter {
    /// Takes one of the producer's writers, if one is free.
    pub(crate) fn new(
        producer: Arc<ProducerCell>,
        gate: Arc<RecordingGate>,
        target: u16,
        exhaustion: Exhaustion,
    ) -> Option<Self> {
        // It has a lock for which a handler that records would wait.
        let cell = interrupts::held_off(|| {
            WriterCell::try_new(producer, |producer| producer.producer().writer(target, exhaustion).ok_or(()))
        });
        Some(Self { cell: Some(cell.ok()?), gate })
    }

    /// Writes one packet. Once the session is over nothing is written, and `fill` is not called.
    ///
    /// With [`Exhaustion::Drop`] the packet must fit into what is free of shared memory; with [`Exhaustion::Stall`]
    /// into its buffer, and 256 MiB. A message in it must fit into [3,072
    /// chunks](tracebuf::producer::TraceWriter::MAX_PATCHED), some 6 MB. A packet that does not fit is given up as a
    /// whole: [`stats`](Self::stats) counts it as `dropped`, and the next packet says that something is missing.
    pub fn packet(&mut self, fill: impl FnOnce(&mut PacketHandle<'_, '_>)) {
        if let Some(cell) = self.cell.as_mut().filter(|_| self.gate.is_on()) {
            cell.with_dependent_mut(|_, writer| fill(&mut writer.packet()));
        }
    }

    /// Returns counts of packets and chunks.
    pub fn stats(&self) -> TraceWriterStats {
        self.cell.as_ref().map_or_else(TraceWriterStats::default, |cell| cell.borrow_dependent().stats())
    }
}

debug_fields!(PacketWriter);

impl Drop for PacketWriter {
    fn drop(&mut self) {
        if !self.gate.is_here() {
            // As with a thread's tracer: the chunk that it writes is the parent's.
            std::mem::forget(self.cell.take());
        } else {
            interrupts::held_off(|| drop(self.cell.take()));
        }
    }
}
