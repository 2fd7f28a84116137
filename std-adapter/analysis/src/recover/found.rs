//! What is made from a region that was found.

use std::io::{self, Write};
use std::path::Path;

use tracebuf::buffer::SequenceInfo;

use super::{Aligned, Found};
use crate::pftrace::TraceFile;
use tracebuf_std::whole_file::write_atomically;

/// What [`Found::write_to`] has written.
///
/// ```
/// use tracebuf_analysis::recover::{Dump, Place};
///
/// # use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
/// # let mut buffer = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// # let header = ChunkHeader { producer_id: 7, fragments: 2, ..Default::default() };
/// # buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05\x05hello" });
/// # let file = buffer.into_memory();
/// # let out = std::env::temp_dir().join(format!("doc-recovered-{}.pftrace", std::process::id()));
/// let recovered = Dump::parse(&file)?.find(Place::Anywhere)?.write_to(&out)?;
/// println!("{} packets, {} left out", recovered.packets, recovered.invalid_packets);
/// assert_eq!((recovered.packets, recovered.invalid_packets), (1, 1)); // the second was no packet of a trace
/// # std::fs::remove_file(out)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Packets in the trace.
    pub packets: u64,
    /// Packets left out because no producer may write them or because they are too long for a trace.
    pub invalid_packets: u64,
    /// Chunks of [shared memory](super::SharedMemoryImage) that the buffer did not have completely, as
    /// [`bring_in`](Found::bring_in) counts them.
    pub brought_in: u64,
}

impl Found {
    /// Puts into the buffer what its writers had finished in [shared memory](super::SharedMemoryImage) before it and
    /// was not yet moved, as the next start on the device does. Also returns how many chunks the buffer did not have
    /// completely.
    ///
    /// On the device this replaces the oldest data in the ring. Here the ring becomes larger, so its statistics give
    /// another size, and keeps what it has, unless it is nearly 4 GiB or its table has no place for another sequence. A
    /// buffer that discards and was full takes nothing. After this, whatever still waits for more is given up.
    ///
    /// Cost: a copy of the region, and a commit for each chunk.
    pub fn bring_in(mut self) -> (Self, u64) {
        let Some(shared) = self.shared.take() else { return (self, 0) };
        let memory = vec![0; self.buffer.grown_size(shared.room())];
        let Ok(ring) = self.buffer.grow(Aligned::from(memory)) else { return (self, 0) };
        let (ring, brought_in) = shared.move_into(ring);
        (Self { buffer: ring.into_read_only(), ..self }, brought_in)
    }

    /// Writes all packets, including those that are [brought in](Self::bring_in), and then the buffer's statistics into
    /// a trace file, which appears when it is complete.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_to(self, out: &Path) -> io::Result<Recovered> {
        write_atomically(out, |file| self.write(TraceFile::new(file)))
    }

    fn write(self, mut file: TraceFile<impl Write>) -> io::Result<Recovered> {
        let buffer_size = self.buffer.stats().buffer_size;
        let (mut all, brought_in) = self.bring_in();
        let mut packets = 0;
        let mut reader = all.buffer.read();
        while let Some(packet) = reader.next_packet() {
            file.write_packet(&packet)?;
            packets += 1;
        }
        let sequences: Vec<SequenceInfo> = all.buffer.sequences().collect();
        // A ring is also offered what it already had and has since read or overwritten.
        let mut stats = all.buffer.stats().of_trace(all.buffer.policy());
        stats.buffer_size = buffer_size;
        let invalid_packets = file.finish(Some((&stats, &sequences)))?;
        Ok(Recovered { packets: packets - invalid_packets.min(packets), invalid_packets, brought_in })
    }
}
