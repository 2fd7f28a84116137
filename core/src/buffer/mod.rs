//! The central trace buffer: chunks of many writers go into one ring, and whole packets come out.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
//!
//! let mut memory = vec![0u8; 4096];
//! let mut buffer = TraceBuffer::new(&mut memory[..], Config::new(FillPolicy::RingBuffer).sequences(8))?;
//! let header = ChunkHeader { producer_id: 1, writer_id: 1, fragments: 2, ..Default::default() };
//! assert_eq!(buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02hi\x05there" }), Commit::Written);
//!
//! let mut reader = buffer.read();
//! assert_eq!(reader.next_packet().unwrap().slices().next(), Some(&b"hi"[..]));
//! assert_eq!(reader.next_packet().unwrap().len(), 5);
//! assert!(reader.next_packet().is_none());
//! # Ok::<(), tracebuf::buffer::RegionError>(())
//! ```
//!
//! # Where things are
//!
//! The names are those of the design paper of Perfetto's TraceBuffer V2:
//!
//! | paper | here |
//! |---|---|
//! | `TBChunk`, its header and the ring's items | `tb_chunk` |
//! | `SequenceState`, and the table of them | `sequence_state`, `sequence_table` |
//! | the ordered list of a sequence's chunks, `ChunkSeqIterator` | `chunk_list` |
//! | `FragIterator`, tokenising | `frag_iterator` |
//! | `ChunkSeqReader`, the walk in sequence order | `chunk_seq_reader` |
//! | `ReassembleFragmentedPacket` | `reassembly` |
//! | `CopyChunkUntrusted`, re-commits | `commit`, `recommit` |
//! | `DeleteNextChunksFor`, overwriting | `overwrite` |
//! | `TryPatchChunkContents` | `patch` |
//! | `BeginRead`, `ReadNextTracePacket`, the walk in buffer order | `reader` |
//! | `CloneReadOnly` | `read_only` |
//!
//! And without a name there:
//!
//! | what | here |
//! |---|---|
//! | what lies where in memory, and access to it | `region`, `tb_chunk`, `ring`, `words` |
//! | chunks on offer, and their bytes | `chunk`, `source` |
//! | changes that survive a crash, and checksums | `change`, `crc` |
//! | regions that are found again, unfinished chunks in them, larger copies | `attach`, `repair`, `grow` |
//! | chunks that get nothing more; a writer's sequence, for the endpoint | `closing`, `continuity` |
//! | packets that come out, and leases of them | `packet`, `lease` |
//! | causes of loss, and counters | `data_loss`, `stats` |
//! | views for tools, and checks for tests | `inspect`, `check` |
//!
//! # Losses
//!
//! A packet carries, as [`DataLoss`], the causes of all losses on its sequence since the packet before it. A scraped
//! chunk that was overwritten and whose commit may still come is reported once a later chunk has its turn.
//!
//! # What a crash leaves
//!
//! Every change of the ring's structure is one aligned store of 4 bytes: a chunk becomes a gap before its bytes are
//! overwritten, and a gap becomes a chunk once all of the chunk is written. A chunk is marked while its payload is
//! being changed. So the ring can be parsed at any instant, and links, table and counters can be rebuilt from it.
#![forbid(unsafe_code)]

mod attach;
mod change;
mod check;
mod chunk;
mod chunk_list;
mod chunk_seq_reader;
mod closing;
mod commit;
mod config;
#[cfg(feature = "producer")]
mod continuity;
mod crc;
mod data_loss;
mod error;
mod frag_iterator;
mod grow;
mod inspect;
mod lease;
mod overwrite;
mod packet;
mod patch;
mod read_only;
mod reader;
mod reassembly;
mod recommit;
mod region;
mod repair;
mod ring;
mod sequence_state;
mod sequence_table;
mod source;
mod stats;
mod tb_chunk;
#[cfg(test)]
mod tests;
mod trace_buffer;
pub(crate) mod words;

pub use crate::proto::trace_stats::ChunkHistogram;
pub use crate::proto::varint::ABORTED_SIZE;
pub use attach::Salvage;
#[doc(hidden)]
pub use check::RingSummary;
pub use chunk::{Chunk, ChunkFlags, ChunkHeader, Commit, Refusal};
pub use chunk_list::WALK_LIMIT;
pub use config::{Config, FillPolicy};
pub use data_loss::DataLoss;
pub use error::{AttachError, RegionError};
pub use inspect::{RingChunk, RingContent, RingItem, RingItems, RingView};
pub use lease::{Lease, LeaseExpired};
pub use overwrite::{OverwriteObserver, PacketRun, Unobserved};
pub use packet::{Packet, Slices};
pub use patch::Patch;
pub use read_only::ReadOnlyTraceBuffer;
pub use reader::Reader;
pub use stats::{BufferStats, SequenceInfo};
pub use tb_chunk::MAX_PAYLOAD;
pub use trace_buffer::TraceBuffer;

crate::debug::opaque_debug! {
    "ReadOnlyTraceBuffer": [M] ReadOnlyTraceBuffer<M>,
    "Reader": [] Reader<'_>,
    "RingItems": [] RingItems<'_>,
    "RingView": [] RingView<'_>,
    "PacketRun": [] PacketRun<'_>,
    "TraceBuffer": [M, O] TraceBuffer<M, O>,
}
