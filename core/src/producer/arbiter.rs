use super::chunk_header::ChunkHeader;
use super::commit::{ChunkToMove, ChunkToPatch, CommitRequest, CommitSink};
use super::page::{ChunkPlace, ChunkState, Division, Layout};
use super::smb::{MemoryError, SharedMemory};
use super::storage::{ProducerStorage, WriterSlot};
use super::sync::{AtomicU32, Ordering};
use super::trace_writer::{Exhaustion, TraceWriter};
use heapless::Vec;

/// One producer: its shared memory, its writers' ids, and the chunks that wait to be sent.
///
/// Writers are made here, one for each thread, interrupt priority or core, and share nothing but this. All
/// of it is lock-free. Completed chunks are collected in a list; whoever completes one when half of the
/// shared memory is completed and unsent sends them all, as does a flush. If another one is sending just
/// then, it does that too: nobody waits.
///
/// ```
/// use tracebuf::producer::*;
///
/// struct Count(std::sync::atomic::AtomicUsize);
/// impl CommitSink for Count {
///     fn commit(&self, request: &CommitRequest<'_>) {
///         self.0.fetch_add(request.chunks_to_move.len(), std::sync::atomic::Ordering::Relaxed);
///     }
/// }
///
/// let mut memory = vec![0u32; 16 * 1024];
/// let memory = SharedMemory::new(atomic_words(&mut memory), 4096)?;
/// let storage = ProducerStorage::<64, 8>::new();
/// let sink = Count(Default::default());
/// let producer = Producer::new(memory, Layout::Four, &storage, &sink)?;
///
/// let mut writer = producer.writer(0, Exhaustion::Drop).expect("one of eight");
/// {
///     let mut packet = writer.packet();
///     packet.varint(8, 1_000_000); // timestamp
///     packet.message(900).string(1, "hello"); // for_testing
/// }
/// writer.flush();
/// assert_eq!(sink.0.load(std::sync::atomic::Ordering::Relaxed), 1);
/// # Ok::<(), MemoryError>(())
/// ```
pub struct Producer<'a> {
    memory: SharedMemory<'a>,
    layout: Layout,
    division: Division,
    /// Chunks of all pages.
    chunks: u32,
    links: &'a [AtomicU32],
    writers: &'a [WriterSlot],
    sink: &'a (dyn CommitSink + Sync),
    /// The page where the last free chunk was found.
    hint: AtomicU32,
    /// The newest completed chunk that is not sent; each links to the one before it.
    newest: AtomicU32,
    unsent: AtomicU32,
    sending: AtomicU32,
    flush_asked: AtomicU32,
    flush_unsent: AtomicU32,
    flush_done: AtomicU32,
    /// Chunks completed in all, modulo 2³².
    completed: AtomicU32,
    /// Times that the incremental state was cleared, modulo 2³².
    generation: AtomicU32,
}

/// A chunk that a writer owns.
pub(crate) struct OwnedChunk<'a> {
    pub(crate) place: ChunkPlace<'a>,
    page: u32,
    pub(crate) header: ChunkHeader,
}

/// No chunk, in the list of completed ones.
const NONE: u32 = u32::MAX;
const IDLE: u32 = 0;
const SENDING: u32 = 1;
/// Sending, and asked meanwhile to look again.
const ASKED: u32 = 2;
/// Chunks in one request; larger batches are sent in parts.
const BATCH: usize = 16;

/// Leaves the sending state also when the sink panics: the other writers must not be mute for that.
struct Sending<'s>(&'s AtomicU32);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

impl<'a> Producer<'a> {
    /// A producer that divides the pages of `memory` as `layout` says.
    ///
    /// Any sink that many threads may call does; on a single core `Sync` can be promised for one that
    /// tolerates interrupts.
    pub fn new<const CHUNKS: usize, const WRITERS: usize>(
        memory: SharedMemory<'a>,
        layout: Layout,
        storage: &'a ProducerStorage<CHUNKS, WRITERS>,
        sink: &'a (dyn CommitSink + Sync),
    ) -> Result<Self, MemoryError> {
        if layout.chunk_size(memory.page_size()) < SharedMemory::MIN_CHUNK {
            return Err(MemoryError::ChunkSize);
        }
        if (CHUNKS as u64) < u64::from(memory.chunks(layout)) {
            return Err(MemoryError::Storage);
        }
        Ok(Producer {
            memory,
            layout,
            division: Division::new(layout, memory.page_size()),
            chunks: memory.chunks(layout),
            links: &storage.links,
            writers: &storage.writers,
            sink,
            hint: AtomicU32::new(0),
            newest: AtomicU32::new(NONE),
            unsent: AtomicU32::new(0),
            sending: AtomicU32::new(IDLE),
            flush_asked: AtomicU32::new(0),
            flush_unsent: AtomicU32::new(0),
            flush_done: AtomicU32::new(0),
            completed: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        })
    }

    /// A writer to the central buffer `target`; `None` when all ids are taken.
    ///
    /// `exhaustion` says what the writer does when shared memory is full. The id returns when the writer is
    /// dropped. Cost: a look at each taken id.
    pub fn writer(&'a self, target: u16, exhaustion: Exhaustion) -> Option<TraceWriter<'a>> {
        let free = |slot: &WriterSlot| {
            slot.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let (slot, id) = self.writers.iter().zip(1u16..).find(|(slot, _)| free(slot))?;
        slot.target.store(u32::from(target), Ordering::Relaxed);
        self.sink.register_writer(id, target);
        let first_chunk = slot.next_chunk.load(Ordering::Relaxed);
        Some(TraceWriter::new(self, &slot.patches, id, exhaustion, first_chunk))
    }

    /// The shared memory.
    pub fn memory(&self) -> SharedMemory<'a> {
        self.memory
    }

    /// How pages are divided.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Sends the completed chunks now, for instance on a timer.
    ///
    /// Chunks that are still being written, and patches that are not ready, are not sent.
    pub fn commit(&self) {
        self.send();
    }

    /// The service has done all that was asked up to this flush.
    pub fn flushed(&self, flush: u32) {
        let mut seen = self.flush_done.load(Ordering::Relaxed);
        while (flush.wrapping_sub(seen) as i32) > 0 {
            match self.flush_done.compare_exchange_weak(seen, flush, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the service has acknowledged a [`TraceWriter::flush`].
    pub fn is_flushed(&self, flush: u32) -> bool {
        (self.flush_done.load(Ordering::Acquire).wrapping_sub(flush) as i32) >= 0
    }

    /// Asks that a flush go out with the next request, and says its number, never 0.
    pub(crate) fn ask_flush(&self) -> u32 {
        let mut flush = self.flush_asked.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if flush == 0 {
            flush = self.flush_asked.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        }
        let mut seen = self.flush_unsent.load(Ordering::Relaxed);
        while seen == 0 || (flush.wrapping_sub(seen) as i32) > 0 {
            match self.flush_unsent.compare_exchange_weak(seen, flush, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        flush
    }

    /// Asks all writers that intern names to start anew, because the service has none of them any more.
    pub fn clear_incremental_state(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the state was cleared, and how many chunks were completed; both modulo 2³².
    #[inline]
    pub(crate) fn progress(&self) -> (u32, u32) {
        (self.generation.load(Ordering::Relaxed), self.completed.load(Ordering::Relaxed))
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_size(&self) -> u32 {
        self.division.chunk_words as u32 * 4
    }

    pub(crate) fn sink(&self) -> &'a (dyn CommitSink + Sync) {
        self.sink
    }

    pub(crate) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Takes a free chunk and writes its header, which counts one fragment.
    pub(crate) fn acquire(&self, header: ChunkHeader) -> Option<OwnedChunk<'a>> {
        let pages = self.memory.pages();
        let mut page = self.hint.load(Ordering::Relaxed);
        for _ in 0..pages {
            if page >= pages {
                page = 0;
            }
            if let Some(place) = self.memory.page(page).and_then(|p| p.acquire(&self.division)) {
                self.hint.store(page, Ordering::Relaxed);
                place.set_header(header);
                return Some(OwnedChunk { place, page, header });
            }
            page += 1;
        }
        None
    }

    /// Completes a chunk and puts it on the list. Says whether it is time to send.
    pub(crate) fn complete(&self, chunk: OwnedChunk<'a>) -> bool {
        self.completed.fetch_add(1, Ordering::Relaxed);
        chunk.place.set_header(chunk.header);
        if !chunk.place.change_state(ChunkState::BeingWritten, ChunkState::Complete) {
            // The other side took it away: not ours any more.
            return false;
        }
        let item = chunk.page << 4 | chunk.place.chunk;
        let Some(link) = self.link(item) else { return false };
        // Counted before it can be taken, or the count would pass below zero.
        let unsent = self.unsent.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            link.store(newest, Ordering::Relaxed);
            match self.newest.compare_exchange_weak(newest, item, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        unsent.saturating_mul(2) >= self.chunks()
    }

    /// Sends completed chunks and ready patches. When somebody else is sending, they do it.
    pub(crate) fn send(&self) {
        // Release: whoever sends sees what was put on the list before.
        if self.sending.swap(ASKED, Ordering::AcqRel) != IDLE {
            return;
        }
        let guard = Sending(&self.sending);
        loop {
            // A swap, not a store: it must see what those who asked until now have put on the list.
            self.sending.swap(SENDING, Ordering::AcqRel);
            let flush = self.flush_unsent.swap(0, Ordering::Acquire);
            self.send_chunks();
            for (slot, writer_id) in self.writers.iter().zip(1u16..) {
                if slot.patches.any_ready() {
                    self.send_patches(slot, writer_id);
                }
            }
            if flush != 0 {
                self.sink.commit(&CommitRequest { flush, ..CommitRequest::default() });
            }
            let end = self.sending.compare_exchange(SENDING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if end.is_ok() {
                core::mem::forget(guard);
                return;
            }
        }
    }

    fn send_chunks(&self) {
        let mut oldest = NONE;
        let mut newer = self.newest.swap(NONE, Ordering::Acquire);
        // Newest first, as a stack has it; turn the links round.
        let mut count = 0;
        while let Some(link) = self.link(newer) {
            let older = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = newer;
            newer = older;
            count += 1;
        }
        self.unsent.fetch_sub(count, Ordering::Relaxed);
        let mut moves: Vec<ChunkToMove, BATCH> = Vec::new();
        while let Some(link) = self.link(oldest) {
            let (page, chunk) = (oldest >> 4, oldest & 15);
            // Once sent, the chunk is the service's and its link may be used again.
            oldest = link.load(Ordering::Relaxed);
            let target = self.target_of(page, chunk);
            // There is room: it is emptied when full.
            let _ = moves.push(ChunkToMove { page, chunk, target });
            if moves.is_full() || oldest == NONE {
                self.sink.commit(&CommitRequest { chunks_to_move: &moves, ..CommitRequest::default() });
                moves.clear();
            }
        }
    }

    fn send_patches(&self, slot: &WriterSlot, writer_id: u16) {
        let target = slot.target.load(Ordering::Relaxed) as u16;
        while let Some((patches, has_more)) = slot.patches.take_ready() {
            // The chunk of these patches may have been completed just now.
            self.send_chunks();
            let chunk_id = patches.first().map_or(0, |patch| patch.chunk_id);
            let chunk = ChunkToPatch { writer_id, target, chunk_id, patches: &patches, has_more };
            self.sink.commit(&CommitRequest { chunks_to_patch: &[chunk], ..CommitRequest::default() });
        }
    }

    fn link(&self, item: u32) -> Option<&AtomicU32> {
        if item == NONE {
            return None;
        }
        self.links.get(((item >> 4) * self.division.chunks + (item & 15)) as usize)
    }

    fn target_of(&self, page: u32, chunk: u32) -> u16 {
        let place = self.memory.page(page).and_then(|p| p.place_in(&self.division, chunk));
        let writer = place.map_or(0, |p| p.header().writer_id);
        self.slot(writer).map_or(0, |slot| slot.target.load(Ordering::Relaxed) as u16)
    }

    fn slot(&self, writer_id: u16) -> Option<&'a WriterSlot> {
        self.writers.get(usize::from(writer_id).wrapping_sub(1))
    }

    /// A writer ends, all its chunks sent.
    pub(crate) fn return_writer(&self, writer_id: u16, next_chunk: u32) {
        self.sink.unregister_writer(writer_id);
        if let Some(slot) = self.slot(writer_id) {
            slot.next_chunk.store(next_chunk, Ordering::Relaxed);
            slot.taken.store(0, Ordering::Release);
        }
    }
}
