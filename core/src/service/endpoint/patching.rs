//! Patches that a producer sends for chunks which the buffers have.

use super::ProducerEndpoint;
use crate::buffer;
use crate::producer::{ChunkPatch, ChunkToPatch, TraceWriter};
use crate::service::buffers::{AllowedBuffers, Buffers};
use heapless::Vec;

// A patch that a writer sends finds its chunk, and chunks that are sent before it have room.
const _: () = assert!(TraceWriter::MAX_PATCHED <= buffer::WALK_LIMIT / 4 * 3);

/// Patches handed to a buffer at once.
const PATCHES: usize = 8;

impl<const WRITERS: usize, A: AllowedBuffers> ProducerEndpoint<'_, WRITERS, A> {
    pub(super) fn patch<B: Buffers + ?Sized>(&mut self, patched: &ChunkToPatch<'_>, buffers: &mut B) {
        // Also one that has ended since: its patches are for ids that have the same added as its chunks'.
        let mut writer = self.known.writers.known_mut(patched.writer_id);
        let is_its = writer.as_deref().is_none_or(|writer| writer.may_write_to(patched.target));
        let allowed = self.known.allowed.has(patched.target) && is_its;
        let Some(buffer) = buffers.buffer(patched.target).filter(|_| allowed) else {
            self.known.stats.patches_discarded =
                self.known.stats.patches_discarded.saturating_add(patched.patches.len().max(1) as u64);
            return;
        };
        if let Some(writer) = writer.as_deref_mut().filter(|_| !patched.has_more) {
            writer.patched();
        }
        let (producer_id, writer_id) = (self.known.identity.producer_id, patched.writer_id);
        let chunk_id = writer.as_deref().map_or(patched.chunk_id, |writer| writer.shifted(patched.chunk_id));
        // If there are more than go at once, the farthest goes first: a chunk that holds it holds them all, so that all
        // are written or none.
        let farthest = patched.patches.iter().rev().max_by_key(|patch| patch.offset);
        let farthest = farthest.filter(|_| patched.patches.len() > PATCHES);
        let is_other = |patch: &&ChunkPatch| farthest.is_none_or(|farthest| !core::ptr::eq(*patch, farthest));
        let mut batch: Vec<buffer::Patch, PATCHES> = Vec::new();
        for patch in farthest.into_iter().chain(patched.patches.iter().filter(is_other)) {
            if batch.is_full() {
                if !buffer.try_patch_chunk_contents(producer_id, writer_id, chunk_id, &batch, true) {
                    return;
                }
                batch.clear();
            }
            let _ = batch.push(buffer::Patch { offset: patch.offset.into(), data: patch.data });
        }
        buffer.try_patch_chunk_contents(producer_id, writer_id, chunk_id, &batch, patched.has_more);
    }
}
