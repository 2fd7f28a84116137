//! The exporter: packets of a buffer, checked and framed as a trace file.

use crate::buffer::{BufferStats, DataLoss, Packet, Reader, SequenceInfo};
use crate::proto::fields::builtin_clock;
use crate::proto::trace_stats::{TraceStats, TraceStatsPacket, WriterStats};
use crate::proto::{
    ClockTimes, Fragments, InvalidPacket, PacketValidator, SequenceId, TraceFileWriter, TrustedFields,
    TrustedSuffix, WriteError,
};
use crate::service::own_clock::{RelatedClocks, own_clock};
use embedded_io::Write;

/// What became of a packet that was to be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "what was left out is a loss, of which the sequence's next packet is to tell"]
pub enum Exported {
    /// Written, with this many bytes in the file.
    Written(usize),
    /// Left out and counted: not well-formed, or it holds fields that only the service may write.
    Invalid(InvalidPacket),
    /// Left out and counted: longer than [`MAX_LENGTH`](crate::proto::MAX_LENGTH).
    TooLong,
}

impl Exported {
    /// What the sequence's next packet has to say about this one, by [`Reader::reject_packet`] or its `lost_before`.
    pub const fn loss(self) -> DataLoss {
        match self {
            Exported::Written(_) => DataLoss::empty(),
            Exported::Invalid(_) => DataLoss::CHUNK_CORRUPTED,
            Exported::TooLong => DataLoss::READ_GAP,
        }
    }
}

/// Writes the packets of a buffer as a trace file: each is checked, gets the fields that its producer must
/// not forge, and is framed. No packet is copied or joined.
///
/// The output is a writer of `embedded-io`, such as a slice of bytes; `FromStd` of the crate `embedded-io-adapters`
/// makes one of a writer of `std::io`.
///
/// ```
/// use tracebuf::service::{TraceExporter, sequence_id};
/// # use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
/// # let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// # let header = ChunkHeader { producer_id: 1, fragments: 2, ..Default::default() };
/// # buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 5, 2, 0x40, 6] });
///
/// let mut file = vec![0; 1024];
/// let mut exporter = TraceExporter::new(&mut file[..]);
/// exporter.drain(&mut buffer.read(), sequence_id).unwrap();
/// exporter.stats(&buffer.stats().of_trace(FillPolicy::RingBuffer), []).unwrap();
/// let written = exporter.file().bytes() as usize;
/// file.truncate(written); // a trace, with its statistics
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Debug)]
pub struct TraceExporter<W> {
    file: TraceFileWriter<W>,
    invalid_packets: u64,
    last: LastSuffix,
    clocks: RelatedClocks,
}

/// The previous packet's trusted fields as bytes: the next one's are mostly the same. Where memory is short, they are
/// made anew each time.
#[derive(Debug)]
struct LastSuffix {
    #[cfg(target_pointer_width = "64")]
    known: Option<(TrustedFields, TrustedSuffix)>,
}

impl LastSuffix {
    const NONE: Self = Self {
        #[cfg(target_pointer_width = "64")]
        known: None,
    };

    #[inline]
    fn of(&mut self, trusted: &TrustedFields) -> TrustedSuffix {
        #[cfg(target_pointer_width = "64")]
        match &self.known {
            Some((fields, suffix)) if fields == trusted => *suffix,
            _ => self.known.insert((*trusted, trusted.suffix())).1,
        }
        #[cfg(not(target_pointer_width = "64"))]
        trusted.suffix()
    }
}

impl<W: Write> TraceExporter<W> {
    /// Writes a trace to `output` from where it stands.
    pub const fn new(output: W) -> Self {
        Self::with(output, RelatedClocks::NONE)
    }

    /// Writes a part of a trace that tells of [clocks](Self::clocks) itself.
    pub const fn part(output: W) -> Self {
        Self::with(output, RelatedClocks::ALL)
    }

    const fn with(output: W, clocks: RelatedClocks) -> Self {
        Self { file: TraceFileWriter::new(output), invalid_packets: 0, last: LastSuffix::NONE, clocks }
    }

    /// Writes what clocks showed at one moment, boot time among them: see [`ClockTimes`]. Call it before the packets
    /// that are exported, with times from before them, and again with later ones.
    ///
    /// Without it readers know no time of day; and of the first clock that is not boot time, and that a
    /// [`Tracer`](crate::producer::track_event::Tracer) has, the exporter says that it shows boot time.
    ///
    /// # Errors
    /// The output's.
    pub fn clocks(&mut self, times: &[(u64, u64)]) -> Result<usize, WriteError<W::Error>> {
        times.iter().for_each(|(id, _)| _ = self.clocks.add(*id));
        self.file.message(&ClockTimes(times), &TrustedFields::new(0, SequenceId::SERVICE))
    }

    /// If a packet has a clock of which the trace does not tell, relates it to boot time: readers would find no time
    /// for it, nor for what comes after it.
    fn relate(&mut self, packet: &Packet<'_>) -> Result<(), WriteError<W::Error>> {
        match own_clock(packet.slices()) {
            Some((clock, time)) if self.clocks.add(clock) => {
                self.clocks(&[(builtin_clock::BOOTTIME, time), (clock, time)]).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Writes one packet. `lost_before` is what was lost on its sequence besides what it tells itself, such as an
    /// invalid packet.
    ///
    /// # Errors
    /// The output's; the file then ends in part of a packet, and [`file`](Self::file) says where to cut it.
    pub fn packet(
        &mut self,
        packet: &Packet<'_>,
        sequence_id: SequenceId,
        lost_before: DataLoss,
    ) -> Result<Exported, WriteError<W::Error>> {
        let (len, trusted) = match trusted_fields(packet, sequence_id, lost_before) {
            Ok(checked) => checked,
            Err(fault) => {
                self.invalid_packets = self.invalid_packets.saturating_add(1);
                return Ok(Exported::Invalid(fault));
            }
        };
        if !self.clocks.are_all() {
            self.relate(packet)?;
        }
        let suffix = self.last.of(&trusted);
        match self.file.framed(&Fragments(packet.slices()), len, &suffix) {
            Ok(bytes) => Ok(Exported::Written(bytes)),
            Err(WriteError::TooLong) => {
                self.invalid_packets = self.invalid_packets.saturating_add(1);
                Ok(Exported::TooLong)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes all that a read session gives, and returns how many packets that was: [`drain_up_to`](Self::drain_up_to)
    /// without a limit.
    ///
    /// # Errors
    /// Those of `drain_up_to`.
    pub fn drain(
        &mut self,
        reader: &mut Reader<'_>,
        ids: impl FnMut(u16, u16) -> SequenceId,
    ) -> Result<u64, WriteError<W::Error>> {
        self.drain_up_to(reader, ids, u64::MAX).map(|drained| drained.packets)
    }

    /// Writes what a read session gives, until there is no more, or until this call has dealt with more than `limit`
    /// bytes, those of packets left out included: a limit of 0 is one packet. `ids` numbers the sequences, as
    /// [`sequence_id`] does.
    ///
    /// A packet that cannot be written, because of its content or its length, is lost, and its sequence's next packet
    /// says so.
    ///
    /// # Errors
    /// The output's; the packet that was being written is lost. After that, nothing is read:
    /// [`WriteError::AfterFailure`].
    pub fn drain_up_to(
        &mut self,
        reader: &mut Reader<'_>,
        mut ids: impl FnMut(u16, u16) -> SequenceId,
        limit: u64,
    ) -> Result<Drained, WriteError<W::Error>> {
        if self.file.is_broken() {
            return Err(WriteError::AfterFailure);
        }
        let (mut drained, mut bytes) = (Drained::default(), 0_u64);
        while bytes <= limit {
            let Some(packet) = reader.next_packet() else {
                drained.is_exhausted = true;
                break;
            };
            let id = ids(packet.producer_id(), packet.writer_id());
            match self.packet(&packet, id, DataLoss::empty()) {
                Ok(Exported::Written(written)) => {
                    drained.packets += 1;
                    bytes = bytes.saturating_add(written as u64);
                }
                Ok(left_out) => {
                    let len = packet.len() as u64;
                    reader.reject_packet(left_out.loss());
                    drained.left_out += 1;
                    drained.left_out_bytes = drained.left_out_bytes.saturating_add(len);
                    bytes = bytes.saturating_add(len);
                }
                Err(error) => {
                    reader.reject_packet(DataLoss::READ_GAP);
                    return Err(error);
                }
            }
        }
        Ok(drained)
    }

    /// Writes the `TraceStats` packet of a trace of one buffer, by which readers find its losses; a trace should end
    /// with it. For several buffers, or to report what a [`ProducerEndpoint`](super::ProducerEndpoint) has discarded,
    /// write a [`TraceStatsPacket`] to the [`file`](Self::file). Where open chunks are scraped, use the counters
    /// [of a trace](BufferStats::of_trace): the chunks that a ring then counts as discarded are no loss.
    ///
    /// # Errors
    /// The output's.
    pub fn stats<I>(&mut self, buffer: &BufferStats, writers: I) -> Result<usize, WriteError<W::Error>>
    where
        I: IntoIterator<Item = WriterStats, IntoIter: Clone>,
    {
        let (buffers, invalid_packets) = (core::slice::from_ref(buffer), self.invalid_packets);
        let stats = TraceStats { buffers, invalid_packets, ..TraceStats::default() }.with_writers(writers);
        let packet = TraceStatsPacket { timestamp: None, stats };
        self.file.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE))
    }

    /// Packets left out because they were invalid, or too long for a trace. Statistics report both under this name.
    pub const fn invalid_packets(&self) -> u64 {
        self.invalid_packets
    }

    /// The file, to write further packets of the service to, or to flush it.
    pub const fn file(&mut self) -> &mut TraceFileWriter<W> {
        &mut self.file
    }

    /// Gives the output back.
    pub fn into_output(self) -> W {
        self.file.into_output()
    }
}

/// What a call of [`TraceExporter::drain_up_to`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Drained {
    /// Packets written.
    pub packets: u64,
    /// Packets left out because of their content or length.
    pub left_out: u64,
    /// Their bytes.
    pub left_out_bytes: u64,
    /// Whether there are no more for now.
    pub is_exhausted: bool,
}

/// Checks a packet, and returns its length and what the service has to say about it: what [`TraceExporter::packet`]
/// writes, for those who write packets in a way of their own.
///
/// # Errors
/// It is not well-formed, or it holds fields that only the service may write: see [`Exported::Invalid`].
#[inline]
pub fn trusted_fields(
    packet: &Packet<'_>,
    sequence_id: SequenceId,
    lost_before: DataLoss,
) -> Result<(usize, TrustedFields), InvalidPacket> {
    let valid = PacketValidator::check(packet.slices())?;
    let loss = (packet.loss() | lost_before).marked();
    let trusted = TrustedFields {
        pid: (packet.pid() != -1).then_some(packet.pid()),
        previous_packet_dropped: u32::from(loss.bits()) | valid.previous_packet_dropped,
        ..TrustedFields::new(packet.uid(), sequence_id)
    };
    Ok((valid.len, trusted))
}

/// A `trusted_packet_sequence_id` for a sequence, without a table of them: the two ids side by side.
///
/// 0 is no sequence and 1 is the service itself, so {0, 1}, which only an unusual service has, gets the number
/// of {65535, 65535}.
pub fn sequence_id(producer_id: u16, writer_id: u16) -> SequenceId {
    let number = (u32::from(producer_id) << 16) | u32::from(writer_id);
    let number = if number > SequenceId::SERVICE.get() { number } else { u32::MAX };
    SequenceId::new(number).unwrap_or(SequenceId::FIRST_WRITER)
}

/// What `TraceStats` says about a writer; `buffer` is the place of its buffer among those of the trace.
pub fn writer_stats(sequence: &SequenceInfo, sequence_id: SequenceId, buffer: u32) -> WriterStats {
    WriterStats { sequence_id, buffer, histogram: sequence.histogram }
}

#[cfg(test)]
mod tests;
