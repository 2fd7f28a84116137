//! Continuity of a writer's sequence, for the endpoint of its producer.
//!
//! The only part of the buffer that depends on there being producers in the program.

use super::chunk::ChunkHeader;
use super::overwrite::OverwriteObserver;
use super::sequence_state::{SequenceState, Status};
use super::sequence_table::lookup;
use super::trace_buffer::TraceBuffer;

impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver> TraceBuffer<M, O> {
    fn sequence_of(&self, header: &ChunkHeader) -> Option<&SequenceState> {
        let (table, _) = self.layout.table(self.memory())?;
        table.get(usize::from(lookup(table, header.producer_id, header.writer_id)?))
    }

    /// Returns true if the buffer knows a chunk's sequence.
    pub(crate) fn knows(&self, header: &ChunkHeader) -> bool {
        self.sequence_of(header).is_some()
    }

    /// Notes that something was lost before the first chunk of a sequence, which is this one, unless a chunk has been
    /// erased: then it was not the first. Unless it is the very first ever, it reports the loss.
    pub(crate) fn begin_late(&mut self, header: &ChunkHeader) {
        let Some(mut state) = self.state() else { return };
        let slot = lookup(state.table, header.producer_id, header.writer_id);
        if let Some(entry) = slot.and_then(|slot| state.sequence_mut(slot))
            && !entry.has(Status::HAS_ERASED)
        {
            entry.insert(Status::FORGOTTEN);
        }
    }

    /// Returns true if a chunk was evicted unread and would be accepted again. A commit that is as unfinished as before
    /// would bring its packets again, but not what may come after them.
    pub(crate) fn has_lost(&self, header: &ChunkHeader) -> bool {
        self.sequence_of(header).is_some_and(|entry| {
            entry.has(Status::TENTATIVE_OVERWRITE)
                && entry.has(Status::HAS_ERASED)
                && entry.erased_id() == header.chunk_id
                && (header.complete || entry.erased_packets.get() != 0)
        })
    }

    /// The id of the newest chunk of a chunk's sequence, there or erased, which a writer goes on with. That writer may
    /// be of another process than the one before: a sequence without chunks takes over the user and process in
    /// `header`.
    pub(crate) fn go_on_from(&mut self, header: &ChunkHeader) -> Option<u32> {
        let mut state = self.state()?;
        let slot = lookup(state.table, header.producer_id, header.writer_id)?;
        let entry = state.sequence_mut(slot)?;
        if !entry.is_empty() {
            let last = entry.last();
            return state.ring.chunk_id(last);
        }
        entry.uid.set(header.uid);
        entry.pid.set(header.pid as u32);
        entry.has(Status::HAS_ERASED).then(|| entry.erased_id())
    }
}
