//! `ChunkSeqIterator`: the chunks of a sequence in the order of their ids.

use super::ring::Ring;
use super::tb_chunk::{Stored, TBChunk};

/// Follows the links of a sequence's list from a chunk to its newest.
pub(super) struct ChunkSeqIterator {
    at: u32,
    next: u32,
    last: u32,
    chunk_id: u32,
}

impl ChunkSeqIterator {
    /// Starts at a chunk, which is not visited itself; `last` is the newest of the list.
    pub(super) fn new(chunk: &Stored, last: u32) -> Self {
        Self { at: chunk.offset, next: chunk.links.next.get(), last, chunk_id: chunk.chunk_id.get() }
    }

    /// Where the next chunk is, its header, and whether ids are missing between the one before and this one.
    pub(super) fn next_chunk<'r>(&mut self, ring: &'r Ring<'_>) -> Option<(u32, &'r TBChunk, bool)> {
        if self.at == self.last {
            return None;
        }
        self.at = self.next;
        let front = ring.front(self.at)?;
        let before = self.chunk_id;
        (self.next, self.chunk_id) = (front.links.next.get(), front.header.chunk_id.get());
        Some((self.at, &front.header, self.chunk_id != before.wrapping_add(1)))
    }
}
