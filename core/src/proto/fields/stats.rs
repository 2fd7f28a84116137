//! Field numbers of `TraceStats` and the messages in it.

/// `TraceStats`.
pub mod trace_stats {
    /// Message: [`buffer_stats`](super::buffer_stats), repeated, one for each central buffer.
    pub const BUFFER_STATS: u32 = 1;
    /// Varint.
    pub const PRODUCERS_CONNECTED: u32 = 2;
    /// Varint.
    pub const PRODUCERS_SEEN: u32 = 3;
    /// Varint.
    pub const DATA_SOURCES_REGISTERED: u32 = 4;
    /// Varint.
    pub const DATA_SOURCES_SEEN: u32 = 5;
    /// Varint.
    pub const TRACING_SESSIONS: u32 = 6;
    /// Varint: of all sessions.
    pub const TOTAL_BUFFERS: u32 = 7;
    /// Varint: chunks that no buffer wanted.
    pub const CHUNKS_DISCARDED: u32 = 8;
    /// Varint: patches that no buffer wanted.
    pub const PATCHES_DISCARDED: u32 = 9;
    /// Varint: packets refused because they were malformed or set the service's fields.
    pub const INVALID_PACKETS: u32 = 10;
    /// Message: [`filter_stats`](super::filter_stats).
    pub const FILTER_STATS: u32 = 11;
    /// Varint.
    pub const FLUSHES_REQUESTED: u32 = 12;
    /// Varint.
    pub const FLUSHES_SUCCEEDED: u32 = 13;
    /// Varint.
    pub const FLUSHES_FAILED: u32 = 14;
    /// Varint: a value of [`final_flush_outcome`](super::final_flush_outcome).
    pub const FINAL_FLUSH_OUTCOME: u32 = 15;
    /// Int: upper end of a histogram's bucket, repeated, not packed; one bucket more follows the last.
    pub const CHUNK_PAYLOAD_HISTOGRAM_DEF: u32 = 17;
    /// Message: [`writer_stats`](super::writer_stats), repeated, one for each sequence.
    pub const WRITER_STATS: u32 = 18;
}

/// Values of `TraceStats.FinalFlushOutcome`.
pub mod final_flush_outcome {
    /// There was none, or it is not known.
    pub const UNSPECIFIED: u64 = 0;
    /// Every producer answered.
    pub const SUCCEEDED: u64 = 1;
    /// Some did not answer in time.
    pub const FAILED: u64 = 2;
}

macro_rules! buffer_stats {
    (
        size { $(#[$size_doc:meta])* $size:ident: $size_field:ident = $size_number:literal, }
        counters { $($(#[$doc:meta])* $name:ident $(: $field:ident = $number:literal)?,)* }
    ) => {
        /// `TraceStats.BufferStats`.
        pub mod buffer_stats {
            #[doc = concat!("Varint: `", stringify!($size), "`.")]
            pub const $size_field: u32 = $size_number;
            $($(
                #[doc = concat!("Varint: `", stringify!($name), "`.")]
                pub const $field: u32 = $number;
            )?)*
            /// Varint: packets that are longer than a reader accepts. The service's.
            pub const OVERSIZED_PACKETS_DROPPED: u32 = 22;
        }
    };
}
crate::proto::buffer_counters!(buffer_stats);

/// `TraceStats.WriterStats`.
pub mod writer_stats {
    /// Varint: the sequence's `trusted_packet_sequence_id`.
    pub const SEQUENCE_ID: u32 = 1;
    /// Packed: chunks in each bucket.
    pub const CHUNK_PAYLOAD_HISTOGRAM_COUNTS: u32 = 2;
    /// Packed: bytes in each bucket.
    pub const CHUNK_PAYLOAD_HISTOGRAM_SUM: u32 = 3;
    /// Varint: which of the central buffers, from 0.
    pub const BUFFER: u32 = 4;
}

/// `TraceStats.FilterStats`: what a session's filter has done.
pub mod filter_stats {
    /// Varint.
    pub const INPUT_PACKETS: u32 = 1;
    /// Varint.
    pub const INPUT_BYTES: u32 = 2;
    /// Varint.
    pub const OUTPUT_BYTES: u32 = 3;
    /// Varint: packets of which nothing is left because they were malformed.
    pub const ERRORS: u32 = 4;
    /// Varint.
    pub const TIME_TAKEN_NS: u32 = 5;
    /// Varint: of one buffer, repeated.
    pub const BYTES_DISCARDED_PER_BUFFER: u32 = 20;
}
