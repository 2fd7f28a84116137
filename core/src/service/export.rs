//! From the buffer to the file: validation, trusted fields, framing, statistics.

use crate::buffer::{BufferStats, DataLoss, Packet, Reader, SequenceInfo};
use crate::proto::trace_stats::{self, ChunkHistogram, TraceStats, TraceStatsPacket, WriterStats};
use crate::proto::{
    InvalidPacket, PacketValidator, SequenceId, TraceFileWriter, TrustedFields, TrustedSuffix, WriteError,
};
use embedded_io::Write;

/// What became of a packet that was to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Exported {
    /// Written; so many bytes of file.
    Written(usize),
    /// Left out and counted: not well-formed, or it holds fields that only the service may write. The next
    /// packet of the sequence has to say so. What its writer said in it of losses before it
    /// (`previous_packet_dropped`) goes with it, as all that is in it.
    Invalid(InvalidPacket),
    /// Left out: longer than [`MAX_LENGTH`](crate::proto::MAX_LENGTH), which the format has no room for. Only a buffer
    /// of more than 256 MiB can hold one.
    TooLong,
}

impl Exported {
    /// What the sequence's next packet has to say of this one: nothing if it was written. It is for
    /// [`Reader::reject_packet`], or for `lost_before` of that next packet.
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
/// The output is a writer of `embedded-io`, such as a slice of bytes. One of `std::io` becomes one by `FromStd` of the
/// crate `embedded-io-adapters`, or is written to by `tracebuf_std::pftrace::TraceFile`.
///
/// See [the module](super) for an example.
#[derive(Debug)]
pub struct TraceExporter<W> {
    file: TraceFileWriter<W>,
    invalid_packets: u64,
    last: LastSuffix,
}

/// The trusted fields of the packet before as bytes: the next one's are mostly the same. Where memory is short they
/// are made anew each time.
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
    /// Writes to `output` from where it stands.
    pub const fn new(output: W) -> Self {
        Self { file: TraceFileWriter::new(output), invalid_packets: 0, last: LastSuffix::NONE }
    }

    /// Writes one packet. `lost_before` is what the caller knows to be lost on the sequence beside the packet's
    /// own causes, such as a packet before it that was invalid.
    ///
    /// # Errors
    /// The output's; then the file ends in a part of a packet, and [`file`](Self::file) says where to cut it.
    pub fn packet(
        &mut self,
        packet: &Packet<'_>,
        sequence_id: SequenceId,
        lost_before: DataLoss,
    ) -> Result<Exported, WriteError<W::Error>> {
        let valid = match PacketValidator::check(packet.slices()) {
            Ok(valid) => valid,
            Err(fault) => {
                self.invalid_packets = self.invalid_packets.saturating_add(1);
                return Ok(Exported::Invalid(fault));
            }
        };
        let loss = (packet.loss() | lost_before).marked();
        let trusted = TrustedFields {
            pid: (packet.pid() != -1).then_some(packet.pid()),
            previous_packet_dropped: u32::from(loss.bits()) | valid.previous_packet_dropped,
            ..TrustedFields::new(packet.uid(), sequence_id)
        };
        let suffix = self.last.of(&trusted);
        match self.file.packet_of_len(packet.slices(), valid.len, &suffix) {
            Ok(bytes) => Ok(Exported::Written(bytes)),
            Err(WriteError::TooLong) => Ok(Exported::TooLong),
            Err(error) => Err(error),
        }
    }

    /// Writes all that a read session gives, and returns how many packets that were. `ids` numbers the
    /// sequences; [`sequence_id`] does.
    ///
    /// A packet that cannot be written, for what is in it or since it is too long, is lost, and its sequence's next
    /// packet says so.
    ///
    /// # Errors
    /// The output's. The packet that was being written is lost in the same way. An exporter that has failed before
    /// reads nothing: [`WriteError::AfterFailure`].
    pub fn drain(
        &mut self,
        reader: &mut Reader<'_>,
        mut ids: impl FnMut(u16, u16) -> SequenceId,
    ) -> Result<u64, WriteError<W::Error>> {
        if self.file.is_broken() {
            return Err(WriteError::AfterFailure);
        }
        let mut written = 0;
        while let Some(packet) = reader.next_packet() {
            let id = ids(packet.producer_id(), packet.writer_id());
            match self.packet(&packet, id, DataLoss::empty()) {
                Ok(Exported::Written(_)) => written += 1,
                Ok(left_out) => reader.reject_packet(left_out.loss()),
                Err(error) => {
                    reader.reject_packet(DataLoss::READ_GAP);
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    /// Writes the `TraceStats` packet of a trace of one buffer, by which readers find its losses; a trace
    /// should end with it. For several buffers, each [drained](Self::drain) in turn, or to tell what a
    /// [`ProducerEndpoint`](super::ProducerEndpoint) has discarded, write the packet to the [`file`](Self::file).
    ///
    /// ```
    /// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
    /// use tracebuf::proto::trace_stats::{BufferStats, TraceStats, TraceStatsPacket};
    /// use tracebuf::proto::{SequenceId, TrustedFields};
    /// use tracebuf::service::{TraceExporter, sequence_id, writer_stats};
    ///
    /// let buffer = |policy| TraceBuffer::new(vec![0u8; 4096], Config::new(policy)).unwrap();
    /// let mut buffers = [FillPolicy::RingBuffer, FillPolicy::Discard].map(buffer);
    /// let (mut file, mut writers) = ([0; 512], vec![]);
    /// let mut exporter = TraceExporter::new(&mut file[..]);
    /// for (buffer, number) in buffers.iter_mut().zip(0..) {
    ///     exporter.drain(&mut buffer.read(), sequence_id).unwrap();
    ///     let told = |of| writer_stats(&of, sequence_id(of.producer_id, of.writer_id), number);
    ///     writers.extend(buffer.sequences().map(told));
    /// }
    /// let counters = buffers.each_ref().map(|buffer| BufferStats::from(&buffer.stats()));
    /// let invalid_packets = exporter.invalid_packets();
    /// let stats = TraceStats { buffers: &counters, invalid_packets, ..Default::default() }.with_writers(writers);
    /// let packet = TraceStatsPacket { timestamp: None, stats };
    /// exporter.file().message(&packet, &TrustedFields::new(0, SequenceId::SERVICE)).unwrap();
    /// ```
    ///
    /// # Errors
    /// The output's.
    pub fn stats<I>(&mut self, buffer: &BufferStats, writers: I) -> Result<usize, WriteError<W::Error>>
    where
        I: IntoIterator<Item = WriterStats, IntoIter: Clone>,
    {
        let buffers = [trace_stats::BufferStats::from(buffer)];
        let invalid_packets = self.invalid_packets;
        let stats =
            TraceStats { buffers: &buffers, invalid_packets, ..TraceStats::default() }.with_writers(writers);
        let packet = TraceStatsPacket { timestamp: None, stats };
        self.file.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE))
    }

    /// Packets left out because they were invalid.
    pub const fn invalid_packets(&self) -> u64 {
        self.invalid_packets
    }

    /// The file, to write further packets of the service to, or to flush it.
    pub const fn file(&mut self) -> &mut TraceFileWriter<W> {
        &mut self.file
    }

    /// The output back.
    pub fn into_output(self) -> W {
        self.file.into_output()
    }
}

/// A `trusted_packet_sequence_id` for a sequence, without a table of them: the two ids side by side.
///
/// 0 is no sequence and 1 is the service itself, so {0, 1}, which only an unusual service has, gets the number
/// of {65535, 65535}.
///
/// ```
/// use tracebuf::service::sequence_id;
///
/// assert_eq!(sequence_id(1, 2).get(), 0x1_0002);
/// ```
pub fn sequence_id(producer_id: u16, writer_id: u16) -> SequenceId {
    let number = (u32::from(producer_id) << 16) | u32::from(writer_id);
    let number = if number > SequenceId::SERVICE.get() { number } else { u32::MAX };
    SequenceId::new(number).unwrap_or(SequenceId::FIRST_WRITER)
}

/// What `TraceStats` says of a writer; `buffer` is the place of its buffer among those of the trace.
pub fn writer_stats(sequence: &SequenceInfo, sequence_id: SequenceId, buffer: u32) -> WriterStats {
    let histogram =
        sequence.histogram.map(|histogram| ChunkHistogram { counts: histogram.counts, sums: histogram.sums });
    WriterStats { sequence_id, buffer, histogram }
}

impl From<&BufferStats> for trace_stats::BufferStats {
    fn from(stats: &BufferStats) -> Self {
        Self {
            bytes_written: stats.bytes_written,
            chunks_written: stats.chunks_written,
            chunks_overwritten: stats.chunks_overwritten,
            write_wrap_count: stats.write_wrap_count,
            patches_succeeded: stats.patches_succeeded,
            patches_failed: stats.patches_failed,
            readaheads_succeeded: stats.readaheads_succeeded,
            readaheads_failed: stats.readaheads_failed,
            abi_violations: stats.abi_violations,
            chunks_rewritten: stats.chunks_rewritten,
            chunks_committed_out_of_order: stats.chunks_committed_out_of_order,
            buffer_size: stats.buffer_size,
            bytes_overwritten: stats.bytes_overwritten,
            bytes_read: stats.bytes_read,
            padding_bytes_written: stats.padding_bytes_written,
            padding_bytes_cleared: stats.padding_bytes_cleared,
            chunks_read: stats.chunks_read,
            // The format has no counter for those refused, which are as lost.
            chunks_discarded: stats.chunks_discarded.saturating_add(stats.chunks_refused),
            trace_writer_packet_loss: stats.trace_writer_packet_loss,
            chunks_relocated: stats.chunks_relocated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use crate::proto::TracePackets;
    use std::vec;
    use std::vec::Vec;

    fn commit(buffer: &mut TraceBuffer<Vec<u8>>, chunk_id: u32, payload: &[u8]) {
        let header = ChunkHeader {
            producer_id: 3,
            writer_id: 1,
            chunk_id,
            fragments: 1,
            complete: true,
            uid: 7,
            pid: 8,
            ..Default::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload });
    }

    fn export(buffer: &mut TraceBuffer<Vec<u8>>) -> (Vec<Vec<u8>>, u64) {
        let mut file = vec![0u8; 4096];
        let mut exporter = TraceExporter::new(&mut file[..]);
        exporter.drain(&mut buffer.read(), sequence_id).unwrap();
        let (size, invalid) = (exporter.file().bytes() as usize, exporter.invalid_packets());
        let packets = TracePackets::new(&file[..size]).map(|packet| packet.unwrap().to_vec()).collect();
        (packets, invalid)
    }

    #[test]
    fn a_forged_packet_is_left_out_and_the_next_of_its_sequence_says_so() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        commit(&mut buffer, 1, &[2, 0x18, 0]); // trusted_uid = 0
        commit(&mut buffer, 2, &[2, 0x40, 2]);
        commit(&mut buffer, 3, &[2, 0x40, 3]);
        let (packets, invalid) = export(&mut buffer);
        assert_eq!(invalid, 1);
        let suffix = [0x18, 7, 0x50, 0x81, 0x80, 0x0C, 0xF8, 0x04, 8];
        assert_eq!(packets[0], [&[0x40, 1][..], &suffix].concat());
        assert_eq!(packets[1], [&[0x40, 2][..], &suffix, &[0xD0, 0x02, 5]].concat());
        assert_eq!(packets[2], [&[0x40, 3][..], &suffix].concat());
    }

    #[test]
    fn what_a_writer_says_in_a_packet_that_is_left_out_goes_with_it() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        // previous_packet_dropped = 257, and trusted_uid = 0.
        commit(&mut buffer, 1, &[6, 0xD0, 0x02, 0x81, 0x02, 0x18, 0]);
        commit(&mut buffer, 2, &[2, 0x40, 2]);
        let (packets, _) = export(&mut buffer);
        assert_eq!(packets.len(), 2);
        assert!(packets[1].ends_with(&[0xD0, 0x02, 5]), "{:x?}", packets[1]);
    }

    #[test]
    fn what_the_caller_knows_to_be_lost_is_told_beside_what_the_packet_carries() {
        for (lost_before, told) in [(DataLoss::READ_GAP, 3), (DataLoss::OVERWRITE, 0x43)] {
            let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
            commit(&mut buffer, 0, &[2, 0x40, 1]);
            commit(&mut buffer, 2, &[2, 0x40, 2]);
            let mut reader = buffer.read();
            assert!(reader.next_packet().is_some_and(|packet| packet.loss().is_empty()));
            let packet = reader.next_packet().unwrap();
            assert_eq!(packet.loss(), DataLoss::ANY | DataLoss::READ_GAP);
            let mut file = [0u8; 64];
            let mut exporter = TraceExporter::new(&mut file[..]);
            exporter.packet(&packet, sequence_id(3, 1), lost_before).unwrap();
            let size = exporter.file().bytes() as usize;
            assert_eq!(file[..size][size - 3..], [0xD0, 0x02, told]);
        }
    }

    #[test]
    fn the_statistics_have_the_buffer_s_and_what_was_left_out() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        for chunk_id in 0..3 {
            commit(&mut buffer, chunk_id, &[2, 0x18, 0]); // trusted_uid = 0
        }
        commit(&mut buffer, 3, &[&[0x86, 0x27][..], &[0; 4998]].concat());
        let mut file = vec![0u8; 4096];
        let mut exporter = TraceExporter::new(&mut file[..]);
        assert_eq!(exporter.invalid_packets(), 0);
        assert_eq!(exporter.drain(&mut buffer.read(), sequence_id), Ok(0));
        assert_eq!(exporter.invalid_packets(), 3);
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        let written = exporter.stats(&buffer.stats(), []).unwrap();

        let buffers = [trace_stats::BufferStats::from(&buffer.stats())];
        assert_eq!((buffers[0].chunks_written, buffers[0].chunks_read), (3, 3));
        assert_eq!(buffers[0].chunks_discarded, 2, "one came late, one was refused");
        let stats = TraceStats { buffers: &buffers, invalid_packets: 3, ..TraceStats::default() };
        let packet = TraceStatsPacket { timestamp: None, stats: stats.with_writers([]) };
        let mut expected = vec![0u8; 4096];
        let mut by_hand = TraceFileWriter::new(&mut expected[..]);
        assert_eq!(by_hand.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE)), Ok(written));
        assert_eq!(file[..written], expected[..written]);
    }

    #[test]
    fn packets_of_another_process_or_of_none_say_so() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        for (writer_id, uid, pid) in [(1, 7, 8), (2, 7, 9), (3, 6, 9), (4, 6, -1), (5, 6, 1)] {
            let header = ChunkHeader {
                producer_id: 3,
                writer_id,
                fragments: 1,
                complete: true,
                uid,
                pid,
                ..Default::default()
            };
            buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 1] });
        }
        let (packets, _) = export(&mut buffer);
        let ends: [&[u8]; 5] = [
            &[0x18, 7, 0x50, 0x81, 0x80, 0x0C, 0xF8, 0x04, 8],
            &[0x18, 7, 0x50, 0x82, 0x80, 0x0C, 0xF8, 0x04, 9],
            &[0x18, 6, 0x50, 0x83, 0x80, 0x0C, 0xF8, 0x04, 9],
            &[0x18, 6, 0x50, 0x84, 0x80, 0x0C],
            &[0x18, 6, 0x50, 0x85, 0x80, 0x0C, 0xF8, 0x04, 1],
        ];
        assert_eq!(packets.len(), ends.len());
        for (packet, end) in packets.iter().zip(ends) {
            assert_eq!(packet[2..], *end);
        }
    }

    #[test]
    fn what_the_writer_dropped_and_what_the_buffer_lost_are_both_said() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        commit(&mut buffer, 5, &[5, 0xD0, 0x02, 0x81, 0x82, 0x00]); // previous_packet_dropped = 257, redundantly
        let (packets, _) = export(&mut buffer);
        assert!(packets[1].ends_with(&[0xD0, 0x02, 0x83, 0x02]), "{:x?}", packets[1]);
    }

    #[test]
    fn sequence_ids_are_never_those_of_nobody_or_of_the_service() {
        assert_eq!(sequence_id(0, 1).get(), u32::MAX);
        assert_eq!(sequence_id(0, 2).get(), 2);
        assert_eq!(sequence_id(u16::MAX, u16::MAX).get(), u32::MAX);
    }
    #[test]
    fn a_packet_that_the_output_has_no_room_for_is_a_loss_of_the_next() {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        commit(&mut buffer, 1, &[2, 0x40, 2]);
        let mut reader = buffer.read();
        let (mut small, mut large) = ([0u8; 4], [0u8; 64]);
        let mut full = TraceExporter::new(&mut small[..]);
        assert!(full.drain(&mut reader, sequence_id).is_err());
        // Nothing is read that could not be written.
        assert_eq!(full.drain(&mut reader, sequence_id), Err(WriteError::AfterFailure));

        let mut exporter = TraceExporter::new(&mut large[..]);
        assert_eq!(exporter.drain(&mut reader, sequence_id), Ok(1));
        let written = exporter.file().bytes() as usize;
        assert_eq!(exporter.into_output().len(), 64 - written, "what is left of the output");
        assert!(large[..written].ends_with(&[0xD0, 0x02, 3]), "a gap of the reading");
    }
}
