//! `ProducerStorage`: a producer's memory outside shared memory.

use super::atomics::{AtomicU32, Ordering, const_fn};
use super::patch_list::PatchList;
#[cfg(not(tracebuf_small))]
use super::presence::Presence;

/// What a [`Producer`](super::Producer) remembers of its chunks and writers: 4 bytes a chunk and 220 a writer, 28
/// without the feature `patches`; on microcontrollers 204 and 12. For one producer at a time: two at once would lose
/// each other's chunks.
///
/// `CHUNKS` is at least [`SharedMemory::chunks`](super::SharedMemory::chunks) of the layout in use; `WRITERS`,
/// at most 65,534, is how many writers there can be at a time.
///
/// ```
/// use tracebuf::producer::ProducerStorage;
///
/// // 256 KiB in pages of 4 KiB, a chunk each; up to 8 writers.
/// static STORAGE: ProducerStorage<64, 8> = ProducerStorage::new();
/// assert_eq!(core::mem::size_of_val(&STORAGE), 64 * 4 + 8 * 220);
/// ```
#[cfg_attr(all(feature = "std", not(any(loom, test))), derive(zerocopy::FromZeros))]
pub struct ProducerStorage<const CHUNKS: usize, const WRITERS: usize> {
    pub(crate) links: [AtomicU32; CHUNKS],
    pub(crate) writers: [WriterSlot; WRITERS],
}

/// A writer id's state, all zeros at first. It outlives its writers: an id used again goes on with the next chunk id,
/// because the service takes an older one for a chunk that it has seen.
#[cfg_attr(all(feature = "std", not(any(loom, test))), derive(zerocopy::FromZeros))]
pub(crate) struct WriterSlot {
    /// [`FREE`](Self::FREE), [`TAKEN`](Self::TAKEN) or [`ENDED`](Self::ENDED).
    pub(crate) state: AtomicU32,
    pub(crate) next_chunk: AtomicU32,
    /// The central buffer that the writer writes to, and above its 16 bits what the writer before, to the same buffer,
    /// still had to say.
    pub(crate) target: AtomicU32,
    #[cfg(not(tracebuf_small))]
    pub(crate) presence: Presence,
    /// Size fields in chunks that were given away.
    pub(crate) patches: PatchList,
}

impl WriterSlot {
    pub(crate) const FREE: u32 = 0;
    pub(crate) const TAKEN: u32 = 1;
    /// Its writer is gone; the next sender sends what it has left, and says so.
    pub(crate) const ENDED: u32 = 2;

    const_fn! {
        const fn new() -> Self {
            WriterSlot {
                state: AtomicU32::new(Self::FREE),
                next_chunk: AtomicU32::new(0),
                target: AtomicU32::new(0),
                #[cfg(not(tracebuf_small))]
                presence: Presence::new(),
                patches: PatchList::new(),
            }
        }
    }

    /// Whether nobody has it.
    #[cfg(not(tracebuf_small))]
    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Self::FREE
    }

    /// Takes it if it is free.
    #[inline(never)]
    pub(crate) fn take(&self) -> bool {
        let taken = Self::TAKEN;
        self.state.compare_exchange(Self::FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether buffer `target` has the latest chunks of this id and is to hear what its previous writer left to be
    /// said, if there is either.
    pub(crate) fn suits(&self, target: u16) -> bool {
        let before = self.target.load(Ordering::Relaxed);
        before as u16 == target || before >> 16 == 0 && self.next_chunk.load(Ordering::Relaxed) == 0
    }

    /// Ends its writer, all of whose chunks are completed, and leaves to the next what no packet of its own has said.
    /// The id becomes free when the chunks are sent.
    pub(crate) fn end(&self, next_chunk: u32, news: u8) {
        self.target.store(u32::from(news) << 16 | u32::from(self.target()), Ordering::Relaxed);
        self.next_chunk.store(next_chunk, Ordering::Relaxed);
        #[cfg(not(tracebuf_small))]
        self.presence.leave();
        self.state.store(Self::ENDED, Ordering::Release);
    }

    /// What the previous writer has left to be said by one that writes to the same buffer.
    pub(crate) fn news(&self, target: u16) -> u8 {
        let before = self.target.load(Ordering::Relaxed);
        if before as u16 == target { (before >> 16) as u8 } else { 0 }
    }

    /// The central buffer that the writer writes to.
    pub(crate) fn target(&self) -> u16 {
        self.target.load(Ordering::Relaxed) as u16
    }
}

impl<const CHUNKS: usize, const WRITERS: usize> ProducerStorage<CHUNKS, WRITERS> {
    /// Storage for a static or a local variable.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const {
            assert!(WRITERS >= 1 && WRITERS <= 65_534, "writer ids are 1 to 65534");
        }
        ProducerStorage {
            links: [const { AtomicU32::new(0) }; CHUNKS],
            writers: [const { WriterSlot::new() }; WRITERS],
        }
    }

    /// Storage for a model; loom's atomics cannot be constants.
    #[cfg(loom)]
    pub fn new() -> Self {
        ProducerStorage {
            links: core::array::from_fn(|_| AtomicU32::new(0)),
            writers: core::array::from_fn(|_| WriterSlot::new()),
        }
    }
}

#[cfg(all(feature = "std", not(any(loom, test))))]
impl<const CHUNKS: usize, const WRITERS: usize> ProducerStorage<CHUNKS, WRITERS> {
    /// Storage on the heap, of which only what is used takes memory where systems give it page by page. `None` if there
    /// is not enough.
    #[must_use]
    pub fn on_heap() -> Option<std::boxed::Box<Self>> {
        zerocopy::FromZeros::new_box_zeroed().ok()
    }
}

impl<const CHUNKS: usize, const WRITERS: usize> Default for ProducerStorage<CHUNKS, WRITERS> {
    fn default() -> Self {
        Self::new()
    }
}
