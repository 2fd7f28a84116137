//! Producers, with the shared memory that threads write into, and what recorders share.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::producer::track_event::Track;
use tracebuf::producer::{
    AtomicU32, CommitSink, Consumer, Exhaustion, MemoryError, Producer, ProducerStorage, SharedMemory,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

use crate::clock::SessionClock;
use crate::limits::{CHUNK, CHUNKS, LAYOUT, PAGE, WRITERS};
use crate::queue::Queue;
use crate::recording_gate::{BufferId, RecordingGate};
use crate::this_process::process_track;
use crate::waits::Waker;

/// Bytes of shared memory with which each of so many threads that waits for a chunk gets one: one each, and a page more.
pub(crate) const ENOUGH_TO_STALL: usize = (WAITING.div_ceil(PAGE as usize / CHUNK) + 1) * PAGE as usize;
/// Threads that may write at a time. Where chunks are taken back from idle ones, there may be many more of those.
const WAITING: usize = 1024;

/// Shared memory.
pub type Words = Box<dyn AsRef<[AtomicU32]> + Send + Sync>;

struct Home {
    /// On the heap, in the file of a buffer, or shared with another process.
    words: Words,
    storage: Box<ProducerStorage<CHUNKS, WRITERS>>,
    queue: Queue,
    process_name: String,
}

struct Attached<'a> {
    producer: Producer<'a>,
    process: Track<'a>,
}

/// Makes this many bytes of shared memory. Each page is touched, so that no recording thread waits for it.
pub fn words(bytes: usize) -> Words {
    let words: Box<[AtomicU32]> = (0..bytes / 4).map(|_| AtomicU32::new(0)).collect();
    Box::new(words)
}

/// Makes pages over these words, which may have any content.
///
/// # Errors
/// The size is not one that shared memory can have.
pub fn shared_memory(words: &[AtomicU32]) -> Result<SharedMemory<'_>, MemoryError> {
    SharedMemory::new(words, PAGE)
}

/// The service's end of a producer.
pub type Endpoint<'a> = ProducerEndpoint<'a, WRITERS>;

/// Makes the endpoint of a producer that may write to this many buffers.
pub fn endpoint(memory: SharedMemory<'_>, identity: ProducerIdentity, buffers: u16) -> Endpoint<'_> {
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    for target in 0..buffers {
        endpoint.allow(target);
    }
    endpoint
}

self_cell!(
    struct Cell {
        owner: Home,
        #[covariant]
        dependent: Attached,
    }
);

/// A producer with the shared memory that it writes into, and the queue of what its threads ask for.
pub struct ProducerCell(Cell);

impl ProducerCell {
    /// A producer over shared memory, whose requests wake this waker's thread.
    ///
    /// # Errors
    /// The memory's size is not in [`SHARED_MEMORY`](crate::limits::SHARED_MEMORY).
    pub fn in_memory(
        words: Words,
        gate: Arc<RecordingGate>,
        waker: Waker,
        process_name: String,
    ) -> Result<Self, MemoryError> {
        Self::new(words, Queue::new(waker, gate, None), process_name)
    }

    pub(crate) fn new(words: Words, queue: Queue, process_name: String) -> Result<Self, MemoryError> {
        let no_memory = || handle_alloc_error(Layout::new::<ProducerStorage<CHUNKS, WRITERS>>());
        let storage = ProducerStorage::on_heap().unwrap_or_else(no_memory);
        let home = Home { words, storage, queue, process_name };
        let cell = Cell::try_new(home, |home| {
            let memory = shared_memory(home.words.as_ref().as_ref())?;
            let producer = Producer::new(memory, LAYOUT, &home.storage, &home.queue)?;
            home.queue.make_room(memory.chunks(LAYOUT) as usize);
            let process = process_track(std::process::id(), &home.process_name);
            Ok(Attached { producer, process })
        });
        cell.map(Self)
    }

    /// The producer.
    #[inline]
    pub fn producer(&self) -> &Producer<'_> {
        &self.0.borrow_dependent().producer
    }

    pub(crate) fn process(&self) -> &Track<'_> {
        &self.0.borrow_dependent().process
    }

    /// What its threads ask for.
    pub fn queue(&self) -> &Queue {
        &self.0.borrow_owner().queue
    }

    /// Counts a packet of a thread that has no writer for this buffer.
    #[cold]
    pub(crate) fn drop_packet(&self, target: u16) {
        self.queue().packet_dropped(0, target);
    }
}

debug_fields!(ProducerCell);

/// What the recorders of one session share.
pub struct RecorderContext {
    /// Says whether they record.
    pub gate: Arc<RecordingGate>,
    /// Where their writers come from.
    pub producer: Arc<ProducerCell>,
    /// What a thread does when shared memory is full.
    pub exhaustion: Exhaustion,
    /// The clock of their events.
    pub clock: SessionClock,
    /// For each buffer, after how many bytes a writer repeats its state.
    pub state_every: Vec<u32>,
    /// Tells a service in another process of a new writer.
    pub announce: Option<Box<dyn Fn() + Send + Sync>>,
}

debug_fields!(RecorderContext);

impl RecorderContext {
    pub(crate) fn buffer_id(&self, target: u16) -> BufferId {
        self.gate.own() | u64::from(target)
    }

    pub(crate) fn announce(&self) {
        if let Some(announce) = &self.announce {
            announce();
        }
    }
}
