//! The producer side: shared memory, trace writers, commits, and the service's view of shared memory. See [`Producer`]
//! to begin with.
//!
//! # Where things are
//!
//! | Perfetto | here | file |
//! |---|---|---|
//! | `SharedMemoryABI` | [`SharedMemory`], [`Page`], [`Layout`], [`SmbChunkHeader`] | `smb`, `page`, `layout`, `chunk_header` |
//! | `SharedMemoryArbiterImpl` | [`Producer`], in its [`ProducerStorage`] | `arbiter`, `flush`, `storage` |
//! | `TraceWriterImpl` | [`TraceWriter`] | `trace_writer` |
//! | `TracePacketHandle`, `protozero::Message` | [`PacketHandle`], [`MessageHandle`] | `packet` |
//! | `ScatteredStreamWriter` | a place in a chunk | `cursor` |
//! | `PatchList` | what is to be patched, [`ChunkPatch`] | `patch_list` |
//! | `CommitDataRequest` | [`CommitRequest`], [`Request`], and [`CommitSink`], the way they take | `commit`, `request` |
//! | the service taking chunks, `ScrapeSharedMemoryBuffers` | [`Consumer`] | `drain`, `scrape` |

mod arbiter;
mod atomics;
mod chunk_header;
mod commit;
mod cursor;
mod drain;
mod flush;
mod fragments;
mod layout;
mod packet;
mod page;
mod patch_list;
mod request;
mod scrape;
mod smb;
mod storage;
#[cfg(all(test, not(loom)))]
mod tests;
mod trace_writer;
pub mod track_event;

pub use arbiter::Producer;
pub use atomics::AtomicU32;
#[cfg(not(loom))]
pub use atomics::{atomic_words, atomic_words_at, atomic_words_in};
pub use chunk_header::{HeaderFlags, SmbChunkHeader};
pub use commit::{ChunkToMove, ChunkToPatch, CommitRequest, CommitSink};
pub(crate) use drain::Payload;
pub use drain::{Consumer, ReadChunk};
pub use fragments::{ChunkView, Fragment, FragmentKind, Fragments};
pub use layout::Layout;
pub use packet::{MessageHandle, PacketHandle};
pub use page::{Bitmap, ChunkState, Page};
pub use patch_list::{ChunkPatch, PATCHES};
pub use request::Request;
pub use scrape::ScrapedChunk;
pub(crate) use scrape::insert_at;
pub use smb::{MemoryError, SharedMemory};
pub use storage::ProducerStorage;
pub use trace_writer::{Exhaustion, TraceWriter, TraceWriterStats};

crate::debug::opaque_debug! {
    "ChunkView": [] ChunkView<'_>,
    "Consumer": [] Consumer<'_>,
    "Fragments": [] Fragments<'_>,
    "MessageHandle": [] MessageHandle<'_, '_>,
    "PacketHandle": [] PacketHandle<'_, '_>,
    "Page": [] Page<'_>,
    "Producer": [] Producer<'_>,
    "ProducerStorage": [const CHUNKS: usize, const WRITERS: usize] ProducerStorage<CHUNKS, WRITERS>,
    "ReadChunk": [] ReadChunk<'_>,
    "ScrapedChunk": [] ScrapedChunk<'_>,
    "SharedMemory": [] SharedMemory<'_>,
    "TraceWriter": [] TraceWriter<'_>,
}
