//! Clones: the same content, to be read only.

use super::config::RegionError;
use super::reader::Reader;
use super::region::Layout;
use super::sequence_info::SequenceInfo;
use super::stats::BufferStats;

/// A snapshot of a [`TraceBuffer`](super::TraceBuffer) in memory of its own. It has no way to commit.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let header = ChunkHeader { producer_id: 1, fragments: 1, complete: true, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
///
/// let mut clone = buffer.clone_read_only(vec![0u8; buffer.clone_size()])?;
/// assert!(clone.read().next_packet().is_some());
/// assert!(buffer.read().next_packet().is_some());
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
pub struct ReadOnlyTraceBuffer<M> {
    memory: M,
    layout: Layout,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    pub(super) fn from_parts(memory: M, layout: Layout) -> Self {
        Self { memory, layout }
    }

    pub(super) fn copy_of(layout: &Layout, original: &[u8], mut memory: M) -> Result<Self, RegionError> {
        let damaged = RegionError::TooSmall { needed: 0 };
        let used = layout.header(original).ok_or(damaged)?.used.get();
        let layout_of_copy = layout.of_copy(memory.as_ref(), used)?;
        let target = layout_of_copy.used_part_mut(memory.as_mut(), used).ok_or(damaged)?;
        let source = layout.used_part(original, used).ok_or(damaged)?;
        // Both have the length that `used` says.
        if target.len() == source.len() {
            target.copy_from_slice(source);
        }
        if let Some(state) = layout_of_copy.state(memory.as_mut()) {
            state.header.counters.start_reading_afresh();
        }
        Ok(Self { memory, layout: layout_of_copy })
    }

    /// Begins a read session at the oldest byte.
    #[doc(alias = "BeginRead")]
    pub fn read(&mut self) -> Reader<'_> {
        Reader::begin(self.layout.state(self.memory.as_mut()))
    }

    /// All counters: the original's when it was cloned, but for those of reading, which start at 0.
    pub fn stats(&self) -> BufferStats {
        BufferStats::of(&self.layout, self.memory.as_ref())
    }

    /// The sequences in the table, with what was lost on each.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceInfo> {
        SequenceInfo::all(&self.layout, self.memory.as_ref())
    }

    /// Gives the memory back, contents and all.
    pub fn into_memory(self) -> M {
        self.memory
    }
}
