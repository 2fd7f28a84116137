//! Field numbers of `TraceConfig`, by message: what is to be recorded.

/// `TraceConfig`: what a consumer wants recorded.
pub mod trace_config {
    /// Message: [`buffer_config`](super::buffer_config), repeated.
    pub const BUFFERS: u32 = 1;
    /// Message: [`trace_config_data_source`](super::trace_config_data_source), repeated.
    pub const DATA_SOURCES: u32 = 2;
    /// Varint: it ends after this.
    pub const DURATION_MS: u32 = 3;
    /// Bool: limits of what users upload.
    pub const ENABLE_EXTRA_GUARDRAILS: u32 = 4;
    /// Varint: 1 lets all producers come again, 2 only those of the service's user.
    pub const LOCKDOWN_MODE: u32 = 5;
    /// Message: [`producer_config`](super::producer_config), repeated.
    pub const PRODUCERS: u32 = 6;
    /// Bool: the service writes the trace.
    pub const WRITE_INTO_FILE: u32 = 8;
    /// Varint: how often.
    pub const FILE_WRITE_PERIOD_MS: u32 = 9;
    /// Varint: it ends when the file would be longer.
    pub const MAX_FILE_SIZE_BYTES: u32 = 10;
    /// Message: [`guardrail_overrides`](super::guardrail_overrides).
    pub const GUARDRAIL_OVERRIDES: u32 = 11;
    /// Bool: recording begins when it is told to.
    pub const DEFERRED_START: u32 = 12;
    /// Varint: how often producers are to send what they have.
    pub const FLUSH_PERIOD_MS: u32 = 13;
    /// Varint: how long they have for that.
    pub const FLUSH_TIMEOUT_MS: u32 = 14;
    /// Message: [`trigger_config`](super::trigger_config).
    pub const TRIGGER_CONFIG: u32 = 17;
    /// Message: [`builtin_data_source`](super::builtin_data_source).
    pub const BUILTIN_DATA_SOURCES: u32 = 20;
    /// Message: [`incremental_state_config`](super::incremental_state_config).
    pub const INCREMENTAL_STATE_CONFIG: u32 = 21;
    /// String: no other session has it.
    pub const UNIQUE_SESSION_NAME: u32 = 22;
    /// Varint: how long data sources have to stop.
    pub const DATA_SOURCE_STOP_TIMEOUT_MS: u32 = 23;
    /// Varint: 1 is deflate.
    pub const COMPRESSION_TYPE: u32 = 24;
    /// Int: the upper half of the trace's number.
    pub const TRACE_UUID_MSB: u32 = 27;
    /// Int: the lower half.
    pub const TRACE_UUID_LSB: u32 = 28;
    /// String: the file that the service creates.
    pub const OUTPUT_PATH: u32 = 29;
    /// Int: the highest is cloned for a report.
    pub const BUGREPORT_SCORE: u32 = 30;
    /// Message: [`trace_filter`](super::trace_filter), which fields are left in.
    pub const TRACE_FILTER: u32 = 33;
    /// Bool: the duration counts sleep.
    pub const PREFER_SUSPEND_CLOCK_FOR_DURATION: u32 = 36;
    /// String.
    pub const BUGREPORT_FILENAME: u32 = 38;
    /// Message: [`session_semaphore`](super::session_semaphore), repeated.
    pub const SESSION_SEMAPHORES: u32 = 39;
    /// Message: of the service's threads.
    pub const PRIORITY_BOOST: u32 = 40;
    /// Varint: ends other sessions.
    pub const EXCLUSIVE_PRIO: u32 = 41;
    /// Bool.
    pub const TRACE_ALL_MACHINES: u32 = 43;
    /// Varint: 2 is never, 3 before each write.
    pub const WRITE_FLUSH_MODE: u32 = 44;
    /// Varint: 2 is after each write.
    pub const FFLUSH_POST_WRITE: u32 = 45;
    /// Message: [`compression`](super::compression), how packets are compressed.
    pub const COMPRESSION: u32 = 47;
}

/// `TraceConfig.BufferConfig`.
pub mod buffer_config {
    /// Varint.
    pub const SIZE_KB: u32 = 1;
    /// Varint: 2 keeps what came first.
    pub const FILL_POLICY: u32 = 4;
    /// Bool.
    pub const TRANSFER_ON_CLONE: u32 = 5;
    /// Bool.
    pub const CLEAR_BEFORE_CLONE: u32 = 6;
    /// String.
    pub const NAME: u32 = 7;
}

/// `TraceConfig.DataSource`.
pub mod trace_config_data_source {
    /// Message: `DataSourceConfig`.
    pub const CONFIG: u32 = 1;
    /// String: a producer, repeated.
    pub const PRODUCER_NAME_FILTER: u32 = 2;
    /// String: a pattern of producers, repeated.
    pub const PRODUCER_NAME_REGEX_FILTER: u32 = 3;
    /// String: a machine, repeated.
    pub const MACHINE_NAME_FILTER: u32 = 4;
}

/// `TraceConfig.ProducerConfig`.
pub mod producer_config {
    /// String.
    pub const PRODUCER_NAME: u32 = 1;
    /// Varint.
    pub const SHM_SIZE_KB: u32 = 2;
    /// Varint.
    pub const PAGE_SIZE_KB: u32 = 3;
}

/// `TraceConfig.BuiltinDataSource`: what the service itself writes.
pub mod builtin_data_source {
    /// Bool.
    pub const DISABLE_CLOCK_SNAPSHOTTING: u32 = 1;
    /// Bool.
    pub const DISABLE_TRACE_CONFIG: u32 = 2;
    /// Bool.
    pub const DISABLE_SYSTEM_INFO: u32 = 3;
    /// Bool.
    pub const DISABLE_SERVICE_EVENTS: u32 = 4;
    /// Varint: a clock of [`builtin_clock`](super::super::builtin_clock).
    pub const PRIMARY_TRACE_CLOCK: u32 = 5;
    /// Varint.
    pub const SNAPSHOT_INTERVAL_MS: u32 = 6;
    /// Bool: the interval counts sleep.
    pub const PREFER_SUSPEND_CLOCK_FOR_SNAPSHOT: u32 = 7;
    /// Bool.
    pub const DISABLE_CHUNK_USAGE_HISTOGRAMS: u32 = 8;
    /// Bool: the trace tells of other sessions.
    pub const ENABLE_CONCURRENT_SESSION_EVENTS: u32 = 10;
}

/// `TraceConfig.IncrementalStateConfig`.
pub mod incremental_state_config {
    /// Varint.
    pub const CLEAR_PERIOD_MS: u32 = 1;
}

/// `TraceConfig.TriggerConfig`.
pub mod trigger_config {
    /// Varint.
    pub const TRIGGER_MODE: u32 = 1;
    /// Message: [`trigger`](super::trigger), repeated.
    pub const TRIGGERS: u32 = 2;
    /// Varint.
    pub const TRIGGER_TIMEOUT_MS: u32 = 3;
    /// Bool: to clone a session rather than stop it.
    pub const USE_CLONE_SNAPSHOT_IF_AVAILABLE: u32 = 5;
}

/// `TraceConfig.TriggerConfig.Trigger`.
pub mod trigger {
    /// String.
    pub const NAME: u32 = 1;
    /// String: a pattern of producers that may fire it.
    pub const PRODUCER_NAME_REGEX: u32 = 2;
    /// Varint: how long the session goes on.
    pub const STOP_DELAY_MS: u32 = 3;
    /// Varint: how often it works in a day.
    pub const MAX_PER_24_H: u32 = 4;
    /// Double: how often it does not.
    pub const SKIP_PROBABILITY: u32 = 5;
}

/// `TraceConfig.SessionSemaphore`.
pub mod session_semaphore {
    /// String.
    pub const NAME: u32 = 1;
    /// Varint.
    pub const MAX_OTHER_SESSION_COUNT: u32 = 2;
}

/// `TraceConfig.GuardrailOverrides`.
pub mod guardrail_overrides {
    /// Varint: of all buffers together.
    pub const MAX_TRACING_BUFFER_SIZE_KB: u32 = 2;
}

/// `TraceConfig.CompressionConfig`: of the kinds that are there, the one with the highest number that a service knows.
pub mod compression {
    /// Message, without fields.
    pub const DEFLATE: u32 = 1;
    /// Message: [`zstd`](super::zstd).
    pub const ZSTD: u32 = 2;
}

/// `TraceConfig.CompressionConfig.Zstd`.
pub mod zstd {
    /// Int: 0 is 3.
    pub const LEVEL: u32 = 1;
}

/// `TraceConfig.TraceFilter`: what is left of packets.
pub mod trace_filter {
    /// Bytes: which fields.
    pub const BYTECODE: u32 = 1;
    /// Bytes: the same, with strings that rules are for.
    pub const BYTECODE_V2: u32 = 2;
    /// Message: [`string_filter_chain`](super::string_filter_chain).
    pub const STRING_FILTER_CHAIN: u32 = 3;
    /// Bytes: what differs from either.
    pub const BYTECODE_OVERLAY_V54: u32 = 4;
    /// Message: [`string_filter_chain`](super::string_filter_chain), behind the other.
    pub const STRING_FILTER_CHAIN_V54: u32 = 5;
}

/// `TraceConfig.TraceFilter.StringFilterChain`.
pub mod string_filter_chain {
    /// Message: [`string_filter_rule`](super::string_filter_rule), repeated, of which the first that applies counts.
    pub const RULES: u32 = 1;
}

/// `TraceConfig.TraceFilter.StringFilterRule`.
pub mod string_filter_rule {
    /// Varint: what it does.
    pub const POLICY: u32 = 1;
    /// String.
    pub const REGEX_PATTERN: u32 = 2;
    /// String: how what atrace's string says must begin.
    pub const ATRACE_PAYLOAD_STARTS_WITH: u32 = 3;
    /// String: it takes the place of one before of that name.
    pub const NAME: u32 = 4;
    /// Varint: a kind of string, repeated.
    pub const SEMANTIC_TYPE: u32 = 5;
}

/// `FtraceConfig`: which of the kernel's events are recorded, and how.
pub mod ftrace_config {
    /// String: an event, as `group/name`, `group/*` or `name`, repeated.
    pub const FTRACE_EVENTS: u32 = 1;
    /// String: a category of events, repeated.
    pub const ATRACE_CATEGORIES: u32 = 2;
    /// Varint: KiB of each processor's buffer.
    pub const BUFFER_SIZE_KB: u32 = 10;
    /// Varint: how often it is read.
    pub const DRAIN_PERIOD_MS: u32 = 11;
    /// Message: [`compact_sched_config`](super::compact_sched_config).
    pub const COMPACT_SCHED: u32 = 12;
    /// Bool: the kernel's functions are told by name.
    pub const SYMBOLIZE_KSYMS: u32 = 13;
    /// Varint: how full a processor's buffer is when it is read before its time.
    pub const DRAIN_BUFFER_PERCENT: u32 = 29;
    /// Bool: categories are of programs alone, and not of the kernel.
    pub const ATRACE_USERSPACE_ONLY: u32 = 34;
    /// Varint: the only threads whose events are recorded, repeated.
    pub const TIDS_TO_TRACE: u32 = 35;
    /// Message: [`tracefs_option`](super::tracefs_option), repeated.
    pub const TRACEFS_OPTIONS: u32 = 36;
    /// String: the only processors, as a mask in the kernel's words.
    pub const TRACING_CPUMASK: u32 = 37;
}

/// `FtraceConfig.TracefsOption`.
pub mod tracefs_option {
    /// String: a file in `options`.
    pub const NAME: u32 = 1;
    /// Varint: 1 on, 2 off.
    pub const STATE: u32 = 2;
}

/// `SystemInfoConfig`.
pub mod system_info_config {
    /// Bool: what interrupts are called.
    pub const IRQ_NAMES: u32 = 1;
}

/// `FtraceConfig.CompactSchedConfig`.
pub mod compact_sched_config {
    /// Bool: switches are written as lists.
    pub const ENABLED: u32 = 1;
}

/// `ProcessStatsConfig`: what is recorded of processes.
pub mod process_stats_config {
    /// Bool: all that are there at the start are told.
    pub const SCAN_ALL_PROCESSES_ON_START: u32 = 2;
    /// Bool: so are their threads.
    pub const RECORD_THREAD_NAMES: u32 = 3;
    /// Varint: how often is looked at what they use.
    pub const PROC_STATS_POLL_MS: u32 = 4;
}

/// `SysStatsConfig`: how often is looked at what the machine does, and at which counters; all, if none is named.
pub mod sys_stats_config {
    /// Varint.
    pub const MEMINFO_PERIOD_MS: u32 = 1;
    /// Varint: values of `MeminfoCounters`, repeated.
    pub const MEMINFO_COUNTERS: u32 = 2;
    /// Varint.
    pub const VMSTAT_PERIOD_MS: u32 = 3;
    /// Varint: values of `VmstatCounters`, repeated.
    pub const VMSTAT_COUNTERS: u32 = 4;
    /// Varint.
    pub const STAT_PERIOD_MS: u32 = 5;
    /// Varint: 1 times of processors, 2 interrupts, 3 soft interrupts, 4 processes, repeated.
    pub const STAT_COUNTERS: u32 = 6;
    /// Varint.
    pub const DEVFREQ_PERIOD_MS: u32 = 7;
    /// Varint.
    pub const CPUFREQ_PERIOD_MS: u32 = 8;
    /// Varint.
    pub const BUDDYINFO_PERIOD_MS: u32 = 9;
    /// Varint.
    pub const DISKSTAT_PERIOD_MS: u32 = 10;
    /// Varint.
    pub const PSI_PERIOD_MS: u32 = 11;
    /// Varint.
    pub const THERMAL_PERIOD_MS: u32 = 12;
    /// Varint.
    pub const CPUIDLE_PERIOD_MS: u32 = 13;
    /// Varint.
    pub const GPUFREQ_PERIOD_MS: u32 = 14;
    /// Varint.
    pub const SLAB_PERIOD_MS: u32 = 15;
}
