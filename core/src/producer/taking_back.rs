//! Taking back: chunks of writers that write nothing, for those that need one.
//!
//! A writer keeps its chunk until it is full. With many threads that record now and then, that would be all of shared
//! memory. So when much of it is held, whoever sends takes back the chunks that were not written to since it last
//! looked; and when there is no free chunk, all in which nobody is writing just then. They are sent as they are: whole
//! packets. Their writers go on in new chunks.
//!
//! Only the sender takes chunks, and so they come to the service in order: after what their writers have completed
//! before, and before all that they complete later, which the same sender, or the next, finds on the list.

use super::arbiter::{BATCH, Producer};
use super::commit::ChunkToMove;
use super::cursor::{Cursor, load};
use super::fragments::Fragments;
use super::need::Take;
use super::page::{ChunkState, change_state};
use super::storage::WriterSlot;
use heapless::Vec;

impl Producer<'_> {
    /// Notes that a writer has taken a chunk. True: it is time to send, because writers hold many.
    pub(crate) fn is_crowded_by_one_more(&self) -> bool {
        self.need.one_more();
        self.need.is_crowded(self.chunks, self.completed()) && self.sink.thread_fence().is_some()
    }

    /// Whether, with no free chunk, it is worth looking for some to take back.
    pub(crate) fn may_take_back(&self, has_waited: bool) -> bool {
        self.sink.thread_fence().is_some() && self.need.starve(has_waited)
    }

    /// Takes back what chunks are needed, if any, and sends them; for the sender only.
    pub(super) fn take_back(&self) {
        let Some(fence) = self.sink.thread_fence() else { return };
        let Some(take) = self.need.look(self.chunks, self.completed()) else { return };
        let mut is_any_asked = false;
        for slot in self.ids.used(self.writers) {
            let Some(chunk) = slot.presence.idle_chunk() else { continue };
            // The chunk's number and how many packets are in it.
            let words = self.words(chunk);
            let now = load(words, 1).wrapping_add(load(words, 0) << 26);
            if slot.presence.is_where_it_was(now) || take == Take::All {
                is_any_asked |= slot.presence.ask();
            }
        }
        if !is_any_asked {
            return;
        }
        let is_fenced = fence();
        for slot in self.ids.used(self.writers).iter().filter(|slot| slot.presence.is_asked()) {
            if !is_fenced || slot.presence.idle_chunk().is_none() {
                slot.presence.take_back_question();
            }
        }
        if is_fenced {
            // What these writers have completed before.
            self.send_chunks();
            self.send_taken();
        }
    }

    /// Takes the chunks that were asked for and whose writers have not come back, and sends them.
    fn send_taken(&self) {
        let mut moves: Vec<ChunkToMove, BATCH> = Vec::new();
        for slot in self.ids.used(self.writers).iter().filter(|slot| slot.presence.is_asked()) {
            if let Some(taken) = self.take_from(slot)
                && (moves.push(taken).is_err() || moves.is_full())
            {
                self.request(&moves, &[], 0);
                moves.clear();
            }
        }
        if !moves.is_empty() {
            self.request(&moves, &[], 0);
        }
    }

    fn take_from(&self, slot: &WriterSlot) -> Option<ChunkToMove> {
        let target = slot.target();
        // If the writer has been there since, it has answered the question. If it comes just now, it may not have: then
        // nothing may be taken, as it would leave its chunk to nobody.
        let Some(chunk) = slot.presence.idle_chunk().filter(|_| slot.presence.take()) else {
            slot.presence.take_back_question();
            return None;
        };
        let words = self.words(chunk);
        // The next packet is counted already: it ends here as an empty fragment.
        Cursor::at(words, Fragments::finished_in(words)).put(0, 1);
        let bitmap = self.memory().bitmap(chunk >> 4)?;
        if !change_state(bitmap, chunk & 15, ChunkState::BeingWritten, ChunkState::Complete) {
            // The other side took it away: not ours any more.
            return None;
        }
        self.count_sent();
        self.need.found();
        Some(ChunkToMove { page: chunk >> 4, chunk: chunk & 15, target })
    }
}
