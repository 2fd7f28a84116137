//! What a recording of the kernel's events has done so far: [`FtraceStatus`].

use super::stats::CpuStats;

/// What a source has recorded so far, and lost.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FtraceStatus {
    /// Events in the trace.
    pub events: u64,
    /// Events that were asked for and that this kernel does not have.
    pub unknown: Vec<String>,
    /// Events that the kernel has and could not enable.
    pub failed: Vec<String>,
    /// KiB of each processor's buffer.
    pub buffer_kib: u64,
    /// Losses of each processor that lost something, since the start: see [`CpuStats::lost`].
    pub lost: Vec<CpuStats>,
    /// Pages that could not be read to their end, by their kinds.
    pub faults: usize,
}
