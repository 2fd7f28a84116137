//! `ChunkSeqIterator`: the chunks of a sequence in the order of their ids.

use super::ring::Ring;
use super::tb_chunk::Stored;

/// Follows the links of a sequence's list from a chunk to its newest.
pub(super) struct ChunkSeqIterator {
    at: u32,
    last: u32,
    chunk_id: u32,
}

impl ChunkSeqIterator {
    /// Starts at a chunk, which is not visited itself; `last` is the newest of the list.
    pub(super) fn new(chunk: &Stored, last: u32) -> Self {
        Self { at: chunk.offset, last, chunk_id: chunk.chunk_id.get() }
    }

    /// The next chunk, and whether ids are missing between the one before and this one.
    pub(super) fn next_chunk(&mut self, ring: &Ring<'_>) -> Option<(Stored, bool)> {
        if self.at == self.last {
            return None;
        }
        let chunk = ring.chunk(ring.front(self.at)?.links.next.get())?;
        let gap = chunk.chunk_id.get() != self.chunk_id.wrapping_add(1);
        (self.at, self.chunk_id) = (chunk.offset, chunk.chunk_id.get());
        Some((chunk, gap))
    }
}
