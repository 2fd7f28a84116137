//! The service's parts: endpoints, flushes and the exporter, which join shared memory, buffers and files.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf::service::{TraceExporter, sequence_id, writer_stats};
//!
//! let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer))?;
//! let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
//! buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 5] }); // a packet: timestamp = 5
//!
//! let mut file = [0u8; 256];
//! let mut exporter = TraceExporter::new(&mut file[..]);
//! assert_eq!(exporter.drain(&mut buffer.read(), sequence_id).unwrap(), 1);
//!
//! // At its end comes what was lost, and whose; 0 is the buffer's place among those of the trace.
//! let writers: Vec<_> = buffer
//!     .sequences()
//!     .map(|of| writer_stats(&of, sequence_id(of.producer_id, of.writer_id), 0))
//!     .collect();
//! exporter.stats(&buffer.stats().of_trace(FillPolicy::RingBuffer), writers).unwrap();
//! # Ok::<(), tracebuf::buffer::RegionError>(())
//! ```
//!
//! The whole way, from a thread's events to a file, is the program `core/examples/first_trace.rs`.
#![forbid(unsafe_code)]

#[cfg(feature = "producer")]
mod buffers;
#[cfg(feature = "producer")]
mod endpoint;
#[cfg(feature = "producer")]
mod endpoint_stats;
mod export;
mod flush_tracker;
mod own_clock;
#[cfg(feature = "producer")]
mod start_mark;
#[cfg(feature = "producer")]
mod writers;

#[cfg(feature = "producer")]
pub use buffers::{AllowedBuffers, Buffers};
#[cfg(feature = "producer")]
pub use endpoint::{EndpointState, ProducerEndpoint, ProducerIdentity};
#[cfg(feature = "producer")]
pub use endpoint_stats::EndpointStats;
pub use export::{Drained, Exported, TraceExporter, sequence_id, trusted_fields, writer_stats};
pub use flush_tracker::FlushTracker;
#[cfg(feature = "producer")]
pub use start_mark::StartMark;
