//! What was written, read and lost, and whether the numbers agree.

use super::service::Service;
use super::work::Outcome;
use crate::figures::Count;
use crate::trace_stats::TraceReport;
use std::fmt;
use tracebuf::buffer::{BufferStats, DataLoss, SequenceInfo};
use tracebuf::producer::track_event::TracerStats;
use tracebuf::service::EndpointStats;

/// One thread's packets, by what became of them.
///
/// ```
/// use tracebuf_std::demo::{Options, run};
///
/// # let folder = std::env::temp_dir().join(format!("doc-demo-writer-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let options =
/// #     Options { numbers: 1000, sources: folder.clone(), ..Options::new(folder.join("demo.pftrace")) };
/// for writer in &run(&options)?.writers {
///     println!("{}: {} of {} packets read", writer.name, writer.read, writer.written);
///     assert!(writer.agrees());
/// }
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriterReport {
    /// The thread.
    pub name: String,
    /// The writer's id.
    pub id: u16,
    /// Packets begun.
    pub written: u64,
    /// Packets read from the ring.
    pub read: u64,
    /// Packets that the writer gave up, because shared memory was full.
    pub dropped: u64,
    /// Packets that the ring overwrote.
    pub evicted: u64,
    /// Packets of which the ring overwrote a part.
    pub broken: u64,
    /// Chunks that were malformed: none, with our own writers.
    pub malformed: u64,
    /// Times that the names were written again.
    pub states: u32,
    /// Events that were not written at all, because the state they need could not be written.
    pub skipped: u64,
}

impl WriterReport {
    /// Whether every packet begun was read, or was lost where the counters say.
    pub const fn agrees(&self) -> bool {
        self.read + self.dropped + self.evicted + self.broken + self.malformed == self.written
    }
}

/// The demonstration's account.
///
/// ```
/// use tracebuf_std::demo::{Options, THREADS, run};
///
/// # let folder = std::env::temp_dir().join(format!("doc-demo-report-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let options =
/// #     Options { numbers: 1000, sources: folder.clone(), ..Options::new(folder.join("demo.pftrace")) };
/// let report = run(&options)?;
/// print!("{report}"); // a table of all threads, and the totals
/// assert!(report.agrees());
/// assert_eq!((report.writers.len(), report.numbers), (THREADS, 1000));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The threads.
    pub writers: Vec<WriterReport>,
    /// Numbers sorted.
    pub numbers: usize,
    /// Words counted.
    pub words: u64,
    /// Files that contained them.
    pub files: u64,
    /// Bytes of the packets read.
    pub bytes_read: u64,
    /// Packets left out of the file as invalid: none, with our own writers.
    pub invalid: u64,
    /// Causes of losses that packets carried.
    pub causes: DataLoss,
    /// What passed through shared memory.
    pub endpoint: EndpointStats,
    /// The ring's counters.
    pub buffer: BufferStats,
    /// Whether the file was counted: output to a device cannot be read again, and its numbers are zero.
    pub file_counted: bool,
    /// Packets in the file: those read, and the counters.
    pub file_packets: u64,
    /// Packets that writers gave up, according to the counters in the file.
    pub file_dropped: u64,
    /// The file's size.
    pub file_bytes: u64,
}

impl Report {
    pub(super) fn add_writer(&mut self, name: &str, id: u16, stats: &TracerStats) {
        self.writers.push(WriterReport {
            name: name.to_owned(),
            id,
            written: stats.writer.packets,
            dropped: stats.writer.dropped,
            states: stats.states,
            skipped: stats.skipped,
            ..WriterReport::default()
        });
    }

    pub(super) fn add_work(&mut self, outcome: &Outcome) {
        self.numbers += outcome.sorted;
        self.words += outcome.words;
        self.files += outcome.files;
    }

    pub(super) fn add_service(&mut self, service: &Service<'_>) {
        self.endpoint = service.endpoint_stats();
    }

    fn writer_mut(&mut self, id: u16) -> Option<&mut WriterReport> {
        self.writers.iter_mut().find(|writer| writer.id == id)
    }

    pub(super) fn add_packet(&mut self, writer_id: u16, bytes: u64, loss: DataLoss) {
        self.bytes_read += bytes;
        self.causes |= loss;
        if let Some(writer) = self.writer_mut(writer_id) {
            writer.read += 1;
        }
    }

    pub(super) fn add_buffer(&mut self, stats: &BufferStats, sequences: &[SequenceInfo]) {
        self.buffer = *stats;
        for sequence in sequences {
            if let Some(writer) = self.writer_mut(sequence.writer_id) {
                writer.evicted = sequence.packets_evicted;
                writer.broken = sequence.packets_broken;
                writer.malformed = sequence.chunks_malformed;
            }
        }
    }

    pub(super) fn add_file(&mut self, file: &TraceReport) {
        self.file_counted = true;
        (self.file_packets, self.file_bytes) = (file.packets, file.bytes + file.rest);
        let dropped =
            file.statistics.iter().flatten().filter(|counted| counted.name == "trace_writer_packet_loss");
        self.file_dropped = dropped.map(|counted| counted.value).sum();
    }

    /// The sums over all threads.
    pub fn total(&self) -> WriterReport {
        let mut total = WriterReport { name: "all".into(), ..WriterReport::default() };
        for writer in &self.writers {
            total.written += writer.written;
            total.read += writer.read;
            total.dropped += writer.dropped;
            total.evicted += writer.evicted;
            total.broken += writer.broken;
            total.malformed += writer.malformed;
            total.states += writer.states;
            total.skipped += writer.skipped;
        }
        total
    }

    /// Whether every packet is accounted for, writer by writer, and the file, if counted, holds what was read and the
    /// number of packets given up.
    pub fn agrees(&self) -> bool {
        self.writers.iter().all(WriterReport::agrees)
            && self.invalid == 0
            && self.endpoint.chunks_discarded == 0
            && self.endpoint.chunks_missing == 0
            && self.buffer.abi_violations == 0
            && (!self.file_counted || self.file_agrees())
    }

    fn file_agrees(&self) -> bool {
        let total = self.total();
        (self.file_packets, self.file_dropped) == (total.read + 1, total.dropped)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, numbers) =
            (Count(self.writers.len() as u64, "thread"), Count(self.numbers as u64, "number"));
        let (words, files) = (Count(self.words, "word"), Count(self.files, "file"));
        writeln!(f, "{threads} sorted {numbers} and counted {words} in {files}")?;
        writeln!(
            f,
            "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}",
            "packets of", "written", "read", "dropped", "evicted", "broken", "states"
        )?;
        let total = self.total();
        for writer in self.writers.iter().chain([&total]) {
            let WriterReport { name, written, read, dropped, evicted, broken, states, .. } = writer;
            let agrees = if writer.agrees() { "" } else { "  do not agree" };
            writeln!(
                f,
                "{name:<12}{written:>10}{read:>10}{dropped:>10}{evicted:>10}{broken:>10}{states:>8}{agrees}"
            )?;
        }
        let (endpoint, buffer) = (&self.endpoint, &self.buffer);
        writeln!(
            f,
            "shared memory: {} moved, {} scraped",
            Count(endpoint.chunks_moved, "chunk"),
            endpoint.chunks_scraped
        )?;
        writeln!(
            f,
            "ring of {}: {} written, {} overwritten unread, lapped {}",
            Count(buffer.buffer_size, "byte"),
            Count(buffer.bytes_written, "byte"),
            buffer.bytes_overwritten,
            Count(buffer.write_wrap_count, "time")
        )?;
        let (packets, bytes) = (Count(self.file_packets, "packet"), Count(self.file_bytes, "byte"));
        match self.file_counted {
            true => writeln!(f, "trace file: {packets}, {bytes}")?,
            false => writeln!(f, "trace file: not counted, since what it went into cannot be read again")?,
        }
        let lost = total.written - total.read;
        if lost == 0 {
            writeln!(f, "lost: nothing")?;
        } else {
            writeln!(
                f,
                "lost: {}: {} because shared memory was full, {} overwritten in the ring, {} in part",
                Count(lost, "packet"),
                total.dropped,
                total.evicted,
                total.broken
            )?;
            writeln!(f, "causes that packets carry: {}", self.causes)?;
        }
        if total.skipped > 0 {
            let skipped = Count(total.skipped, "event");
            writeln!(f, "not begun, because the state before was dropped: {skipped}")?;
        }
        writeln!(f, "{}", if self.agrees() { "the numbers agree" } else { "the numbers DO NOT agree" })
    }
}
