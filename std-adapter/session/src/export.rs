//! The bytes of a trace, made from buffers: packets, clocks, statistics.

mod vms;

use std::io::{self, Write};
use std::sync::Arc;

use tracebuf::buffer::{
    BufferStats, FillPolicy, OverwriteObserver, ReadOnlyTraceBuffer, Reader, SequenceInfo, TraceBuffer,
};
use tracebuf::proto::trace_stats::{FinalFlush, TraceStats, TraceStatsPacket, WriterStats};
use tracebuf::proto::{Message, SequenceId, TracePackets, TrustedFields};
use tracebuf::service::{Drained, TraceExporter, sequence_id, writer_stats};

use crate::carry_over::CarryOver;
use crate::totals::{Totals, Written};
use tracebuf_std::system::user_id;

/// Bytes that go to a file at once.
pub const PIECE: usize = 1 << 20;

/// Returns how many of the first `most` bytes of a trace, or of a part of one, are whole packets.
pub fn whole_within(trace: &[u8], most: u64) -> usize {
    let mut packets = TracePackets::new(trace);
    let mut whole = 0;
    while packets.next().is_some_and(|packet| packet.is_ok()) && packets.offset() as u64 <= most {
        whole = packets.offset();
    }
    whole
}

/// One buffer's part of the statistics.
#[derive(Clone, Debug)]
pub struct BufferReport {
    stats: BufferStats,
    pub(crate) sequences: Vec<SequenceInfo>,
}

impl BufferReport {
    /// A buffer's counters, and those of its writers.
    pub fn new(
        policy: FillPolicy,
        stats: BufferStats,
        sequences: impl Iterator<Item = SequenceInfo>,
    ) -> Self {
        Self { stats: stats.of_trace(policy), sequences: sequences.collect() }
    }

    pub(crate) fn without_sequences(self) -> Self {
        Self { sequences: Vec::new(), ..self }
    }
}

/// Consecutive packets in memory: a piece of a trace that ends with a whole packet.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The packets, each with tag and length.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub packets: u64,
}

impl Piece {
    /// Adds packets of `reader` until there are none, or until the piece and what was left out exceed `limit` bytes.
    pub fn read(&mut self, reader: &mut Reader<'_>, limit: usize) -> io::Result<Drained> {
        self.read_of(reader, limit, |_| {})
    }

    /// The same, and tells of which sequence each is.
    fn read_of(
        &mut self,
        reader: &mut Reader<'_>,
        limit: usize,
        mut tell: impl FnMut(SequenceId),
    ) -> io::Result<Drained> {
        let ids = |producer_id, writer_id| {
            let id = sequence_id(producer_id, writer_id);
            tell(id);
            id
        };
        let Some(room) = limit.checked_sub(self.bytes.len()) else { return Ok(Drained::default()) };
        let drained = TraceExporter::part(&mut self.bytes)
            .drain_up_to(reader, ids, room as u64)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.packets += drained.packets;
        Ok(drained)
    }

    /// Adds the packets of another one.
    pub(crate) fn append(&mut self, other: Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.packets += other.packets;
    }

    /// Adds a packet of the service.
    pub(crate) fn service<M: Message>(&mut self, message: &M) -> io::Result<()> {
        let mut exporter = TraceExporter::part(&mut self.bytes);
        exporter
            .file()
            .message(message, &TrustedFields::new(user_id(), SequenceId::SERVICE))
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.packets += 1;
        Ok(())
    }

    /// Adds the statistics, in which readers find losses: the end of every trace.
    pub fn stats(&mut self, totals: &Totals, buffers: &[BufferReport], at: Option<u64>) -> io::Result<()> {
        let stats: Vec<_> = totals.dropped.told(buffers.iter().map(|buffer| buffer.stats)).collect();
        let writers: Vec<WriterStats> = buffers
            .iter()
            .zip(0u32..)
            .flat_map(|(buffer, index)| {
                let told =
                    move |s: &SequenceInfo| writer_stats(s, sequence_id(s.producer_id, s.writer_id), index);
                buffer.sequences.iter().map(told)
            })
            .collect();
        let Totals { endpoints, flushes, .. } = totals;
        let stats = TraceStats {
            buffers: &stats,
            producers_connected: totals.producers_connected,
            producers_seen: totals.producers_seen,
            chunks_discarded: endpoints.chunks_discarded,
            patches_discarded: endpoints.patches_discarded,
            invalid_packets: totals.invalid_packets,
            flushes_requested: flushes.requested,
            flushes_succeeded: flushes.succeeded,
            flushes_failed: flushes.failed,
            final_flush: match flushes.last {
                None => FinalFlush::Unspecified,
                Some(true) => FinalFlush::Succeeded,
                Some(false) => FinalFlush::Failed,
            },
            ..TraceStats::default()
        };
        self.service(&TraceStatsPacket { timestamp: at, stats: stats.with_writers(writers) })
    }
}

pub(crate) trait Readable {
    fn read(&mut self) -> Reader<'_>;
    fn report(&self) -> BufferReport;
}

impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver> Readable for TraceBuffer<M, O> {
    fn read(&mut self) -> Reader<'_> {
        TraceBuffer::read(self)
    }

    fn report(&self) -> BufferReport {
        BufferReport::new(self.policy(), self.stats(), self.sequences())
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Readable for ReadOnlyTraceBuffer<M> {
    fn read(&mut self) -> Reader<'_> {
        ReadOnlyTraceBuffer::read(self)
    }

    fn report(&self) -> BufferReport {
        BufferReport::new(self.policy(), self.stats(), self.sequences())
    }
}

/// What came before the packets of a buffer.
#[derive(Clone, Default)]
pub(crate) struct Before {
    /// What those that are gone mean for the others.
    pub(crate) carried: CarryOver,
    /// Whole packets that have left the buffer and are in its trace all the same.
    pub(crate) packets: Vec<Arc<Vec<u8>>>,
}

impl From<CarryOver> for Before {
    fn from(carried: CarryOver) -> Self {
        Self { carried, packets: Vec::new() }
    }
}

/// Clocks and what is beside the buffers, the packets of all of these with what they need of those that have left,
/// statistics as of this boot time. `each` is done to all of the buffers' packets, which a piece has from a byte on.
pub(crate) fn write_trace<'b, B: Readable + 'b>(
    buffers: impl Iterator<Item = (&'b mut B, Before)>,
    mut totals: Totals,
    at: u64,
    head: &Piece,
    from: Option<u64>,
    mut each: impl FnMut(&mut Piece, usize),
    output: &mut impl Write,
) -> io::Result<Written> {
    let mut written = Written::default();
    let mut piece = Piece::default();
    piece.append(head.clone());
    let mut reports = Vec::new();
    let mut buffers: Vec<_> = buffers.collect();
    let vms = buffers.iter().filter(|(_, before)| !before.carried.vms().lock().is_empty());
    let told = vms.map(|(buffer, before)| (before.carried.vms(), buffer.report().sequences));
    piece.vms(told, at)?;
    for (buffer, Before { mut carried, packets }) in buffers.drain(..) {
        let at = piece.bytes.len();
        if packets.is_empty() {
            let reports_of = buffer.report();
            carried.begin_read(reports_of.sequences.into_iter());
        }
        let looks_at_all = from.is_some() || !packets.is_empty() || carried.waits_for_begins();
        if from.is_none() {
            carried.is_lean = !looks_at_all;
            piece.packets += carried.write_kept(&mut piece.bytes);
            piece.packets += carried.write_open(&mut piece.bytes);
        }
        each(&mut piece, at);
        written.bytes += piece.bytes.len() as u64;
        output.write_all(&piece.bytes)?;
        piece.bytes.clear();
        for packets in packets {
            piece.packets += carried.pass(&packets, from, &mut piece.bytes);
            each(&mut piece, 0);
            written.bytes += piece.bytes.len() as u64;
            output.write_all(&piece.bytes)?;
            piece.bytes.clear();
        }
        let mut reader = buffer.read();
        let mut raw = Piece::default();
        loop {
            let (mut is_due, mut last) = (looks_at_all, None);
            let read = raw.read_of(&mut reader, PIECE, |id| {
                // Mostly it is the same as before.
                if last.replace(id) != Some(id) {
                    is_due |= carried.is_due(id);
                }
            })?;
            written.invalid_packets += read.left_out;
            if is_due {
                piece.packets += carried.pass(&raw.bytes, from, &mut piece.bytes);
                raw.bytes.clear();
            } else {
                piece.packets += raw.packets;
                std::mem::swap(&mut piece.bytes, &mut raw.bytes);
            }
            raw.packets = 0;
            if read.is_exhausted {
                piece.packets += carried.write_open(&mut piece.bytes);
                if from.is_some() {
                    piece.packets += carried.write_kept(&mut piece.bytes);
                    piece.packets += carried.write_descriptions(&mut piece.bytes);
                }
            }
            each(&mut piece, 0);
            written.bytes += piece.bytes.len() as u64;
            output.write_all(&piece.bytes)?;
            piece.bytes.clear();
            if read.is_exhausted {
                break;
            }
        }
        written.carried += carried.added();
        reports.push(buffer.report());
    }
    totals.invalid_packets += written.invalid_packets;
    piece.stats(&totals, &reports, Some(at))?;
    output.write_all(&piece.bytes)?;
    written.bytes += piece.bytes.len() as u64;
    written.packets = piece.packets;
    output.flush()?;
    Ok(written)
}

#[cfg(test)]
mod tests;
