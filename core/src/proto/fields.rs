//! Field numbers and enumeration values of the messages in a trace, by message; [`ipc`],
//! [`consumer`] and [`config`] have those of Perfetto's sockets.
//!
//! The first word of each constant's description is its kind on the wire, named like a method of [`Sink`](super::Sink).
//! `.ci/check_field_numbers.py` compares numbers and kinds with those that Perfetto publishes.
//!
//! ```
//! use tracebuf::proto::{Encoder, Sink, fields::{track_event, track_event_type}};
//!
//! let mut memory = [0; 16];
//! let mut event = Encoder::new(&mut memory);
//! event.varint(track_event::TYPE, track_event_type::SLICE_END)?;
//! assert_eq!(event.finish()?, [0x48, 0x02]);
//! # Ok::<(), tracebuf::proto::Overflow>(())
//! ```

pub mod config;
pub mod consumer;
mod ftrace;
pub mod ipc;
mod protovm;
mod stats;
mod system;

pub use ftrace::{
    compact_sched, descriptor_proto, field_descriptor_proto, field_type, ftrace_clock, ftrace_cpu_stats,
    ftrace_error, ftrace_event, ftrace_event_bundle, ftrace_phase, ftrace_stats, generic_event_descriptor,
    interned_bytes,
};
pub use protovm::{
    protovm_config, protovms, protovms_instance, protovms_stats, trace_provenance, trace_provenance_buffer,
    trace_provenance_sequence,
};
pub use stats::{buffer_stats, filter_stats, final_flush_outcome, trace_stats, writer_stats};
pub use system::{
    arm_cpu_identifier, buddy_info, cpu, cpu_info, cpu_times, cpuidle_state, cpuidle_state_entry,
    devfreq_value, disk_stat, interrupt_count, interrupt_info, interrupt_mapping, process_stats,
    process_stats_process, psi_resource, psi_sample, slab_info, sys_stats, sys_stats_value, system_info,
    thermal_zone, utsname,
};

/// `Trace`, a whole trace file.
pub mod trace {
    /// Message: `TracePacket`, repeated; there is no other field.
    pub const PACKET: u32 = 1;
}

/// `TracePacket`.
pub mod trace_packet {
    /// Message: `FtraceEventBundle`. Perfetto's `traced_probes` writes it.
    pub const FTRACE_EVENTS: u32 = 1;
    /// Message: `ProcessTree`.
    pub const PROCESS_TREE: u32 = 2;
    /// Int: the producer's user id. The service's.
    pub const TRUSTED_UID: u32 = 3;
    /// Message: `ClockSnapshot`.
    pub const CLOCK_SNAPSHOT: u32 = 6;
    /// Message: `SysStats`.
    pub const SYS_STATS: u32 = 7;
    /// Varint: nanoseconds, unless the packet's clock counts otherwise.
    pub const TIMESTAMP: u32 = 8;
    /// Message: `ProcessStats`.
    pub const PROCESS_STATS: u32 = 9;
    /// Varint: one id for each producer and writer. The service's.
    pub const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    /// Message: `TrackEvent`.
    pub const TRACK_EVENT: u32 = 11;
    /// Message: `InternedData`.
    pub const INTERNED_DATA: u32 = 12;
    /// Varint: bits of [`sequence_flags`](super::sequence_flags).
    pub const SEQUENCE_FLAGS: u32 = 13;
    /// Message: `TraceConfig`. The service's.
    pub const TRACE_CONFIG: u32 = 33;
    /// Message: `FtraceStats`.
    pub const FTRACE_STATS: u32 = 34;
    /// Message: `TraceStats`. The service's.
    pub const TRACE_STATS: u32 = 35;
    /// Bytes: a fixed pattern between parts of a long trace. The service's.
    pub const SYNCHRONIZATION_MARKER: u32 = 36;
    /// Bool: what older writers say instead of
    /// [`INCREMENTAL_STATE_CLEARED`](super::sequence_flags::INCREMENTAL_STATE_CLEARED).
    pub const INCREMENTAL_STATE_CLEARED: u32 = 41;
    /// Varint: bits of [`data_loss_reason`](super::data_loss_reason); what was lost on this sequence
    /// before this packet.
    pub const PREVIOUS_PACKET_DROPPED: u32 = 42;
    /// Message: `ProcessDescriptor`, of writers from before there were tracks.
    pub const PROCESS_DESCRIPTOR: u32 = 43;
    /// Message: `ThreadDescriptor`, likewise.
    pub const THREAD_DESCRIPTOR: u32 = 44;
    /// Message: `SystemInfo`.
    pub const SYSTEM_INFO: u32 = 45;
    /// Message: `Trigger`. The service's.
    pub const TRIGGER: u32 = 46;
    /// Bytes: packets, deflated. The service's.
    pub const COMPRESSED_PACKETS: u32 = 50;
    /// Varint: a clock of [`builtin_clock`](super::builtin_clock) or the sequence's own (64 to 127).
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    /// Message: `TracePacketDefaults`.
    pub const TRACE_PACKET_DEFAULTS: u32 = 59;
    /// Message: `TrackDescriptor`.
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// Message: `CpuInfo`.
    pub const CPU_INFO: u32 = 67;
    /// Message: `TracingServiceEvent`. The service's.
    pub const SERVICE_EVENT: u32 = 69;
    /// Message: `TraceUuid`. The service's.
    pub const TRACE_UUID: u32 = 89;
    /// Int: the producer's process id. The service's.
    pub const TRUSTED_PID: u32 = 79;
    /// Bool: it is its writer's first packet.
    pub const FIRST_PACKET_ON_SEQUENCE: u32 = 87;
    /// Varint: the machine the producer runs on, if not the service's. The service's.
    pub const MACHINE_ID: u32 = 98;
    /// Message: `Trigger`: what a trace is a clone for. The service's.
    pub const CLONE_SNAPSHOT_TRIGGER: u32 = 113;
    /// Message: `TraceProvenance`. The service's.
    pub const TRACE_PROVENANCE: u32 = 124;
    /// Message: `ProtoVms`. The service's.
    pub const PROTOVMS: u32 = 125;
    /// Message: `InterruptInfo`.
    pub const INTERRUPT_INFO: u32 = 130;
    /// Bytes: packets, compressed with zstd. The service's.
    pub const ZSTD_COMPRESSED_PACKETS: u32 = 133;
    /// Message: `ConcurrentSessionEvent`.
    pub const CONCURRENT_SESSION_EVENT: u32 = 134;
    /// Message: `TestEvent`.
    pub const FOR_TESTING: u32 = 900;
}

/// Values of `TracePacket.SequenceFlags`.
pub mod sequence_flags {
    /// Interned data, defaults and incremental clocks start anew with this packet.
    pub const INCREMENTAL_STATE_CLEARED: u64 = 1;
    /// This packet cannot be read without the state since it was last cleared.
    pub const NEEDS_INCREMENTAL_STATE: u64 = 2;
}

/// Values of `TracePacket.DataLossReason`.
pub mod data_loss_reason {
    /// Something was lost.
    pub const PRESENT: u32 = 1;
    /// The reader came to a chunk that does not follow the one before.
    pub const READ_GAP: u32 = 2;
    /// A chunk holds no fragments that make sense.
    pub const CHUNK_CORRUPTED: u32 = 4;
    /// The end of a packet whose beginning is not there.
    pub const ORPHAN_CONTINUATION: u32 = 8;
    /// A chunk is missing in the middle of a packet.
    pub const REASSEMBLY_GAP: u32 = 16;
    /// The next chunk does not continue the packet that should continue there.
    pub const REASSEMBLY_BROKEN_CHAIN: u32 = 32;
    /// Newer data took its place before it was read.
    pub const OVERWRITE: u32 = 64;
    /// The writer gave up a packet.
    pub const WRITER_ABORT: u32 = 128;
    /// The writer found the shared memory full.
    pub const SMB_FULL: u32 = 256;
}

/// `ClockSnapshot`.
pub mod clock_snapshot {
    /// Message: `ClockSnapshot.Clock`, repeated: clocks read at one moment.
    pub const CLOCKS: u32 = 1;
    /// Varint: the clock of [`builtin_clock`](super::builtin_clock) that the trace is shown in.
    pub const PRIMARY_TRACE_CLOCK: u32 = 2;
}

/// `ClockSnapshot.Clock`.
pub mod clock {
    /// Varint: a clock of [`builtin_clock`](super::builtin_clock) or the sequence's own (64 to 127).
    pub const CLOCK_ID: u32 = 1;
    /// Varint: what the clock read, in its own unit.
    pub const TIMESTAMP: u32 = 2;
    /// Bool: timestamps of this clock count from the one before.
    pub const IS_INCREMENTAL: u32 = 3;
    /// Varint: nanoseconds in a tick.
    pub const UNIT_MULTIPLIER_NS: u32 = 4;
}

/// Values of `BuiltinClock`.
pub mod builtin_clock {
    /// The time of day.
    pub const REALTIME: u64 = 1;
    /// The time of day, as of the last tick.
    pub const REALTIME_COARSE: u64 = 2;
    /// Steady; may stop while the machine sleeps.
    pub const MONOTONIC: u64 = 3;
    /// Steady, as of the last tick.
    pub const MONOTONIC_COARSE: u64 = 4;
    /// Steady, and not corrected.
    pub const MONOTONIC_RAW: u64 = 5;
    /// Steady, counting sleep too.
    pub const BOOTTIME: u64 = 6;
    /// What the processor counts.
    pub const TSC: u64 = 9;
    /// The highest id that is not a sequence's own.
    pub const MAX_ID: u64 = 63;
}

/// `ProcessTree`.
pub mod process_tree {
    /// Message: `ProcessTree.Process`, repeated.
    pub const PROCESSES: u32 = 1;
    /// Message: `ProcessTree.Thread`, repeated.
    pub const THREADS: u32 = 2;
    /// Varint: nanoseconds, when all of them had been read.
    pub const COLLECTION_END_TIMESTAMP: u32 = 3;
}

/// `ProcessTree.Process`.
pub mod process_tree_process {
    /// Int: its number outside of all namespaces that it is in, as `trusted_pid` has it.
    pub const PID: u32 = 1;
    /// Int: that of its parent.
    pub const PPID: u32 = 2;
    /// String: a word of its command line, repeated.
    pub const CMDLINE: u32 = 3;
    /// Int: the user that it belongs to.
    pub const UID: u32 = 5;
    /// Int: its number in each namespace that it is in, the outermost first, repeated.
    pub const NSPID: u32 = 6;
    /// Varint: nanoseconds from the machine's start to its own.
    pub const PROCESS_START_FROM_BOOT: u32 = 7;
    /// Bool: it is a thread of the kernel.
    pub const IS_KTHREAD: u32 = 8;
    /// Bool: it has no command line, and what is there in place of one is its name.
    pub const CMDLINE_IS_COMM: u32 = 9;
}

/// `ProcessTree.Thread`.
pub mod process_tree_thread {
    /// Int: its number outside of all namespaces that its process is in.
    pub const TID: u32 = 1;
    /// String: its name.
    pub const NAME: u32 = 2;
    /// Int: its process's number there.
    pub const TGID: u32 = 3;
    /// Int: its number in each namespace, the outermost first, repeated.
    pub const NSTID: u32 = 4;
}

/// `TrackEvent`.
pub mod track_event {
    /// Varint: interned category, repeated.
    pub const CATEGORY_IIDS: u32 = 3;
    /// Message: `DebugAnnotation`, repeated.
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    /// Message: `LegacyEvent`, which Chrome writes.
    pub const LEGACY_EVENT: u32 = 6;
    /// Varint: a value of [`track_event_type`](super::track_event_type).
    pub const TYPE: u32 = 9;
    /// Varint: interned name.
    pub const NAME_IID: u32 = 10;
    /// Varint: the track it happens on; else the sequence's default.
    pub const TRACK_UUID: u32 = 11;
    /// Message: `LogMessage`.
    pub const LOG_MESSAGE: u32 = 21;
    /// String: category, repeated.
    pub const CATEGORIES: u32 = 22;
    /// String: name.
    pub const NAME: u32 = 23;
    /// Int: an integer counter's value.
    pub const COUNTER_VALUE: u32 = 30;
    /// Message: `SourceLocation`.
    pub const SOURCE_LOCATION: u32 = 33;
    /// Varint: interned source location.
    pub const SOURCE_LOCATION_IID: u32 = 34;
    /// Double: a counter's value.
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    /// Fixed64: flow that passes through, repeated.
    pub const FLOW_IDS: u32 = 47;
    /// Fixed64: flow that ends here, repeated.
    pub const TERMINATING_FLOW_IDS: u32 = 48;
}

/// Values of `TrackEvent.Type`.
pub mod track_event_type {
    /// A slice begins.
    pub const SLICE_BEGIN: u64 = 1;
    /// The track's innermost open slice ends.
    pub const SLICE_END: u64 = 2;
    /// A moment.
    pub const INSTANT: u64 = 3;
    /// A counter's new value.
    pub const COUNTER: u64 = 4;
}

/// `TrackDescriptor`.
pub mod track_descriptor {
    /// Varint: the track's id, unique in the trace.
    pub const UUID: u32 = 1;
    /// String: the name shown.
    pub const NAME: u32 = 2;
    /// Message: `ProcessDescriptor`, for a process's track.
    pub const PROCESS: u32 = 3;
    /// Message: `ThreadDescriptor`, for a thread's track.
    pub const THREAD: u32 = 4;
    /// Varint: the track it is shown under.
    pub const PARENT_UUID: u32 = 5;
    /// Message: `CounterDescriptor`, for a counter's track.
    pub const COUNTER: u32 = 8;
    /// String: the name shown, where it is a literal of the program.
    pub const STATIC_NAME: u32 = 10;
}

/// `ProcessDescriptor`.
pub mod process_descriptor {
    /// Int: process id.
    pub const PID: u32 = 1;
    /// String: name.
    pub const PROCESS_NAME: u32 = 6;
}

/// `ThreadDescriptor`.
pub mod thread_descriptor {
    /// Int: process id.
    pub const PID: u32 = 1;
    /// Int: thread id.
    pub const TID: u32 = 2;
    /// String: name.
    pub const THREAD_NAME: u32 = 5;
    /// Int: microseconds from which times of the sequence's events count that are distances.
    pub const REFERENCE_TIMESTAMP_US: u32 = 6;
}

/// `CounterDescriptor`.
pub mod counter_descriptor {
    /// Varint: a value of [`counter_unit`](super::counter_unit).
    pub const UNIT: u32 = 3;
    /// Int: units that each value counts.
    pub const UNIT_MULTIPLIER: u32 = 4;
    /// Bool: values are distances to the one before.
    pub const IS_INCREMENTAL: u32 = 5;
    /// String: a unit of its own.
    pub const UNIT_NAME: u32 = 6;
}

/// Values of `CounterDescriptor.Unit`.
pub mod counter_unit {
    /// Nanoseconds.
    pub const TIME_NS: u64 = 1;
    /// A number of things.
    pub const COUNT: u64 = 2;
    /// Bytes.
    pub const SIZE_BYTES: u64 = 3;
}

/// `DebugAnnotation`.
pub mod debug_annotation {
    /// Varint: interned name.
    pub const NAME_IID: u32 = 1;
    /// Bool.
    pub const BOOL_VALUE: u32 = 2;
    /// Varint: unsigned.
    pub const UINT_VALUE: u32 = 3;
    /// Int: signed.
    pub const INT_VALUE: u32 = 4;
    /// Double.
    pub const DOUBLE_VALUE: u32 = 5;
    /// String.
    pub const STRING_VALUE: u32 = 6;
    /// Varint: shown in hexadecimal.
    pub const POINTER_VALUE: u32 = 7;
    /// String: JSON.
    pub const LEGACY_JSON_VALUE: u32 = 9;
    /// String: name.
    pub const NAME: u32 = 10;
    /// Message: `DebugAnnotation`, repeated: values with names.
    pub const DICT_ENTRIES: u32 = 11;
    /// Message: `DebugAnnotation`, repeated: values without names.
    pub const ARRAY_VALUES: u32 = 12;
    /// Varint: interned string.
    pub const STRING_VALUE_IID: u32 = 17;
}

/// `InternedData`.
pub mod interned_data {
    /// Message: `EventCategory`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const EVENT_CATEGORIES: u32 = 1;
    /// Message: `EventName`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const EVENT_NAMES: u32 = 2;
    /// Message: `DebugAnnotationName`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const DEBUG_ANNOTATION_NAMES: u32 = 3;
    /// Message: `SourceLocation`, repeated.
    pub const SOURCE_LOCATIONS: u32 = 4;
    /// Message: `InternedString`, repeated; fields as in [`interned_bytes`](super::interned_bytes).
    pub const KERNEL_SYMBOLS: u32 = 26;
    /// Message: `LogMessageBody`, repeated.
    pub const LOG_MESSAGE_BODY: u32 = 20;
    /// Message: `InternedString`, repeated; fields as in [`interned_bytes`](super::interned_bytes).
    pub const DEBUG_ANNOTATION_STRING_VALUES: u32 = 29;
}

/// `EventCategory`, `EventName` and `DebugAnnotationName`, which are alike.
pub mod interned_string {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: what it stands for.
    pub const NAME: u32 = 2;
}

/// `SourceLocation`: where in a program's source something is.
pub mod source_location {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: the file's path.
    pub const FILE_NAME: u32 = 2;
    /// String: the function's name.
    pub const FUNCTION_NAME: u32 = 3;
    /// Varint: the line, from 1.
    pub const LINE_NUMBER: u32 = 4;
}

/// `LogMessage`: a line of a log, which is also an event.
pub mod log_message {
    /// Varint: interned source location.
    pub const SOURCE_LOCATION_IID: u32 = 1;
    /// Varint: interned text.
    pub const BODY_IID: u32 = 2;
    /// Varint: a value of [`log_priority`](super::log_priority).
    pub const PRIO: u32 = 3;
}

/// `LogMessage.Priority`: those of Android's log.
pub mod log_priority {
    /// Each step of what the program does.
    pub const VERBOSE: u64 = 2;
    /// For those who work on the program.
    pub const DEBUG: u64 = 3;
    /// For those who use the program.
    pub const INFO: u64 = 4;
    /// What may become an error.
    pub const WARN: u64 = 5;
    /// What failed.
    pub const ERROR: u64 = 6;
    /// What ends the program.
    pub const FATAL: u64 = 7;
}

/// `LogMessageBody`: the text of lines of a log.
pub mod log_message_body {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: what it stands for.
    pub const BODY: u32 = 2;
}

/// `TracePacketDefaults`.
pub mod trace_packet_defaults {
    /// Message: `TrackEventDefaults`.
    pub const TRACK_EVENT_DEFAULTS: u32 = 11;
    /// Varint: the clock of packets that name none.
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
}

/// `TrackEventDefaults`.
pub mod track_event_defaults {
    /// Varint: the track of events that name none.
    pub const TRACK_UUID: u32 = 11;
}
