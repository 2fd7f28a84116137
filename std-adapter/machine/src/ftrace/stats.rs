//! Statistics of the kernel's buffers: `FtraceStats`.

use tracebuf::proto::fields::{ftrace_cpu_stats, ftrace_phase, ftrace_stats};
use tracebuf::proto::{Message, Sink};

use super::page::ParseStatus;

/// One processor's buffer: the file `per_cpu/cpuN/stats`. Except for what is in the buffer now, numbers count from when the
/// instance was made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct CpuStats {
    /// The processor.
    pub cpu: u32,
    /// Events in the buffer now.
    pub entries: u64,
    /// Events that newer ones have overwritten.
    pub overrun: u64,
    /// Events that nested too deeply to be written.
    pub commit_overrun: u64,
    /// Bytes in the buffer now.
    pub bytes: u64,
    /// Seconds: the oldest event in the buffer.
    pub oldest_event: f64,
    /// Seconds: the time of reading.
    pub now: f64,
    /// Events that found the buffer full and were not to overwrite others.
    pub dropped_events: u64,
    /// Events that were read.
    pub read_events: u64,
}

impl CpuStats {
    /// Parses the file. What is missing or unreadable in it is 0.
    pub fn parse(cpu: u32, text: &str) -> Self {
        let mut stats = Self { cpu, ..Self::default() };
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let (count, time) = (value.parse().unwrap_or(0), value.parse().unwrap_or(0.0));
            match name.trim() {
                "entries" => stats.entries = count,
                "overrun" => stats.overrun = count,
                "commit overrun" => stats.commit_overrun = count,
                "bytes" => stats.bytes = count,
                "oldest event ts" => stats.oldest_event = time,
                "now ts" => stats.now = time,
                "dropped events" => stats.dropped_events = count,
                "read events" => stats.read_events = count,
                _ => {}
            }
        }
        stats
    }

    /// Events that were lost, for whatever reason.
    pub const fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped_events)
    }

    /// These numbers without what was lost and read before.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            overrun: self.overrun.saturating_sub(before.overrun),
            commit_overrun: self.commit_overrun.saturating_sub(before.commit_overrun),
            dropped_events: self.dropped_events.saturating_sub(before.dropped_events),
            read_events: self.read_events.saturating_sub(before.read_events),
            ..*self
        }
    }
}

impl Message for CpuStats {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(ftrace_cpu_stats::CPU, self.cpu.into())?;
        out.varint(ftrace_cpu_stats::ENTRIES, self.entries)?;
        out.varint(ftrace_cpu_stats::OVERRUN, self.overrun)?;
        out.varint(ftrace_cpu_stats::COMMIT_OVERRUN, self.commit_overrun)?;
        out.varint(ftrace_cpu_stats::BYTES_READ, self.bytes)?;
        out.double(ftrace_cpu_stats::OLDEST_EVENT_TS, self.oldest_event)?;
        out.double(ftrace_cpu_stats::NOW_TS, self.now)?;
        out.varint(ftrace_cpu_stats::DROPPED_EVENTS, self.dropped_events)?;
        out.varint(ftrace_cpu_stats::READ_EVENTS, self.read_events)
    }
}

/// When statistics were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsPhase {
    /// Just after the kernel began to record.
    Start,
    /// After the last page was read.
    End,
}

/// Statistics of all buffers, for the trace: trace processor takes the losses from the difference of two.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FtraceStats {
    /// When they were read.
    pub phase: StatsPhase,
    /// Each processor's.
    pub cpus: Vec<CpuStats>,
    /// Events that this kernel does not have, as `group/name`.
    pub unknown_events: Vec<String>,
    /// Events that could not be enabled.
    pub failed_events: Vec<String>,
    /// Faults of pages so far, each once.
    pub parse_errors: Vec<ParseStatus>,
    /// Pages of each processor's buffer; 0 if unknown.
    pub buffer_pages: u64,
    /// Pages that were asked for; 0 if nothing was.
    pub asked_pages: u64,
    /// Names of functions that were read, and the KiB they take.
    pub kernel_symbols: Option<(u64, u64)>,
    /// Why something could not be set up; empty if nothing is wrong.
    pub error: String,
}

impl FtraceStats {
    /// With these processors', and nothing else to tell.
    pub const fn new(phase: StatsPhase, cpus: Vec<CpuStats>) -> Self {
        Self {
            phase,
            cpus,
            unknown_events: Vec::new(),
            failed_events: Vec::new(),
            parse_errors: Vec::new(),
            buffer_pages: 0,
            asked_pages: 0,
            kernel_symbols: None,
            error: String::new(),
        }
    }
}

impl Message for FtraceStats {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let phase = match self.phase {
            StatsPhase::Start => ftrace_phase::START_OF_TRACE,
            StatsPhase::End => ftrace_phase::END_OF_TRACE,
        };
        out.varint(ftrace_stats::PHASE, phase)?;
        self.cpus.iter().try_for_each(|cpu| out.message(ftrace_stats::CPU_STATS, cpu))?;
        if let Some((count, kib)) = self.kernel_symbols {
            out.varint(ftrace_stats::KERNEL_SYMBOLS_PARSED, count)?;
            out.varint(ftrace_stats::KERNEL_SYMBOLS_MEM_KB, kib)?;
        }
        if !self.error.is_empty() {
            out.string(ftrace_stats::ATRACE_ERRORS, &self.error)?;
        }
        let mut names = |number, names: &[String]| names.iter().try_for_each(|name| out.string(number, name));
        names(ftrace_stats::UNKNOWN_FTRACE_EVENTS, &self.unknown_events)?;
        names(ftrace_stats::FAILED_FTRACE_EVENTS, &self.failed_events)?;
        let mut statuses = self.parse_errors.iter().map(|status| *status as u64);
        statuses.try_for_each(|status| out.varint(ftrace_stats::FTRACE_PARSE_ERRORS, status))?;
        let pages = [
            (ftrace_stats::CPU_BUFFER_SIZE_PAGES, self.buffer_pages),
            (ftrace_stats::CACHED_CPU_BUFFER_SIZE_PAGES, self.asked_pages),
        ];
        let mut known = pages.into_iter().filter(|(_, pages)| *pages > 0);
        known.try_for_each(|(number, pages)| out.varint(number, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_by_name_in_64_bits() {
        let text = "entries: 129\noverrun: 4294967296\ncommit overrun: 1\nbytes: 6000\n\
                    oldest event ts:  2752.317571\nnow ts:  2765.640000\ndropped events: 2\nread events: 3\nnew: 9\n";
        let stats = CpuStats::parse(1, text);
        let counts = [stats.entries, stats.overrun, stats.commit_overrun, stats.bytes];
        assert_eq!(counts, [129, 1 << 32, 1, 6000]);
        assert_eq!((stats.dropped_events, stats.read_events, stats.cpu), (2, 3, 1));
        assert_eq!((stats.oldest_event, stats.now), (2752.317571, 2765.64));
        assert_eq!(CpuStats::parse(1, "rubbish\nentries: x\n"), CpuStats { cpu: 1, ..CpuStats::default() });
    }

    #[test]
    fn zeros_are_written_for_trace_processor_takes_what_is_absent_for_unknown() {
        let stats = FtraceStats::new(StatsPhase::End, vec![CpuStats::default()]);
        let mut bytes = Vec::new();
        let Ok(()) = stats.encode(&mut bytes);
        assert_eq!(bytes[..4], [0x08, 2, 0x12, 32]);
        assert_eq!(bytes[4..14], [0x08, 0, 0x10, 0, 0x18, 0, 0x20, 0, 0x28, 0]);
    }
}
