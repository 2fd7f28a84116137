//! The kernel's events: bundles of ftrace, and the statistics of its buffers.

/// `FtraceEventBundle`: events of one processor.
pub mod ftrace_event_bundle {
    /// Varint: the processor.
    pub const CPU: u32 = 1;
    /// Message: `FtraceEvent`, repeated.
    pub const EVENT: u32 = 2;
    /// Bool: the kernel lost events of this processor before these.
    pub const LOST_EVENTS: u32 = 3;
    /// Message: `CompactSched`.
    pub const COMPACT_SCHED: u32 = 4;
    /// Varint: a clock of [`ftrace_clock`](super::ftrace_clock); absent if it is the trace's own.
    pub const FTRACE_CLOCK: u32 = 5;
    /// Int: nanoseconds of that clock, at the same moment as `BOOT_TIMESTAMP`.
    pub const FTRACE_TIMESTAMP: u32 = 6;
    /// Int: nanoseconds of the trace's clock.
    pub const BOOT_TIMESTAMP: u32 = 7;
    /// Message: `FtraceError`, repeated: pages that could not be read to their end.
    pub const ERROR: u32 = 8;
    /// Varint: the time of the last event in this processor's bundle before; 0 in the first.
    pub const PREVIOUS_BUNDLE_END_TIMESTAMP: u32 = 10;
    /// Message: `GenericEventDescriptor`, repeated.
    pub const GENERIC_EVENT_DESCRIPTORS: u32 = 11;
}

/// Values of `FtraceClock`.
pub mod ftrace_clock {
    /// One that a trace cannot be converted from.
    pub const UNKNOWN: u64 = 1;
    /// `global`.
    pub const GLOBAL: u64 = 2;
    /// `local`.
    pub const LOCAL: u64 = 3;
    /// `mono_raw`.
    pub const MONO_RAW: u64 = 4;
}

/// `FtraceEvent`. Its message has the number that a table of the events says.
pub mod ftrace_event {
    /// Varint: nanoseconds.
    pub const TIMESTAMP: u32 = 1;
    /// Varint: the thread that ran.
    pub const PID: u32 = 2;
}

/// `FtraceEventBundle.CompactSched`: scheduling as lists, one for each field.
pub mod compact_sched {
    /// Packed: nanoseconds, the first absolute, the rest since the one before.
    pub const SWITCH_TIMESTAMP: u32 = 1;
    /// Packed: the state in which the previous thread was left.
    pub const SWITCH_PREV_STATE: u32 = 2;
    /// Packed: the next thread.
    pub const SWITCH_NEXT_PID: u32 = 3;
    /// Packed: its priority.
    pub const SWITCH_NEXT_PRIO: u32 = 4;
    /// String: names, repeated.
    pub const INTERN_TABLE: u32 = 5;
    /// Packed: its name, an index into `INTERN_TABLE`.
    pub const SWITCH_NEXT_COMM_INDEX: u32 = 6;
    /// Packed: as for switches.
    pub const WAKING_TIMESTAMP: u32 = 7;
    /// Packed: the thread that is woken.
    pub const WAKING_PID: u32 = 8;
    /// Packed: the processor it goes to.
    pub const WAKING_TARGET_CPU: u32 = 9;
    /// Packed: its priority.
    pub const WAKING_PRIO: u32 = 10;
    /// Packed: its name, an index into `INTERN_TABLE`.
    pub const WAKING_COMM_INDEX: u32 = 11;
    /// Packed: the event's common flags.
    pub const WAKING_COMMON_FLAGS: u32 = 12;
}

/// `FtraceEventBundle.FtraceError`.
pub mod ftrace_error {
    /// Varint: the page's time.
    pub const TIMESTAMP: u32 = 1;
    /// Varint: an `FtraceParseStatus`.
    pub const STATUS: u32 = 2;
}

/// `FtraceEventBundle.GenericEventDescriptor`: an event that Perfetto has no message for.
pub mod generic_event_descriptor {
    /// Int: its number in `FtraceEvent`.
    pub const FIELD_ID: u32 = 1;
    /// Bytes: its message, a `DescriptorProto`.
    pub const EVENT_DESCRIPTOR: u32 = 2;
    /// String: its group.
    pub const GROUP_NAME: u32 = 3;
}

/// `google.protobuf.DescriptorProto`.
pub mod descriptor_proto {
    /// String: the message's name.
    pub const NAME: u32 = 1;
    /// Message: `FieldDescriptorProto`, repeated.
    pub const FIELD: u32 = 2;
}

/// `google.protobuf.FieldDescriptorProto`.
pub mod field_descriptor_proto {
    /// String: the field's name.
    pub const NAME: u32 = 1;
    /// Int: its number.
    pub const NUMBER: u32 = 3;
    /// Varint: a type of [`field_type`](super::field_type).
    pub const TYPE: u32 = 5;
}

/// Values of `google.protobuf.FieldDescriptorProto.Type`.
pub mod field_type {
    /// `int64`.
    pub const INT64: u64 = 3;
    /// `uint64`.
    pub const UINT64: u64 = 4;
    /// `string`.
    pub const STRING: u64 = 9;
    /// `bytes`.
    pub const BYTES: u64 = 12;
}

/// `FtraceStats`: the kernel's buffers at the beginning or end of a recording.
pub mod ftrace_stats {
    /// Varint: a value of [`ftrace_phase`](super::ftrace_phase).
    pub const PHASE: u32 = 1;
    /// Message: `FtraceCpuStats`, repeated.
    pub const CPU_STATS: u32 = 2;
    /// Varint: symbols of the kernel that were read.
    pub const KERNEL_SYMBOLS_PARSED: u32 = 3;
    /// Varint: KiB that they take.
    pub const KERNEL_SYMBOLS_MEM_KB: u32 = 4;
    /// String: why something could not be set up.
    pub const ATRACE_ERRORS: u32 = 5;
    /// String: an event that this kernel does not have, repeated.
    pub const UNKNOWN_FTRACE_EVENTS: u32 = 6;
    /// String: an event that could not be enabled, repeated.
    pub const FAILED_FTRACE_EVENTS: u32 = 7;
    /// Varint: an `FtraceParseStatus`, repeated, each once.
    pub const FTRACE_PARSE_ERRORS: u32 = 9;
    /// Varint: pages of each processor's buffer.
    pub const CPU_BUFFER_SIZE_PAGES: u32 = 11;
    /// Varint: pages that were asked for.
    pub const CACHED_CPU_BUFFER_SIZE_PAGES: u32 = 12;
}

/// Values of `FtraceStats.Phase`.
pub mod ftrace_phase {
    /// Just after recording began.
    pub const START_OF_TRACE: u64 = 1;
    /// After the last page was read.
    pub const END_OF_TRACE: u64 = 2;
}

/// `FtraceCpuStats`: one processor's buffer. Numbers count from when the buffer was made.
pub mod ftrace_cpu_stats {
    /// Varint: the processor.
    pub const CPU: u32 = 1;
    /// Varint: events in the buffer now.
    pub const ENTRIES: u32 = 2;
    /// Varint: events that were overwritten.
    pub const OVERRUN: u32 = 3;
    /// Varint: events that nested too deeply to be written.
    pub const COMMIT_OVERRUN: u32 = 4;
    /// Varint: bytes in the buffer now.
    pub const BYTES_READ: u32 = 5;
    /// Double: seconds, of the oldest event in the buffer.
    pub const OLDEST_EVENT_TS: u32 = 6;
    /// Double: seconds, now.
    pub const NOW_TS: u32 = 7;
    /// Varint: events that found the buffer full.
    pub const DROPPED_EVENTS: u32 = 8;
    /// Varint: events that were read.
    pub const READ_EVENTS: u32 = 9;
}

/// `InternedString`.
pub mod interned_bytes {
    /// Varint: the id that stands for it.
    pub const IID: u32 = 1;
    /// Bytes: what it stands for.
    pub const STR: u32 = 2;
}
