//! Protobuf as a trace uses it: varints, fields, packets and the trace file around them.
//!
//! A trace file is one protobuf message, `Trace`: field 1 over and over, each a `TracePacket`. This
//! module reads and writes that form without a heap and without joining what lies in pieces:
//!
//! | part | what it does |
//! |---|---|
//! | [`varint`] | variable-length integers, also the redundant ones of size fields |
//! | [`fields`] | the field numbers, by message |
//! | [`Encoder`], [`Sink`], [`Message`] | fields into a bounded slice, a counter, or any writer |
//! | [`reader`], [`PacketView`] | fields out of a message or a packet |
//! | [`PacketValidator`] | is this untrusted packet well-formed, and free of the service's fields? |
//! | [`TrustedFields`] | what only the service may say about a packet, appended to it |
//! | [`TraceFileWriter`], [`TracePackets`] | the `Trace` framing, out and in |
//! | `frame` | pieces of a trace for lines that lose bytes, out and in (with the feature `frame`) |
//! | [`ClockTimes`] | the packet that tells what clocks showed at one moment |
//! | [`trace_stats`] | the `TraceStats` packet that tells users what was lost |
//!
//! It knows neither the buffer nor the producers; nothing in it panics, whatever bytes come in.
//!
//! ```
//! use tracebuf::proto::{PacketValidator, SequenceId, TraceFileWriter, TracePackets, TrustedFields};
//!
//! // A packet in two fragments, as it was cut by the ends of chunks: timestamp (field 8) = 300.
//! let fragments: [&[u8]; 2] = [&[0x40, 0xAC], &[0x02]];
//!
//! let valid = PacketValidator::check(fragments)?;
//! let trusted = TrustedFields {
//!     previous_packet_dropped: valid.previous_packet_dropped,
//!     ..TrustedFields::new(1000, SequenceId::new(2).unwrap())
//! };
//!
//! let mut file = [0; 64];
//! let mut writer = TraceFileWriter::new(&mut file[..]);
//! writer.packet(fragments, &trusted).unwrap();
//! let written = writer.bytes() as usize;
//!
//! let packet = TracePackets::new(&file[..written]).next().unwrap().unwrap();
//! assert!(packet.starts_with(&[0x40, 0xAC, 0x02]));
//! # Ok::<(), tracebuf::proto::InvalidPacket>(())
//! ```
#![forbid(unsafe_code)]

pub mod fields;
#[cfg(feature = "frame")]
pub mod frame;
pub mod reader;
pub mod trace_stats;
pub mod varint;

mod buffer_stats;
mod clock_times;
mod encoder;
mod packet_view;
mod sink;
mod trace_file;
mod trace_packets;
mod trusted;
mod validate;

pub(crate) use buffer_stats::buffer_counters;
pub use clock_times::ClockTimes;
pub use encoder::{Encoder, Overflow};
pub use packet_view::PacketView;
pub use sink::{Measure, Message, Sink, WireType, tag};
pub(crate) use trace_file::{Fragments, write_all};
pub use trace_file::{TraceFileWriter, WriteError};
pub use trace_packets::{TraceFileError, TraceFileFault, TracePackets};
pub use trusted::{SequenceId, TrustedFields, TrustedSuffix};
pub use validate::{Fault, InvalidPacket, PacketValidator, ValidPacket, is_service_only};

/// The longest packet, and the longest length-delimited field, that this crate reads or writes: what
/// four bytes of varint hold, 0x0FFF_FFFF (256 MiB less one byte).
pub const MAX_LENGTH: u32 = varint::REDUNDANT_MAX;
