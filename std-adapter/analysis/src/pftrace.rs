//! Trace files: the packets that leave a buffer, as ui.perfetto.dev and `trace_processor` open them.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tracebuf::buffer::{BufferStats, DataLoss, Packet, SequenceInfo};
use tracebuf::proto::{SequenceId, WriteError};
use tracebuf::service::{Exported, TraceExporter, writer_stats};

use tracebuf_std::free_file::create_if_free;

/// Writes a `.pftrace` file, or the same bytes to another output.
///
/// A trace is one packet after another, so the file is valid up to the last whole packet at any moment.
/// Sequences are numbered from 2 in the order in which they first appear.
///
/// ```no_run
/// use tracebuf_analysis::pftrace::TraceFile;
/// # fn write(reader: &mut tracebuf::buffer::Reader<'_>) -> std::io::Result<()> {
/// let mut file = TraceFile::create("trace.pftrace")?;
/// while let Some(packet) = reader.next_packet() {
///     file.write_packet(&packet)?;
/// }
/// file.finish(None)?;
/// # Ok(())
/// # }
/// ```
pub struct TraceFile<W: Write = File> {
    exporter: TraceExporter<Output<W>>,
    sequences: HashMap<(u16, u16), Sequence>,
}

impl<W: Write> fmt::Debug for TraceFile<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFile").field("sequences", &self.sequences.len()).finish_non_exhaustive()
    }
}

/// The output as the core sees it.
type Output<W> = embedded_io_adapters::std::FromStd<BufWriter<W>>;

/// A sequence that has appeared.
struct Sequence {
    id: SequenceId,
    /// Causes that its next packet must name besides its own, because packets before it were refused.
    lost: DataLoss,
}

impl TraceFile {
    /// Creates the file, or empties the one that is there.
    ///
    /// # Errors
    /// Those of the file system, or that a session is using the file.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(create_if_free(path.as_ref())?))
    }
}

impl<W: Write> TraceFile<W> {
    /// Writes a trace to `output`, many packets at a time.
    pub fn new(output: W) -> Self {
        let output = Output::new(BufWriter::new(output));
        Self { exporter: TraceExporter::new(output), sequences: HashMap::new() }
    }

    /// Appends a packet with its trusted fields. One that no producer may write, or that is longer than the 256 MiB a
    /// trace has room for, is left out and counted.
    pub fn write_packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let sequence = sequence_of(&mut self.sequences, packet.producer_id(), packet.writer_id());
        match self.exporter.packet(packet, sequence.id, sequence.lost) {
            Ok(Exported::Written(_)) => sequence.lost = DataLoss::empty(),
            Ok(left_out) => sequence.lost |= packet.loss() | left_out.loss(),
            Err(error) => return Err(into_io(error)),
        }
        Ok(())
    }

    /// Appends the counters of the buffer, if there was one, and closes the file. Returns the number of
    /// packets left out.
    pub fn finish(mut self, buffer: Option<(&BufferStats, &[SequenceInfo])>) -> io::Result<u64> {
        if let Some((stats, writers)) = buffer {
            let of = |writer: &SequenceInfo| {
                let id = sequence_of(&mut self.sequences, writer.producer_id, writer.writer_id).id;
                writer_stats(writer, id, 0)
            };
            let writers: Vec<_> = writers.iter().map(of).collect();
            self.exporter.stats(stats, writers).map_err(into_io)?;
        }
        self.exporter.file().flush().map_err(into_io)?;
        Ok(self.exporter.invalid_packets())
    }
}

fn sequence_of(
    sequences: &mut HashMap<(u16, u16), Sequence>,
    producer_id: u16,
    writer_id: u16,
) -> &mut Sequence {
    // At most 2^32 − 1 sequences exist, and 1 is the service: only the last could run out of numbers.
    let next = u32::try_from(sequences.len()).unwrap_or(u32::MAX).saturating_add(2);
    sequences.entry((producer_id, writer_id)).or_insert_with(|| Sequence {
        id: SequenceId::new(next).unwrap_or(SequenceId::FIRST_WRITER),
        lost: DataLoss::empty(),
    })
}

fn into_io(error: WriteError<io::Error>) -> io::Error {
    match error {
        WriteError::Output(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use tracebuf::buffer::ChunkFlags;

    use super::*;
    use tracebuf_testing::long_packet::{PART, PARTS, SIZE, commit, in_buffer};

    #[test]
    fn a_packet_that_a_trace_has_no_room_for_is_left_out_of_it_and_counted() {
        // Fields of five bytes.
        let part: Vec<u8> = SIZE.into_iter().chain([0x40, 0x81, 0x80, 0x80, 0x00].repeat(PART / 5)).collect();
        let mut buffer = in_buffer(&part);
        commit(&mut buffer, PARTS, ChunkFlags::empty(), &[2, 0x40, 7]);
        let (mut reader, mut bytes) = (buffer.read(), Vec::new());
        let mut file = TraceFile::new(&mut bytes);
        let mut lengths = Vec::new();
        while let Some(packet) = reader.next_packet() {
            lengths.push(packet.len());
            file.write_packet(&packet).expect("a file");
        }
        assert_eq!(lengths, [PARTS as usize * (PART - 3), 2]);
        assert_eq!(file.finish(None).expect("a file"), 1);
        let told = DataLoss::READ_GAP | DataLoss::ANY;
        assert!(bytes.ends_with(&[0xD0, 0x02, told.bits() as u8]), "{bytes:x?}");
    }
}
