//! Statistics of the buffers that a reader reads.

use std::io;

use tracebuf::proto::Sink;
use tracebuf::proto::fields::trace_packet;

use super::super::source::TraceFs;
use super::super::stats::{CpuStats, FtraceStats, StatsPhase};
use super::{FtraceReader, PacketSink};

impl FtraceReader {
    /// Reads the statistics of all buffers. Unknown events are told at the start only.
    ///
    /// # Errors
    /// The system's, if the processors cannot be listed. A processor whose statistics cannot be read is left out.
    pub fn stats(&self, fs: &mut impl TraceFs, phase: StatsPhase) -> io::Result<FtraceStats> {
        let cpus = fs.cpus()?.into_iter().filter_map(|cpu| {
            let text = fs.read(&format!("per_cpu/cpu{cpu}/stats")).ok()?;
            Some(CpuStats::parse(cpu, &text))
        });
        let mut stats = FtraceStats::new(phase, cpus.collect());
        // A buffer that is not yet its full size says so after the number.
        let size = fs.read("buffer_size_kb").unwrap_or_default();
        let kib: u64 =
            size.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse().unwrap_or(0);
        stats.buffer_pages = kib.saturating_mul(1024).div_ceil(self.layout.page_len() as u64);
        stats.parse_errors = self.errors.iter().copied().collect();
        stats.kernel_symbols = self
            .symbols
            .as_ref()
            .map(|symbols| (symbols.len() as u64, symbols.bytes().div_ceil(1024) as u64));
        if phase == StatsPhase::Start {
            stats.unknown_events.clone_from(&self.unknown);
        }
        Ok(stats)
    }

    /// Writes statistics as a packet.
    pub fn write_stats(stats: &FtraceStats, out: &mut PacketSink<'_>) {
        let mut packet = Vec::new();
        let Ok(()) = packet.message(trace_packet::FTRACE_STATS, stats);
        out(&packet);
    }
}
