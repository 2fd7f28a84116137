use super::sync::AtomicU32;

/// What a [`Producer`](super::Producer) remembers of its chunks and writers: 4 bytes a chunk, 64 a writer.
///
/// `CHUNKS` is at least [`SharedMemory::chunks`](super::SharedMemory::chunks) of the layout in use; `WRITERS`,
/// at most 65,535, is how many writers there can be at a time.
///
/// ```
/// use tracebuf::producer::ProducerStorage;
///
/// // 256 KiB in pages of 4 KiB, a chunk each; up to 8 writers.
/// static STORAGE: ProducerStorage<64, 8> = ProducerStorage::new();
/// assert_eq!(core::mem::size_of_val(&STORAGE), 64 * 4 + 8 * 64);
/// ```
pub struct ProducerStorage<const CHUNKS: usize, const WRITERS: usize> {
    pub(crate) links: [AtomicU32; CHUNKS],
    pub(crate) writers: [WriterSlot; WRITERS],
}

/// A writer id's state. It outlives its writers: an id used again goes on with the next chunk id, because
/// the service takes an older one for a chunk that it has seen.
pub(crate) struct WriterSlot {
    pub(crate) taken: AtomicU32,
    pub(crate) next_chunk: AtomicU32,
    pub(crate) target: AtomicU32,
    /// Patches in `mail`: set by the writer when 0, put back to 0 by whoever sends them.
    pub(crate) posted: AtomicU32,
    /// Chunk id; offset and, in bit 16, whether more are to come for the chunk; data.
    pub(crate) mail: [[AtomicU32; 3]; WriterSlot::MAIL],
}

impl WriterSlot {
    /// Patches that one writer can leave for whoever sends next.
    pub(crate) const MAIL: usize = 4;

    #[cfg(not(loom))]
    const fn new() -> Self {
        WriterSlot {
            taken: AtomicU32::new(0),
            next_chunk: AtomicU32::new(0),
            target: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            mail: [const { [const { AtomicU32::new(0) }; 3] }; WriterSlot::MAIL],
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        WriterSlot {
            taken: AtomicU32::new(0),
            next_chunk: AtomicU32::new(0),
            target: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            mail: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU32::new(0))),
        }
    }
}

impl<const CHUNKS: usize, const WRITERS: usize> ProducerStorage<CHUNKS, WRITERS> {
    /// Storage for a static or a local variable.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const {
            assert!(WRITERS >= 1 && WRITERS <= 65_535, "writer ids are 1 to 65535");
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

impl<const CHUNKS: usize, const WRITERS: usize> Default for ProducerStorage<CHUNKS, WRITERS> {
    fn default() -> Self {
        Self::new()
    }
}
