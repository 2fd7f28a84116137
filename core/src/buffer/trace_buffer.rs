//! `TraceBuffer`: the buffer as its owner sees it.

use super::chunk::{Chunk, ChunkHeader, Commit, Refusal};
use super::config::{Config, FillPolicy};
use super::error::RegionError;
use super::observer::{OverwriteObserver, Unobserved};
use super::patch::Patch;
use super::read_only::ReadOnlyTraceBuffer;
use super::reader::Reader;
use super::region::{RegionLayout, State};
use super::source::{Bytes, Shared, Source};
use super::stats::{BufferStats, SequenceInfo};

/// A trace buffer over a region of memory.
///
/// `M` is anything that gives a slice of bytes, always the same one: `&'static mut [u8]`, `Box<[u8]>`, mapped pages.
/// All state lies in it; the buffer itself is a handful of sizes. If the memory later gives other bytes, operations are
/// refused; nothing panics.
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
pub struct TraceBuffer<M, O = Unobserved> {
    pub(super) memory: M,
    pub(super) layout: RegionLayout,
    pub(super) observer: O,
}

static_assertions::const_assert!(size_of::<TraceBuffer<&mut [u8]>>() <= 64);

impl<M: AsRef<[u8]> + AsMut<[u8]>> TraceBuffer<M> {
    /// Lays out a region, whatever was in it before, and starts an empty buffer.
    ///
    /// The region begins at the first 8-byte boundary; its ring is what the header and the table leave, up to 4 GiB
    /// less 4 bytes. Pages of the ring are first touched when chunks come.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] or [`RegionError::TooFewSequences`].
    pub fn new(mut memory: M, config: Config) -> Result<Self, RegionError> {
        let layout = RegionLayout::format(memory.as_mut(), &config)?;
        Ok(Self { memory, layout, observer: Unobserved })
    }

    /// The same buffer, which shows `observer` all that it overwrites, except by
    /// [`copy_chunk_untrusted_observed`](Self::copy_chunk_untrusted_observed) and the like.
    pub fn observed_by<O: OverwriteObserver>(self, observer: O) -> TraceBuffer<M, O> {
        TraceBuffer { memory: self.memory, layout: self.layout, observer }
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver> TraceBuffer<M, O> {
    /// The observer of what is overwritten.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The same, to be changed.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Stores a chunk, in which nothing is trusted: the reference's `CopyChunkUntrusted`.
    ///
    /// A [written](Commit::Written) chunk may still hold malformed packets: they count as
    /// [`abi_violations`](super::BufferStats::abi_violations), and once read or overwritten as
    /// [`chunks_malformed`](super::SequenceInfo::chunks_malformed).
    ///
    /// Cost: one copy of the payload, a look at each fragment's size, and O(1) for each chunk overwritten, or a look at
    /// its fragments' sizes if it was partly read or patched. A chunk out of order walks back by at most
    /// [`WALK_LIMIT`](super::WALK_LIMIT) chunks. [Checksums](Config::crc) add a pass over the payload, or two over that
    /// of a chunk that is there already. Microcontrollers (`target_os = "none"`) add a look through the table, and at
    /// the fragments' sizes of every chunk overwritten.
    #[doc(alias = "CopyChunkUntrusted")]
    #[inline]
    pub fn copy_chunk_untrusted(&mut self, chunk: &Chunk<'_>) -> Commit {
        self.commit_own(&chunk.header, Bytes(chunk.payload))
    }

    /// Like [`copy_chunk_untrusted`](Self::copy_chunk_untrusted), and shows `observer` every whole packet that has to
    /// be overwritten for the chunk.
    pub fn copy_chunk_untrusted_observed<P: OverwriteObserver>(
        &mut self,
        chunk: &Chunk<'_>,
        observer: &mut P,
    ) -> Commit {
        self.commit(&chunk.header, Bytes(chunk.payload), observer)
    }

    /// Stores a chunk of `size` bytes that somebody else may still be changing.
    ///
    /// `fill(offset, target)` copies the chunk's bytes from `offset` on into all of `target`, mostly straight into the
    /// ring; only that copy is judged. Bytes that it leaves alone keep what lay there before, perhaps another
    /// producer's data. It may be asked for parts, and for the same bytes again, and need not give the same ones then.
    ///
    /// Cost: as for [`copy_chunk_untrusted`](Self::copy_chunk_untrusted), with a copy of the whole chunk.
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
        self.commit_own(header, Shared { size, fill })
    }

    /// Like [`commit_with`](Self::commit_with), and shows `observer` every whole packet that has to be overwritten for
    /// the chunk.
    pub fn commit_with_observed<F, P>(
        &mut self,
        header: &ChunkHeader,
        size: usize,
        fill: F,
        observer: &mut P,
    ) -> Commit
    where
        F: FnMut(usize, &mut [u8]),
        P: OverwriteObserver,
    {
        self.commit(header, Shared { size, fill }, observer)
    }

    /// The memory that the buffer works on.
    pub fn memory(&self) -> &[u8] {
        self.memory.as_ref()
    }

    pub(super) fn state(&mut self) -> Option<State<'_>> {
        self.layout.state(self.memory.as_mut())
    }

    #[inline]
    fn commit_own<S: Source>(&mut self, header: &ChunkHeader, source: S) -> Commit {
        let refused = Commit::Refused(Refusal::RegionDamaged);
        let state = self.layout.state(self.memory.as_mut());
        state.map_or(refused, |mut state| state.commit(header, source, &mut self.observer))
    }

    #[inline]
    fn commit<S: Source, P: OverwriteObserver>(
        &mut self,
        header: &ChunkHeader,
        source: S,
        observer: &mut P,
    ) -> Commit {
        let refused = Commit::Refused(Refusal::RegionDamaged);
        self.state().map_or(refused, |mut state| state.commit(header, source, observer))
    }

    /// Applies patches to a stored chunk, which then waits for more only if `more_pending`: the reference's
    /// `TryPatchChunkContents`. The list may be empty. A patch of what has been read already is counted and changes
    /// nothing.
    ///
    /// Returns false, with nothing changed, if the chunk is gone or too far from the newest, or if a patch leaves its
    /// payload.
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
        let Some(mut state) = self.state() else { return false };
        let done = state.patch(producer_id, writer_id, chunk_id, patches, more_pending).is_some();
        let counters = &mut state.header.counters;
        if done {
            counters.patches_succeeded.add(patches.len() as u32);
        } else {
            counters.patches_failed.add(1);
        }
        done
    }

    /// Ends a producer whose process is gone, so that its packets wait for nothing more.
    ///
    /// Packets that wait for patches, for the rest of a scraped chunk or for the next chunk count as given up by their
    /// writers; packets after them come out. First commit what the producer left in shared memory, as
    /// [`ProducerEndpoint::disconnect`](crate::service::ProducerEndpoint::disconnect) does. Before its number is used
    /// again, call [`forget_producer`](Self::forget_producer).
    ///
    /// Cost: a look at the table, and one at each of the producer's chunks.
    pub fn end_producer(&mut self, producer_id: u16) {
        if let Some(mut state) = self.state() {
            state.end_producer(producer_id);
        }
    }

    /// Drops all data of a producer that is gone, and frees its places in the table. Unread data counts as overwritten,
    /// and leases of it end. Cost: a look at the table, and one at each of the producer's chunks.
    pub fn forget_producer(&mut self, producer_id: u16) {
        if let Some(mut state) = self.state() {
            state.forget_producer(producer_id);
        }
    }

    /// Makes a place in a ring's table of sequences for a chunk about to be committed.
    ///
    /// If all places have chunks, the sequence that was silent longest gives up its place and all its chunks: of those
    /// of the same producer or, if it has none, of all; in a table of more than 1,024, of so many of its places. On
    /// microcontrollers, all are looked at alike. They count as overwritten, and a later packet of that sequence reports
    /// it. Without this call, a full table [refuses](Refusal::TableFull) newcomers until chunks of others are read or
    /// overwritten. [`ProducerEndpoint`](crate::service::ProducerEndpoint) calls it. A buffer with
    /// [`FillPolicy::Discard`] keeps what it has.
    ///
    /// Cost: two loads, unless the table is full; then a look at each of its places, 1,024 at most, and one at each
    /// chunk that goes.
    pub fn make_place(&mut self, header: &ChunkHeader) {
        if let Some(mut state) = self.layout.state(self.memory.as_mut()) {
            let _ = state.make_place(header, &mut self.observer);
        }
    }

    /// Begins a read session at the oldest byte.
    #[doc(alias = "BeginRead")]
    #[inline]
    pub fn read(&mut self) -> Reader<'_> {
        Reader::begin(self.state())
    }

    /// Begins a read session of one sequence alone: who reads one after the other gets packets in the order of their
    /// writers, and not in that of the buffer. Where chunks may still be overwritten, that loses more.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    ///
    /// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
    /// for writer_id in [2, 1] {
    ///     let header = ChunkHeader { producer_id: 1, writer_id, fragments: 1, ..Default::default() };
    ///     buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
    /// }
    /// assert_eq!(buffer.read_sequence(1, 1).next_packet().map(|packet| packet.writer_id()), Some(1));
    /// assert!(buffer.read_sequence(1, 1).next_packet().is_none());
    /// assert_eq!(buffer.read().next_packet().map(|packet| packet.writer_id()), Some(2));
    /// # Ok::<(), tracebuf::buffer::RegionError>(())
    /// ```
    #[inline]
    pub fn read_sequence(&mut self, producer_id: u16, writer_id: u16) -> Reader<'_> {
        Reader::begin_sequence(self.state(), producer_id, writer_id)
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

    /// Bytes of memory that a clone needs now, plus 7 in case the memory starts just after an 8-byte boundary.
    pub fn clone_size(&self) -> usize {
        self.layout.clone_size(self.memory.as_ref())
    }

    /// Copies what is in the buffer into `memory`, to be read there: the reference's `CloneReadOnly`.
    ///
    /// The copy starts a fresh read of the same chunks with the same losses pending; its read counters are 0.
    /// Cost: one copy of [`clone_size`](Self::clone_size) bytes.
    ///
    /// # Errors
    /// [`RegionError::TooSmall`] or [`RegionError::Damaged`].
    #[doc(alias = "CloneReadOnly")]
    pub fn clone_read_only<N: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        memory: N,
    ) -> Result<ReadOnlyTraceBuffer<N>, RegionError> {
        ReadOnlyTraceBuffer::copy_of(&self.layout, self.memory.as_ref(), memory)
    }

    /// The same buffer, read-only. No cost.
    pub fn into_read_only(self) -> ReadOnlyTraceBuffer<M> {
        ReadOnlyTraceBuffer { memory: self.memory, layout: self.layout }
    }

    /// Gives the memory back, contents and all.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Verifies that lists, table, ring and counters agree. For tests: walks everything.
    #[doc(hidden)]
    pub fn check(&mut self) -> Result<super::RingSummary, &'static str> {
        super::check::check(&self.state().ok_or("no state")?)
    }
}
