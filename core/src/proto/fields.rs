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
mod events;
mod ftrace;
pub mod ipc;
mod protovm;
mod stats;
mod system;

pub use events::{
    counter_descriptor, counter_unit, debug_annotation, interned_data, interned_string, log_message,
    log_message_body, log_priority, process_descriptor, source_location, thread_descriptor, track_descriptor,
    track_event, track_event_defaults, track_event_type,
};
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

/// `TracePacketDefaults`.
pub mod trace_packet_defaults {
    /// Message: `TrackEventDefaults`.
    pub const TRACK_EVENT_DEFAULTS: u32 = 11;
    /// Varint: the clock of packets that name none.
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
}
