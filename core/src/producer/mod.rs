//! Writing: shared memory, trace writers, commits, and the service's side of shared memory.
//!
//! This part knows nothing of the central buffer. See [`Producer`] to begin with.
//!
//! # Where things are
//!
//! | Perfetto | here | file |
//! |---|---|---|
//! | `SharedMemoryABI` | [`SharedMemory`], [`Page`], [`SmbChunkHeader`] | `smb`, `page`, `chunk_header` |
//! | `SharedMemoryArbiterImpl` | [`Producer`], in its [`ProducerStorage`] | `arbiter`, `flush`, `storage` |
//! | `TraceWriterImpl` | [`TraceWriter`] | `trace_writer` |
//! | `TracePacketHandle`, `protozero::Message` | [`PacketHandle`], [`MessageHandle`] | `packet` |
//! | `ScatteredStreamWriter` | a place in a chunk | `cursor` |
//! | `PatchList` | what is to be patched, [`ChunkPatch`] | `patch_list` |
//! | `CommitDataRequest` | [`CommitRequest`], [`Request`], and [`CommitSink`], the way they take | `commit`, `request` |
//! | the service taking chunks, `ScrapeSharedMemoryBuffers` | [`Consumer`] | `drain`, `scrape` |
//!
//! Besides these: [`ChunkView`] for looking at chunks (`fragments`), atomics and plain memory seen as such (`sync`,
//! `words`), lists of writers (`sorted`), and the events that the SDK's macros write (`track_event`).

mod arbiter;
mod chunk_header;
mod commit;
mod cursor;
mod drain;
mod flush;
mod fragments;
mod packet;
mod page;
mod patch_list;
mod request;
mod scrape;
mod smb;
pub(crate) mod sorted;
mod storage;
mod sync;
mod trace_writer;
pub mod track_event;
#[cfg(not(loom))]
mod words;

pub use arbiter::Producer;
pub use chunk_header::{HeaderFlags, SmbChunkHeader};
pub use commit::{ChunkToMove, ChunkToPatch, CommitRequest, CommitSink};
pub(crate) use drain::Payload;
pub use drain::{Consumer, ReadChunk};
pub use fragments::{ChunkView, Fragment, FragmentKind, Fragments};
pub use packet::{MessageHandle, PacketHandle};
pub use page::{Bitmap, ChunkState, Layout, Page};
pub use patch_list::{ChunkPatch, PATCHES};
pub use request::Request;
pub use scrape::ScrapedChunk;
pub use smb::{MemoryError, SharedMemory};
pub use storage::ProducerStorage;
pub use sync::AtomicU32;
pub use trace_writer::{Exhaustion, TraceWriter, WriterStats};
#[cfg(not(loom))]
pub use words::{atomic_words, atomic_words_at, atomic_words_in};

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
