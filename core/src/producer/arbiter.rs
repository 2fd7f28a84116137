//! `Producer`: the owner of the chunks, and the sender of complete ones.

use super::atomics::{AtomicU32, Ordering, const_fn};
use super::commit::{ChunkToMove, ChunkToPatch, CommitRequest, CommitSink};
use super::cursor;
use super::ids::Ids;
use super::layout::{Division, Layout};
#[cfg(not(tracebuf_small))]
use super::need::Need;
use super::page::{ChunkState, change_state};
use super::smb::{MemoryError, SharedMemory};
use super::storage::{ProducerStorage, WriterSlot};
use crate::SMALL;
use heapless::Vec;

/// One producer: its shared memory, its writers' ids, and the chunks that wait to be sent.
///
/// It makes the writers, one for each thread, interrupt priority or core; they share nothing else. It is lock-free:
/// completed chunks are collected in a list, which a flush sends, or the writer that completes a chunk when half of the
/// shared memory is unsent. If another writer is sending just then, that one sends these too; nobody waits.
///
/// So a packet may take its writer as long as the sink takes for all chunks of shared memory, and longer while others
/// ask for flushes or patches. If that is too long, make the sink a queue that another thread serves.
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
    pub(super) chunks: u32,
    links: &'a [AtomicU32],
    pub(super) writers: &'a [WriterSlot],
    pub(super) ids: Ids,
    pub(super) sink: &'a (dyn CommitSink + Sync),
    /// The page where the last free chunk was found.
    hint: AtomicU32,
    /// The newest completed chunk that is not sent; each links to the one before it.
    newest: AtomicU32,
    /// [`IDLE`], [`SENDING`], [`FOR_ROOM`] or [`AGAIN`].
    sending: AtomicU32,
    /// The next flush's number, always odd; `flush_sent` is what it was when the last flush was sent.
    pub(super) next_flush: AtomicU32,
    flush_sent: AtomicU32,
    pub(super) flush_done: AtomicU32,
    /// Chunks completed in all, and taken from the list; both modulo 2³².
    completed: AtomicU32,
    taken: AtomicU32,
    /// Times that the incremental state was cleared, modulo 2³².
    generation: AtomicU32,
    #[cfg(not(tracebuf_small))]
    pub(super) need: Need,
}

/// No chunk: a chunk is identified by its page, times 16, plus its place in the page.
pub(crate) const NONE: u32 = u32::MAX;
/// Chunks in one request; larger batches are sent in parts. They lie on the stack.
pub(super) const BATCH: usize = if SMALL { 4 } else { 16 };

/// Nobody sends.
const IDLE: u32 = 0;
/// Somebody sends.
const SENDING: u32 = 1;
/// Whoever sends was asked again since they last began, for the sake of free chunks: whoever needs one asks again.
const FOR_ROOM: u32 = SENDING + 1;
/// Whoever sends was asked again since they last began, and will not be asked another time.
const AGAIN: u32 = if SMALL { FOR_ROOM } else { FOR_ROOM + 1 };

/// Leaves the sending state even if the sink panics: that must not silence the other writers.
struct Sending<'s>(&'s AtomicU32);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

impl<'a> Producer<'a> {
    const_fn! {
        /// Makes a producer that divides the pages of `memory` as `layout` says. It can be a `static`. No other
        /// producer may use its memory and storage while it lives.
        ///
        /// On a single core, `Sync` can be promised for a sink that tolerates interrupts.
        ///
        /// # Errors
        /// [`MemoryError::ChunkSize`] or [`MemoryError::Storage`].
        pub const fn new<const CHUNKS: usize, const WRITERS: usize>(
            memory: SharedMemory<'a>,
            layout: Layout,
            storage: &'a ProducerStorage<CHUNKS, WRITERS>,
            sink: &'a (dyn CommitSink + Sync),
        ) -> Result<Self, MemoryError> {
            if layout.chunk_size(memory.page_size()) < SharedMemory::MIN_CHUNK {
                return Err(MemoryError::ChunkSize);
            }
            let chunks = memory.chunks(layout);
            if (CHUNKS as u64) < chunks as u64 {
                return Err(MemoryError::Storage);
            }
            Ok(Producer {
                memory,
                layout,
                division: Division::new(layout, memory.page_size()),
                chunks,
                links: &storage.links,
                writers: &storage.writers,
                ids: Ids::new(),
                sink,
                hint: AtomicU32::new(0),
                newest: AtomicU32::new(NONE),
                sending: AtomicU32::new(IDLE),
                next_flush: AtomicU32::new(1),
                flush_sent: AtomicU32::new(1),
                flush_done: AtomicU32::new(0),
                completed: AtomicU32::new(0),
                taken: AtomicU32::new(0),
                generation: AtomicU32::new(0),
                #[cfg(not(tracebuf_small))]
                need: Need::new(),
            })
        }
    }

    /// The shared memory.
    pub fn memory(&self) -> SharedMemory<'a> {
        self.memory
    }

    /// How pages are divided.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Asks all writers that intern names to start anew, because the service no longer has any of the names.
    pub fn clear_incremental_state(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the state was cleared, and how many chunks were completed; both modulo 2³².
    #[inline]
    pub(crate) fn progress(&self) -> (u32, u32) {
        (self.generation.load(Ordering::Relaxed), self.completed())
    }

    #[inline]
    pub(crate) fn completed(&self) -> u32 {
        self.completed.load(Ordering::Relaxed)
    }

    /// How many writers there can be at a time.
    #[inline]
    pub(crate) fn max_writers(&self) -> usize {
        self.writers.len()
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_size(&self) -> u32 {
        self.division.chunk_words as u32 * 4
    }

    /// Takes a free chunk.
    pub(crate) fn acquire(&self) -> Option<u32> {
        let hint = self.hint.load(Ordering::Relaxed);
        let mut page = hint;
        loop {
            if let Some(chunk) = self.memory.bitmap(page).and_then(|word| self.division.acquire(word)) {
                self.hint.store(page, Ordering::Relaxed);
                return Some(page << 4 | chunk);
            }
            page += 1;
            if page >= self.memory.pages() {
                page = 0;
            }
            if page == hint {
                return None;
            }
        }
    }

    /// Header and payload of a chunk of one of the producer's writers.
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(crate) fn words(&self, chunk: u32) -> &'a [AtomicU32] {
        self.memory.chunk(chunk >> 4, chunk & 15, &self.division)
    }

    /// Completes a chunk, and puts it on the list. Returns whether it is time to send.
    pub(crate) fn complete(&self, chunk: u32) -> bool {
        let (Some(word), Some(link)) = (self.memory.bitmap(chunk >> 4), self.link(chunk)) else {
            return false;
        };
        if !change_state(word, chunk & 15, ChunkState::BeingWritten, ChunkState::Complete) {
            // The other side took it away: not ours any more.
            return false;
        }
        // Counted before it can be taken; otherwise fewer than none could be left.
        let completed = self.completed.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            link.store(newest, Ordering::Relaxed);
            match self.newest.compare_exchange_weak(newest, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        // Another one may have completed and sent more since.
        let unsent = completed.wrapping_sub(self.taken.load(Ordering::Relaxed)) as i32;
        unsent >= (self.chunks - self.chunks / 2) as i32
    }

    /// Counts a chunk that the sender itself has completed.
    #[cfg(not(tracebuf_small))]
    pub(super) fn count_sent(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether there are completed chunks to send.
    pub(crate) fn has_completed(&self) -> bool {
        self.newest.load(Ordering::Relaxed) != NONE
    }

    /// Sends the completed chunks and the ready patches now, for instance on a timer. False: another writer is sending
    /// just then, and does this too; nobody is told when it has.
    pub fn commit(&self) -> bool {
        // Release: the sender sees what was put on the list before.
        let is_mine = self.sending.swap(AGAIN, Ordering::AcqRel) == IDLE;
        if is_mine {
            self.send_all();
        }
        is_mine
    }

    /// Like [`commit`](Self::commit), when free chunks are needed, or soon will be. If somebody else is sending, they
    /// do it, until they have sent as much as there is shared memory, or else whoever needs room next.
    pub(crate) fn send_for_room(&self) {
        if self.sending.fetch_max(FOR_ROOM, Ordering::AcqRel) == IDLE {
            self.send_all();
        }
    }

    fn send_all(&self) {
        let guard = Sending(&self.sending);
        self.send_while_asked();
        core::mem::forget(guard);
    }

    /// Sends until nobody asks for it any more.
    #[cfg(tracebuf_small)]
    fn send_while_asked(&self) {
        // From `AGAIN` to `SENDING`, and from there to `IDLE`, unless somebody has asked meanwhile.
        while self.sending.fetch_sub(1, Ordering::AcqRel) == AGAIN {
            self.send_once();
        }
    }

    /// Sends until nobody asks for it any more, or only for room when this one has done its share: whoever needs room
    /// sends itself.
    #[cfg(not(tracebuf_small))]
    fn send_while_asked(&self) {
        let begun = self.taken.load(Ordering::Relaxed);
        loop {
            self.sending.swap(SENDING, Ordering::AcqRel);
            self.send_once();
            let has_done_its_share = self.taken.load(Ordering::Relaxed).wrapping_sub(begun) >= self.chunks;
            let most = if has_done_its_share { FOR_ROOM } else { SENDING };
            let leave = |asked| (asked <= most).then_some(IDLE);
            if self.sending.fetch_update(Ordering::AcqRel, Ordering::Relaxed, leave).is_ok() {
                break;
            }
        }
    }

    /// Sends what there is now: chunks, patches, and the flush last.
    fn send_once(&self) {
        let next_flush = self.next_flush.load(Ordering::Acquire);
        #[cfg(not(tracebuf_small))]
        self.take_back();
        self.send_chunks();
        for (slot, writer_id) in self.ids.used(self.writers).iter().zip(1u16..) {
            // Acquire: what a writer that ended has left is there.
            let state = slot.state.load(Ordering::Acquire);
            if state == WriterSlot::FREE {
                continue;
            }
            while slot.patches.send_ready(|patch, has_more| {
                // Its chunk may have been completed just now.
                self.send_chunks();
                let (chunk_id, patches) = (patch.chunk_id, &[patch]);
                let chunk = ChunkToPatch { writer_id, target: slot.target(), chunk_id, patches, has_more };
                self.request(&[], &[chunk], 0);
            }) {}
            if state == WriterSlot::ENDED {
                // Only after all its chunks: from then on, nobody knows where they go.
                self.send_chunks();
                self.sink.unregister_writer(writer_id);
                slot.state.store(WriterSlot::FREE, Ordering::Release);
                self.ids.is_free(writer_id);
            }
        }
        if self.flush_sent.load(Ordering::Relaxed) != next_flush {
            self.flush_sent.store(next_flush, Ordering::Relaxed);
            self.request(&[], &[], next_flush.wrapping_sub(2));
        }
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn request(
        &self,
        chunks_to_move: &[ChunkToMove],
        chunks_to_patch: &[ChunkToPatch<'_>],
        flush: u32,
    ) {
        self.sink.commit(&CommitRequest { chunks_to_move, chunks_to_patch, flush });
    }

    #[inline(never)]
    pub(super) fn send_chunks(&self) {
        let (mut next, mut left) = self.take_completed();
        while left != 0 {
            let mut moves: Vec<ChunkToMove, BATCH> = Vec::new();
            while !moves.is_full() && left != 0 {
                left -= 1;
                let Some(link) = self.link(next) else { break };
                let (page, chunk, target) = (next >> 4, next & 15, self.target_of(next));
                let _ = moves.push(ChunkToMove { page, chunk, target });
                // Once sent, the chunk is the service's and its link may be used again.
                next = link.load(Ordering::Relaxed);
            }
            self.request(&moves, &[], 0);
        }
    }

    /// Takes the list of completed chunks: returns the oldest one, each being linked to the next, and how many. The
    /// list is endless if a service took a chunk that nobody had sent, and the chunk was completed again.
    fn take_completed(&self) -> (u32, u32) {
        let (mut oldest, mut count) = (NONE, 0_u32);
        let mut newer = self.newest.swap(NONE, Ordering::Acquire);
        // Newest first, as in a stack; turn the links round.
        while let Some(link) = self.link(newer) {
            let older = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = newer;
            newer = older;
            count = count.wrapping_add(1);
        }
        // Only one sends at a time.
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
        (oldest, count)
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    fn link(&self, chunk: u32) -> Option<&AtomicU32> {
        // `NONE` has no link: its place is far beyond the end.
        self.links.get(((chunk >> 4) * self.division.chunks + (chunk & 15)) as usize)
    }

    fn target_of(&self, chunk: u32) -> u16 {
        let writer_id = cursor::load(self.words(chunk), 1) as u16;
        self.writers.get(usize::from(writer_id).wrapping_sub(1)).map_or(0, WriterSlot::target)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
