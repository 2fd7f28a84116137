//! Read-only buffers: clones, and regions that were found.

use super::config::FillPolicy;
use super::error::RegionError;
use super::reader::Reader;
use super::region::RegionLayout;
use super::stats::{BufferStats, SequenceInfo};

/// A buffer that has no way to commit: a snapshot of a [`TraceBuffer`](super::TraceBuffer) in its own memory, or a
/// region that was found and [attached](Self::attach) to, such as a dump.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
///
/// let mut clone = buffer.clone_read_only(vec![0u8; buffer.clone_size()])?;
/// assert!(clone.read().next_packet().is_some());
/// assert!(buffer.read().next_packet().is_some());
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
pub struct ReadOnlyTraceBuffer<M> {
    pub(super) memory: M,
    pub(super) layout: RegionLayout,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    pub(super) fn copy_of(
        layout: &RegionLayout,
        original: &[u8],
        mut memory: M,
    ) -> Result<Self, RegionError> {
        let damaged = RegionError::Damaged;
        let used = layout.header(original).ok_or(damaged)?.used.get();
        let source = layout.used_part(original, used).ok_or(damaged)?;
        let layout = layout.of_copy(memory.as_ref(), used)?;
        let target = layout.used_part_mut(memory.as_mut(), used).ok_or(damaged)?;
        // Both have the length that `used` says.
        if target.len() == source.len() {
            target.copy_from_slice(source);
        }
        if let Some(state) = layout.state(memory.as_mut()) {
            state.header.counters.start_reading_afresh();
        }
        Ok(Self { memory, layout })
    }

    /// Bytes of memory that a clone needs, as [of a buffer](super::TraceBuffer::clone_size) that is written to.
    pub fn clone_size(&self) -> usize {
        self.layout.clone_size(self.memory.as_ref())
    }

    /// Copies what is left in the buffer, as
    /// [`TraceBuffer::clone_read_only`](super::TraceBuffer::clone_read_only) does.
    ///
    /// # Errors
    /// The same.
    pub fn clone_read_only<N: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        memory: N,
    ) -> Result<ReadOnlyTraceBuffer<N>, RegionError> {
        ReadOnlyTraceBuffer::copy_of(&self.layout, self.memory.as_ref(), memory)
    }

    /// Begins a read session at the oldest byte.
    #[doc(alias = "BeginRead")]
    pub fn read(&mut self) -> Reader<'_> {
        Reader::begin(self.layout.state(self.memory.as_mut()))
    }

    /// Begins a read session of one sequence alone, as
    /// [`TraceBuffer::read_sequence`](super::TraceBuffer::read_sequence) does.
    pub fn read_sequence(&mut self, producer_id: u16, writer_id: u16) -> Reader<'_> {
        Reader::begin_sequence(self.layout.state(self.memory.as_mut()), producer_id, writer_id)
    }

    /// All counters. A clone's counters of reading start at 0; an attached region's are corrected as [`BufferStats`]
    /// says.
    pub fn stats(&self) -> BufferStats {
        self.layout.stats(self.memory.as_ref())
    }

    /// What the buffer, or the clone's original, does when it is full.
    pub fn policy(&self) -> FillPolicy {
        self.layout.policy(self.memory.as_ref())
    }

    /// The sequences in the table, with what was lost on each.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceInfo> {
        SequenceInfo::all(&self.layout, self.memory.as_ref())
    }

    /// Gives up packets that wait for a patch, so that what was written before them can be read. A packet that ends in
    /// the chunk where a waiting one begins would otherwise wait with it.
    ///
    /// What is given up is not counted as lost, because in the original it may yet become whole; a packet after it, if
    /// there is one, reports it. Cost: a look at each chunk.
    pub fn stop_waiting(&mut self) {
        if let Some(mut state) = self.layout.state(self.memory.as_mut()) {
            state.stop_waiting();
        }
    }

    /// Gives the memory back, contents and all.
    pub fn into_memory(self) -> M {
        self.memory
    }
}
