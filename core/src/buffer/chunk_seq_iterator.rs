//! `ChunkSeqIterator`: the chunks of a sequence in the order of their ids.

use super::ring::Ring;
use super::tb_chunk::TBChunk;

/// Follows the links of a sequence's list from a chunk to its newest.
pub(super) struct ChunkSeqIterator {
    at: u32,
    last: u32,
    chunk_id: u32,
}

/// A chunk on the way.
pub(super) struct Visited {
    pub(super) offset: u32,
    pub(super) chunk: TBChunk,
    /// Ids are missing between the chunk before and this one.
    pub(super) gap: bool,
}

impl ChunkSeqIterator {
    /// Starts at the chunk at `at`, which is not visited itself; `last` is the newest of the list.
    pub(super) fn new(at: u32, chunk: &TBChunk, last: u32) -> Self {
        Self { at, last, chunk_id: chunk.chunk_id.get() }
    }

    pub(super) fn next_chunk(&mut self, ring: &Ring<'_>) -> Option<Visited> {
        if self.at == self.last {
            return None;
        }
        let offset = ring.links(self.at)?.next.get();
        let chunk = ring.chunk(offset)?;
        let gap = chunk.chunk_id.get() != self.chunk_id.wrapping_add(1);
        (self.at, self.chunk_id) = (offset, chunk.chunk_id.get());
        Some(Visited { offset, chunk, gap })
    }
}
