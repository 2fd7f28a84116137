//! `TraceBuffer`: the buffer as its owner sees it.

use super::chunk::{Chunk, ChunkHeader, Commit, Refusal};
use super::config::{Config, FillPolicy};
use super::error::RegionError;
use super::overwrite::{OverwriteObserver, Unobserved};
use super::patch::Patch;
use super::read_only::ReadOnlyTraceBuffer;
use super::reader::Reader;
use super::region::{Layout, State};
use super::sequence_info::SequenceInfo;
use super::sequence_table::lookup;
use super::source::{Bytes, Shared, Source};
use super::stats::BufferStats;

/// A trace buffer over a region of memory.
///
/// `M` is anything that gives a slice of bytes, always the same one: `&'static mut [u8]`, `Box<[u8]>`, mapped pages.
/// All state lies in it; the buffer itself is a handful of sizes. If the memory later gives other bytes, operations are
/// refused; nothing panics.
///
/// In firmware, over a static array:
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
///
/// # fn memory() -> &'static mut [u8] { Box::leak(vec![0u8; 2048].into_boxed_slice()) }
/// // static MEMORY: StaticCell<[u8; 2048]> = StaticCell::new();
/// let memory: &'static mut [u8] = memory();
/// let mut buffer = TraceBuffer::new(memory, Config::new(FillPolicy::RingBuffer).sequences(4))?;
///
/// let header = ChunkHeader { producer_id: 1, writer_id: 1, fragments: 2, ..Default::default() };
/// assert_eq!(buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02hi\x05there" }), Commit::Written);
///
/// let mut reader = buffer.read();
/// let mut bytes = [0u8; 16];
/// while let Some(packet) = reader.next_packet() {
///     packet.copy_to(&mut bytes);
/// }
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
///
/// In a program, over a megabyte of heap:
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
///
/// let config = Config::new(FillPolicy::Discard).sequences(1000).histograms(true);
/// let memory = vec![0u8; config.region_size(1 << 20) as usize].into_boxed_slice();
/// let buffer = TraceBuffer::new(memory, config)?;
/// assert_eq!(buffer.stats().buffer_size, 1 << 20);
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
pub struct TraceBuffer<M> {
    memory: M,
    layout: Layout,
}

static_assertions::const_assert!(size_of::<TraceBuffer<&mut [u8]>>() <= 64);

impl<M: AsRef<[u8]> + AsMut<[u8]>> TraceBuffer<M> {
    /// Lays out a region, whatever was in it before, and starts an empty buffer.
    ///
    /// The region is used from its first 8-byte boundary on; its ring is what the header and the table leave, up to 4
    /// GiB less 4 bytes. Only the header and the table are touched: pages of the ring are first touched when chunks
    /// come.
    ///
    /// # Errors
    /// [`RegionError`] if there is no room for the header, the table and 64 bytes, or if the table is to hold fewer
    /// than 4 sequences.
    pub fn new(mut memory: M, config: Config) -> Result<Self, RegionError> {
        let layout = Layout::format(memory.as_mut(), &config)?;
        Ok(Self { memory, layout })
    }

    pub(super) fn from_parts(memory: M, layout: Layout) -> Self {
        Self { memory, layout }
    }

    /// Stores a chunk: the reference's `CopyChunkUntrusted`.
    ///
    /// Nothing about a chunk is trusted; what becomes of it is returned and counted, and nothing panics.
    /// [`Commit::Written`] says nothing about the packets in it: what is malformed there is counted in
    /// [`abi_violations`](super::BufferStats::abi_violations), and once read or overwritten in
    /// [`chunks_malformed`](super::SequenceInfo::chunks_malformed).
    ///
    /// Cost: one copy of the payload, a look at each fragment's size, and O(1) for each chunk overwritten, or a look at
    /// its fragments' sizes if some of it was read or it was patched. A chunk out of order walks back by at most
    /// [`WALK_LIMIT`](super::WALK_LIMIT) chunks. With [checksums](Config::crc) it is one more pass over the payload, or
    /// two over that of a chunk that is there already. On microcontrollers (`target_os = "none"`) add a look through
    /// the table, and at the fragments' sizes of every chunk overwritten.
    #[doc(alias = "CopyChunkUntrusted")]
    #[inline]
    pub fn copy_chunk_untrusted(&mut self, chunk: &Chunk<'_>) -> Commit {
        self.commit(&chunk.header, Bytes(chunk.payload), &mut Unobserved)
    }

    /// Like [`copy_chunk_untrusted`](Self::copy_chunk_untrusted), and shows `observer` every whole packet that has to
    /// be overwritten for the chunk.
    pub fn copy_chunk_untrusted_observed<O: OverwriteObserver>(
        &mut self,
        chunk: &Chunk<'_>,
        observer: &mut O,
    ) -> Commit {
        self.commit(&chunk.header, Bytes(chunk.payload), observer)
    }

    /// Stores a chunk of `size` bytes that somebody else may still be changing.
    ///
    /// `fill(offset, target)` must copy the chunk's bytes from `offset` on into all of `target`: bytes it leaves alone
    /// keep what lay there before, perhaps another producer's data. `target` lies in the ring, and what is stored is
    /// judged by that copy alone. For a chunk that comes again, `target` may also be up to 10 bytes outside the ring:
    /// its size fields are read one by one, and may decide that it is refused, discarded or moved. So `fill` may be
    /// asked for a part, or for the same bytes again; it need not give the same ones then.
    ///
    /// Cost: as for [`copy_chunk_untrusted`](Self::copy_chunk_untrusted), but the whole chunk is copied, including what
    /// follows its last declared fragment.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU8, Ordering};
    /// use tracebuf::buffer::{ChunkHeader, Commit};
    /// # use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
    /// # let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// # let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
    ///
    /// let shared = [5, b'h', b'e', b'l', b'l', b'o'].map(AtomicU8::new); // a producer may change it meanwhile
    /// let commit = buffer.commit_with(&header, shared.len(), |offset, target| {
    ///     for (to, from) in target.iter_mut().zip(&shared[offset..]) {
    ///         *to = from.load(Ordering::Relaxed);
    ///     }
    /// });
    /// assert_eq!(commit, Commit::Written);
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    pub fn commit_with<F: FnMut(usize, &mut [u8])>(
        &mut self,
        header: &ChunkHeader,
        size: usize,
        fill: F,
    ) -> Commit {
        self.commit(header, Shared { size, fill }, &mut Unobserved)
    }

    /// Like [`commit_with`](Self::commit_with), and shows `observer` every whole packet that has to be overwritten for
    /// the chunk.
    pub fn commit_with_observed<F, O>(
        &mut self,
        header: &ChunkHeader,
        size: usize,
        fill: F,
        observer: &mut O,
    ) -> Commit
    where
        F: FnMut(usize, &mut [u8]),
        O: OverwriteObserver,
    {
        self.commit(header, Shared { size, fill }, observer)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory that the buffer works on.
    pub fn memory(&self) -> &[u8] {
        self.memory.as_ref()
    }

    pub(super) fn state(&mut self) -> Option<State<'_>> {
        self.layout.state(self.memory.as_mut())
    }

    #[inline]
    fn commit<S: Source, O: OverwriteObserver>(
        &mut self,
        header: &ChunkHeader,
        source: S,
        observer: &mut O,
    ) -> Commit {
        match self.layout.state(self.memory.as_mut()) {
            Some(mut state) => state.commit(header, source, observer),
            None => Commit::Refused(Refusal::RegionDamaged),
        }
    }

    /// Applies patches to a stored chunk: the reference's `TryPatchChunkContents`. If `more_pending` is false, the
    /// chunk no longer waits for patches; the list may be empty.
    ///
    /// True if all were applied. False, with nothing changed, if the chunk is not there or is too far from the newest
    /// to be looked for, or if a patch leaves its payload. A patch that begins in what has been read already is counted
    /// but changes nothing: an honest producer sends none, and a [`Lease`](super::Lease) gives the packet as it was
    /// read.
    ///
    /// Cost: O(1) for the newest chunk and for one that is gone; else a walk back from the newest chunk of the sequence
    /// by at most [`WALK_LIMIT`](super::WALK_LIMIT) chunks. With [checksums](Config::crc), up to two passes over the
    /// chunk's payload; on microcontrollers, a look through the table.
    ///
    /// ```
    /// use tracebuf::buffer::{ChunkFlags, Patch};
    /// # use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    /// # let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// # let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
    /// # let mut commit = |chunk_id, flags, payload| {
    /// #     buffer.copy_chunk_untrusted(&Chunk { header: ChunkHeader { chunk_id, flags, ..header }, payload });
    /// # };
    ///
    /// // A message of which nobody knew the size when its first chunk was full.
    /// commit(0, ChunkFlags::CONTINUES_ON_NEXT | ChunkFlags::NEEDS_PATCHING, b"\x07\x0A\0\0\0\0he");
    /// commit(1, ChunkFlags::CONTINUES_FROM_PREVIOUS, b"\x03llo");
    /// assert!(buffer.read().next_packet().is_none());
    ///
    /// let size = Patch { offset: 2, data: [0x85, 0x80, 0x80, 0x00] };
    /// assert!(buffer.try_patch_chunk_contents(1, 0, 0, &[size], false));
    /// assert_eq!(buffer.read().next_packet().unwrap().len(), 10);
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    #[doc(alias = "TryPatchChunkContents")]
    pub fn try_patch_chunk_contents(
        &mut self,
        producer_id: u16,
        writer_id: u16,
        chunk_id: u32,
        patches: &[Patch],
        more_pending: bool,
    ) -> bool {
        self.layout.state(self.memory.as_mut()).is_some_and(|mut state| {
            state.try_patch_chunk_contents(producer_id, writer_id, chunk_id, patches, more_pending)
        })
    }

    /// Ends a producer from which nothing more will come, because its process has ended. Packets that wait for patches,
    /// for the rest of a scraped chunk or for the next chunk are given up, and counted as given up by their writers;
    /// packets after them come out. Its places in the table are free for others as soon as its chunks have been read or
    /// overwritten, but not for another producer with its number, whose chunks would be of the same sequences: call
    /// [`forget_producer`](Self::forget_producer) before the number is used again.
    ///
    /// First commit what it left in shared memory, as
    /// [`ProducerEndpoint::disconnect`](crate::service::ProducerEndpoint::disconnect) does.
    ///
    /// Cost: a look at the table, and one at each of the producer's chunks.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, TraceBuffer};
    ///
    /// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// let flags = ChunkFlags::CONTINUES_ON_NEXT;
    /// let header = ChunkHeader { producer_id: 1, fragments: 2, flags, ..Default::default() };
    /// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello\x05to be" });
    /// buffer.end_producer(1);
    /// let mut reader = buffer.read();
    /// assert_eq!(reader.next_packet().unwrap().len(), 5);
    /// assert!(reader.next_packet().is_none());
    /// assert_eq!(buffer.stats().trace_writer_packet_loss, 1);
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    pub fn end_producer(&mut self, producer_id: u16) {
        if let Some(mut state) = self.state() {
            state.end_producer(producer_id);
        }
    }

    /// Whether the buffer knows a chunk's sequence.
    #[cfg_attr(not(target_has_atomic = "32"), allow(dead_code))]
    pub(crate) fn knows(&self, header: &ChunkHeader) -> bool {
        let table = self.layout.table(self.memory.as_ref());
        table.is_some_and(|(table, _)| lookup(table, header.producer_id, header.writer_id).is_some())
    }

    /// Notes that something of a chunk's sequence, which begins with that chunk, never came here: unless it is the very
    /// first, it reports the loss.
    #[cfg_attr(not(target_has_atomic = "32"), allow(dead_code))]
    pub(crate) fn begin_late(&mut self, header: &ChunkHeader) {
        let Some(mut state) = self.state() else { return };
        let slot = lookup(state.table, header.producer_id, header.writer_id);
        if let Some(entry) = slot.and_then(|slot| state.sequence_mut(slot)) {
            entry.begin_late();
        }
    }

    /// Whether a chunk was overwritten before all of it was read, and would be taken again.
    // Unused on targets that have no producer, for want of compare-and-swap.
    #[cfg_attr(not(target_has_atomic = "32"), allow(dead_code))]
    pub(crate) fn has_lost(&self, header: &ChunkHeader) -> bool {
        let Some((table, _)) = self.layout.table(self.memory.as_ref()) else { return false };
        let slot = lookup(table, header.producer_id, header.writer_id);
        slot.and_then(|slot| table.get(usize::from(slot))).is_some_and(|entry| entry.may_come_back(header))
    }

    /// The id of the newest known chunk of a chunk's sequence, which a writer goes on with. That writer may be of another
    /// process than the one before: a sequence without chunks takes over the user and process in `header`.
    #[cfg_attr(not(target_has_atomic = "32"), allow(dead_code))]
    pub(crate) fn go_on_from(&mut self, header: &ChunkHeader) -> Option<u32> {
        let mut state = self.state()?;
        let slot = lookup(state.table, header.producer_id, header.writer_id)?;
        if let Some(entry) = state.sequence_mut(slot).filter(|entry| entry.is_empty()) {
            entry.uid.set(header.uid);
            entry.pid.set(header.pid as u32);
        }
        state.newest_chunk(slot)
    }

    /// Drops what is left of a producer from which nothing more will come, and frees its sequences' places in the
    /// table: for a device that starts again and again, so that there is room for what this start records. To read it
    /// first, use [`end_producer`](Self::end_producer).
    ///
    /// Unread data counts as overwritten, and leases of it end. Cost: a look at the table, and one at each of the
    /// producer's chunks.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    ///
    /// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// for producer_id in 1..=2 {
    ///     let header = ChunkHeader { producer_id, fragments: 1, ..Default::default() };
    ///     buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
    /// }
    /// buffer.forget_producer(1);
    /// assert_eq!(buffer.sequences().count(), 1);
    /// let mut reader = buffer.read();
    /// assert_eq!(reader.next_packet().unwrap().producer_id(), 2);
    /// assert!(reader.next_packet().is_none());
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    pub fn forget_producer(&mut self, producer_id: u16) {
        if let Some(mut state) = self.state() {
            state.forget_producer(producer_id);
        }
    }

    /// Makes sure that a ring has a place in its table of sequences for a chunk about to be committed: when all places
    /// have chunks, the sequence whose latest chunk is the oldest gives up its place and all its chunks. Without this
    /// call a full table [refuses](Refusal::TableFull) newcomers' chunks until chunks of others are read or
    /// overwritten, which never happens in a ring that nobody reads and where nobody has a place to write to.
    ///
    /// [`ProducerEndpoint`](crate::service::ProducerEndpoint) calls it. What is given up counts as overwritten, and a
    /// later packet of that sequence reports it. A buffer with [`FillPolicy::Discard`] keeps what it has.
    ///
    /// Cost: two loads, unless the table is full; then a look at each of its places, and one at each chunk that goes.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
    ///
    /// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// for producer_id in 1..=5 {
    ///     let header = ChunkHeader { producer_id, fragments: 1, ..Default::default() };
    ///     buffer.make_place(&header);
    ///     let commit = buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
    ///     assert_eq!(commit, Commit::Written);
    /// }
    /// assert_eq!(buffer.read().next_packet().unwrap().producer_id(), 2);
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    pub fn make_place(&mut self, header: &ChunkHeader) {
        if let Some(mut state) = self.state() {
            let _ = state.make_place(header);
        }
    }

    /// Begins a read session at the oldest byte.
    #[doc(alias = "BeginRead")]
    #[inline]
    pub fn read(&mut self) -> Reader<'_> {
        Reader::begin(self.layout.state(self.memory.as_mut()))
    }

    /// All counters.
    pub fn stats(&self) -> BufferStats {
        self.layout.stats(self.memory.as_ref())
    }

    /// The sequences in the table, with what was lost on each.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceInfo> {
        SequenceInfo::all(&self.layout, self.memory.as_ref())
    }

    /// What a full buffer does.
    pub fn policy(&self) -> FillPolicy {
        self.layout.policy(self.memory.as_ref())
    }

    /// Bytes of memory that a clone needs now: header, table and the used part of the ring, plus 7 in case the memory
    /// starts just after an 8-byte boundary.
    pub fn clone_size(&self) -> usize {
        let memory = self.memory.as_ref();
        let used = self.layout.header(memory).map_or(0, |header| header.used.get());
        self.layout.used_part(memory, used).map_or(0, <[u8]>::len).saturating_add(7)
    }

    /// Copies what is in the buffer into `memory`, to be read there: the reference's `CloneReadOnly`.
    ///
    /// The copy starts a fresh read of the same chunks with the same losses pending; its read counters are 0.
    /// Cost: one copy of [`clone_size`](Self::clone_size) bytes. Nothing else of `memory` is touched.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] if it does not fit, [`RegionError::Damaged`] if somebody else wrote into this buffer's
    /// own memory.
    #[doc(alias = "CloneReadOnly")]
    pub fn clone_read_only<N: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        memory: N,
    ) -> Result<ReadOnlyTraceBuffer<N>, RegionError> {
        ReadOnlyTraceBuffer::copy_of(&self.layout, self.memory.as_ref(), memory)
    }

    /// The same buffer, read-only. No cost.
    pub fn into_read_only(self) -> ReadOnlyTraceBuffer<M> {
        ReadOnlyTraceBuffer::from_parts(self.memory, self.layout)
    }

    /// Gives the memory back, contents and all.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Verifies that lists, table, ring and counters agree. For tests: walks everything.
    #[doc(hidden)]
    pub fn check(&mut self) -> Result<super::RingSummary, &'static str> {
        let state = self.layout.state(self.memory.as_mut()).ok_or("no state")?;
        super::check::check(&state)
    }
}
