//! What threads write into: shared memory, with the producer over it.

use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::producer::track_event::Track;
use tracebuf::producer::{
    AtomicU32, CommitSink, Consumer, MemoryError, Producer, ProducerStorage, SharedMemory,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

use super::queue::Queue;
use super::switch::Switch;
use super::waker::Waker;
pub use crate::limits::WRITERS;
use crate::limits::{CHUNKS, LAYOUT, PAGE};
use crate::region_file::OwnMemory;
use crate::this_process::process_track;

/// Bytes of a chunk, its header included.
pub const CHUNK: usize = LAYOUT.chunk_size(PAGE) as usize;

/// Bytes of shared memory with which every thread that waits for a chunk gets one, however many threads keep theirs and
/// record nothing: each writer has one between its events and while it waits, and there is a page more. Not larger,
/// because half of it may be complete before it is sent.
pub const ENOUGH_TO_STALL: usize = (WRITERS.div_ceil(PAGE as usize / CHUNK) + 1) * PAGE as usize;

type Storage = ProducerStorage<CHUNKS, WRITERS>;

/// Shared memory.
pub type Words = Box<dyn AsRef<[AtomicU32]> + Send + Sync>;

/// Shared memory in a file.
struct InFile(Arc<OwnMemory>);

impl AsRef<[AtomicU32]> for InFile {
    fn as_ref(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

/// What the producer borrows.
pub struct Home {
    /// On the heap, in the file of a buffer, or shared with another process.
    words: Words,
    storage: Box<Storage>,
    queue: Queue,
    process_name: String,
}

/// The producer, and the track above those of its threads.
pub struct Attached<'a> {
    pub producer: Producer<'a>,
    pub process: Track<'a>,
}

/// This many bytes for shared memory. Each page is touched here, so that no recording thread has to wait until the
/// system has one.
pub fn words(bytes: usize) -> Words {
    let words: Box<[AtomicU32]> = (0..bytes / 4).map(|_| AtomicU32::new(0)).collect();
    Box::new(words)
}

/// Pages over these words, which may have any content.
pub fn shared_memory(words: &[AtomicU32]) -> Result<SharedMemory<'_>, MemoryError> {
    SharedMemory::new(words, PAGE)
}

/// The service's end of a producer.
pub type Endpoint<'a> = ProducerEndpoint<'a, WRITERS>;

/// The endpoint of a producer that may write to this many buffers.
pub fn endpoint(memory: SharedMemory<'_>, identity: ProducerIdentity, buffers: u16) -> Endpoint<'_> {
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    for target in 0..buffers {
        endpoint.allow(target);
    }
    endpoint
}

self_cell!(
    pub struct ProducerCell {
        owner: Home,
        #[covariant]
        dependent: Attached,
    }
);

impl ProducerCell {
    /// A producer over shared memory.
    pub fn in_memory(
        words: Words,
        switch: Arc<Switch>,
        waker: Waker,
        process_name: String,
    ) -> Result<Self, MemoryError> {
        Self::with_queue(words, Queue::new(waker, switch), process_name)
    }

    /// The same over shared memory in the file of a buffer, in which each writer is noted.
    pub fn in_file(
        memory: Arc<OwnMemory>,
        switch: Arc<Switch>,
        waker: Waker,
        process_name: String,
    ) -> Result<Self, MemoryError> {
        let queue = Queue::new(waker, switch).telling(memory.clone());
        Self::with_queue(Box::new(InFile(memory)), queue, process_name)
    }

    fn with_queue(words: Words, queue: Queue, process_name: String) -> Result<Self, MemoryError> {
        let home = Home { words, storage: Box::new(Storage::new()), queue, process_name };
        ProducerCell::try_new(home, |home| {
            let memory = shared_memory(home.words.as_ref().as_ref())?;
            let producer = Producer::new(memory, LAYOUT, &home.storage, &home.queue)?;
            let process = process_track(std::process::id(), &home.process_name);
            Ok(Attached { producer, process })
        })
    }

    /// What its threads ask for.
    pub fn queue(&self) -> &Queue {
        &self.borrow_owner().queue
    }

    /// Counts a packet of a thread that has no writer for this buffer.
    #[cold]
    pub fn drop_packet(&self, target: u16) {
        self.queue().packet_dropped(0, target);
    }
}
