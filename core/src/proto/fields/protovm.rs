//! Programs that fold what a buffer overwrites, their states, and whose packets are patches.

/// `ProtoVmConfig`.
pub mod protovm_config {
    /// Varint: kibibytes of memory for the state.
    pub const MEMORY_LIMIT_KB: u32 = 1;
}

/// `TracePacket.ProtoVms`.
pub mod protovms {
    /// Message: `ProtoVms.Instance`, repeated.
    pub const INSTANCE: u32 = 1;
}

/// `TracePacket.ProtoVms.Instance`.
pub mod protovms_instance {
    /// Message: `VmProgram`.
    pub const PROGRAM: u32 = 1;
    /// Message: `TracePacket`.
    pub const STATE: u32 = 2;
    /// Varint: as in [`protovm_config`](super::protovm_config).
    pub const MEMORY_LIMIT_KB: u32 = 3;
    /// Int: a producer whose packets are patches, repeated.
    pub const PRODUCER_ID: u32 = 4;
    /// Message: what the machine did and takes, which only this project writes.
    pub const STATS: u32 = 1000;
}

/// The message in [`protovms_instance::STATS`].
pub mod protovms_stats {
    /// Varint: patches applied.
    pub const PATCHES: u32 = 1;
    /// Varint: those that the program did not know.
    pub const ERRORS: u32 = 2;
    /// Varint: those that left no trace.
    pub const ABORTS: u32 = 3;
    /// Varint: cells of 32 bytes.
    pub const CELLS: u32 = 4;
    /// Varint: cells in use.
    pub const USED: u32 = 5;
    /// Varint: the most that were in use at a time.
    pub const HIGH_WATER: u32 = 6;
}

/// `TraceProvenance`.
pub mod trace_provenance {
    /// Message: `TraceProvenance.Buffer`, repeated.
    pub const BUFFERS: u32 = 2;
}

/// `TraceProvenance.Buffer`.
pub mod trace_provenance_buffer {
    /// Message: `TraceProvenance.Sequence`, repeated.
    pub const SEQUENCES: u32 = 1;
}

/// `TraceProvenance.Sequence`.
pub mod trace_provenance_sequence {
    /// Varint: as packets of it have it.
    pub const ID: u32 = 1;
    /// Int: the producer that writes it.
    pub const PRODUCER_ID: u32 = 2;
}
