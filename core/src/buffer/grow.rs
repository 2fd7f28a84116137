//! A buffer that was found, in more memory.

use super::error::RegionError;
use super::read_only::ReadOnlyTraceBuffer;
use super::trace_buffer::TraceBuffer;

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    /// Bytes of memory for a [copy](Self::grow) with so many bytes more for chunks and their headers.
    pub fn grown_size(&self, more: usize) -> usize {
        self.layout.grown_size(more)
    }

    /// Copies it into memory in which its ring has more room, and that takes chunks again: for those that a program
    /// which has ended left elsewhere, before which nothing of what is here is overwritten. What was read stays so, and
    /// the counters are the same.
    ///
    /// The ring takes what [`grown_size`](Self::grown_size) bytes and more have room for, all of it in front of what it
    /// overwrites next. A buffer that was full and [discards](super::FillPolicy::Discard) takes nothing more.
    ///
    /// Cost: a copy of the region, and a look at each chunk.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] if the memory has no room for what is in the ring, [`RegionError::Damaged`] if somebody
    /// else wrote into this buffer's own memory.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, ReadOnlyTraceBuffer, TraceBuffer};
    ///
    /// let mut buffer = TraceBuffer::new(vec![0u8; 512], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// let mut header = ChunkHeader { producer_id: 1, fragments: 1, complete: true, ..Default::default() };
    /// let payload = b"\x05hello";
    /// (0..2).for_each(|chunk_id| {
    ///     buffer.copy_chunk_untrusted(&Chunk { header: ChunkHeader { chunk_id, ..header }, payload });
    /// });
    /// // A crash. The third of its chunks would take the place of the oldest.
    /// let (found, _) = ReadOnlyTraceBuffer::attach_ended(buffer.into_memory())?;
    /// header.chunk_id = 2;
    /// let mut buffer = found.grow(vec![0u8; found.grown_size(24 + 8)])?;
    /// buffer.copy_chunk_untrusted(&Chunk { header, payload });
    /// let (mut reader, mut packets) = (buffer.read(), 0);
    /// while reader.next_packet().is_some() {
    ///     packets += 1;
    /// }
    /// assert_eq!(packets, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn grow<N: AsRef<[u8]> + AsMut<[u8]>>(&self, mut memory: N) -> Result<TraceBuffer<N>, RegionError> {
        let layout = self.layout.grow(self.memory.as_ref(), memory.as_mut())?;
        Ok(TraceBuffer::from_parts(memory, layout))
    }
}
