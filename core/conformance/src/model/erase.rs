//! The erasure of chunks: consumed by a reader, or overwritten.

use super::read::Consumer;
use super::ring::Space;
use super::{Handle, LastErased, Model, OVERWRITE, Observer};

impl Model {
    /// Takes a chunk out of its sequence and of the ring.
    pub(super) fn retire(&mut self, s: usize, handle: Handle, erased: bool) {
        let chunk = self.chunks.remove(&handle).expect("stored");
        let sequence = &mut self.sequences[s];
        sequence.chunks.retain(|h| *h != handle);
        if sequence.chunks.is_empty() {
            self.emptyings += 1;
            sequence.emptied = self.emptyings;
        }
        self.ring.free(chunk.at);
        if erased && chunk.unread {
            self.stats.chunks_overwritten += 1;
            self.stats.bytes_overwritten += chunk.outer;
        } else {
            self.stats.bytes_read += chunk.outer;
        }
        // Should it come again, how it ends is found anew.
        sequence.tentative |= chunk.tokens.marks();
        // There may have been more of it, unless a commit tells otherwise.
        if erased && !chunk.complete {
            sequence.tentative |= OVERWRITE;
        }
        sequence.malformed += u64::from(chunk.tokens.malformed);
        sequence.last = Some(LastErased {
            id: chunk.id,
            first: sequence.last.is_none(),
            open: !chunk.complete,
            tokens: chunk.tokens,
            read: chunk.seen.unwrap_or(chunk.read),
            evicted: chunk.evicted,
            broken: chunk.broken,
            malformed: u64::from(chunk.tokens.malformed),
        });
    }

    /// Erases whatever begins in the range. Returns where the last of it ended, perhaps beyond the range, and whether
    /// that becomes padding because it was not free before.
    pub(super) fn erase_range(&mut self, from: u64, to: u64, observer: Observer<'_>) -> (u64, bool) {
        let (mut at, mut padded) = (from, false);
        while at < to {
            let Some((start, len, space)) = self.ring.item_in(at, to) else { break };
            match space {
                Space::Chunk(handle) => self.erase_chunk(handle, observer),
                Space::Padding => self.stats.padding_bytes_cleared += len,
                Space::Free => {}
            }
            self.ring.set(start, len, Space::Free);
            padded = space != Space::Free;
            at = start + len;
        }
        (at.max(to), padded)
    }

    pub(super) fn pad(&mut self, from: u64, to: u64) {
        if from < to {
            self.ring.set(from, to - from, Space::Padding);
            self.stats.padding_bytes_written += to - from;
        }
    }

    /// Reads a chunk's sequence up to and including it, waiting for nothing.
    fn erase_chunk(&mut self, target: Handle, observer: Observer<'_>) {
        while let Some(chunk) = self.chunks.get(&target) {
            let sequence = self.find_sequence(chunk.key).expect("a stored chunk has a sequence");
            self.step(sequence, &mut Consumer::Eraser(observer));
        }
    }
}
