//! The recorder: writers in front, shared memory between, the ring behind, all in one region.
//!
//! Writers run at any priority and never wait. What they complete is noted in the [`Inbox`]; the drain, at the
//! lowest priority, moves it into the ring. In a program without tasks the drain is part of the main loop, as
//! here, or the PendSV handler; under an RTOS it is the task of the lowest priority, woken from
//! [`CommitSink::commit`].

use core::cell::RefCell;
use critical_section::Mutex;
use heapless::Deque;
use tracebuf::buffer::{Config, FillPolicy, RegionError, TraceBuffer};
use tracebuf::producer::{
    ChunkToMove, ChunkToPatch, CommitRequest, CommitSink, Consumer, Layout, MemoryError, Patch, Producer,
    ProducerStorage, SharedMemory, atomic_words,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

/// Writers at a time: one for each priority that traces.
pub const WRITERS: usize = 4;
/// Bytes of a chunk of shared memory; each writer holds one, and two while a packet spans them.
const CHUNK: u32 = 128;

/// What writers have completed and the drain has yet to see to.
///
/// ```
/// use tracebuf_firmware::recorder::Inbox;
///
/// static INBOX: Inbox = Inbox::new();
/// ```
pub struct Inbox {
    requests: Mutex<RefCell<Deque<Request, { Inbox::CHUNKS + Inbox::PATCHES }>>>,
}

#[derive(Clone, Copy)]
enum Request {
    Move(ChunkToMove),
    Patch { writer_id: u16, target: u16, patch: Patch, has_more: bool },
}

impl Inbox {
    /// The most chunks that shared memory may have.
    pub const CHUNKS: usize = 32;
    /// Room for patches. Each chunk is in the inbox once, so only patches can find it full; the packet that
    /// one was for is then lost, and counted so when its chunk is overwritten.
    const PATCHES: usize = 8;

    /// An empty one.
    pub const fn new() -> Self {
        Inbox { requests: Mutex::new(RefCell::new(Deque::new())) }
    }

    /// Interrupts are masked for the time of one `push`.
    fn push(&self, request: Request) {
        critical_section::with(|cs| {
            // Full: see PATCHES.
            let _ = self.requests.borrow_ref_mut(cs).push_back(request);
        });
    }

    fn pop(&self) -> Option<Request> {
        critical_section::with(|cs| self.requests.borrow_ref_mut(cs).pop_front())
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitSink for Inbox {
    fn commit(&self, request: &CommitRequest<'_>) {
        for chunk in request.chunks_to_move {
            self.push(Request::Move(*chunk));
        }
        for chunk in request.chunks_to_patch {
            let last = chunk.patches.len().saturating_sub(1);
            for (i, patch) in chunk.patches.iter().enumerate() {
                self.push(Request::Patch {
                    writer_id: chunk.writer_id,
                    target: chunk.target,
                    patch: *patch,
                    has_more: chunk.has_more || i < last,
                });
            }
        }
    }
}

/// The drain and the ring.
pub struct Recorder<'a> {
    endpoint: ProducerEndpoint<'a, WRITERS>,
    inbox: &'a Inbox,
    buffers: [TraceBuffer<&'a mut [u8]>; 1],
}

/// Why a region cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderError {
    /// Its part for shared memory, a quarter.
    SharedMemory(MemoryError),
    /// Its part for the ring.
    Ring(RegionError),
}

impl<'a> Recorder<'a> {
    /// Divides a region: a quarter of it, up to 4 KiB, is shared memory, the rest is the ring.
    ///
    /// # Errors
    /// [`RecorderError`] below about 1.5 KiB.
    pub fn new(
        region: &'a mut [u64],
        storage: &'a ProducerStorage<{ Inbox::CHUNKS }, WRITERS>,
        inbox: &'a Inbox,
    ) -> Result<(Producer<'a>, Self), RecorderError> {
        let most = Inbox::CHUNKS * CHUNK as usize / size_of::<u64>();
        let (shared, ring) = region.split_at_mut_checked((region.len() / 4).min(most)).unwrap_or_default();
        let memory =
            SharedMemory::new(atomic_words(words(shared)), CHUNK).map_err(RecorderError::SharedMemory)?;
        let producer =
            Producer::new(memory, Layout::One, storage, inbox).map_err(RecorderError::SharedMemory)?;
        let config = Config::new(FillPolicy::RingBuffer).sequences(WRITERS as u16);
        let buffer = TraceBuffer::new(bytes(ring), config).map_err(RecorderError::Ring)?;
        let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: -1 };
        let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
        endpoint.allow(0);
        for writer in 1..=WRITERS as u16 {
            endpoint.register_writer(writer, 0);
        }
        Ok((producer, Recorder { endpoint, inbox, buffers: [buffer] }))
    }

    /// Moves what writers have completed into the ring.
    pub fn drain(&mut self) {
        while let Some(request) = self.inbox.pop() {
            match request {
                Request::Move(chunk) => {
                    let chunks_to_move = &[chunk];
                    self.carry_out(&CommitRequest { chunks_to_move, ..CommitRequest::default() });
                }
                Request::Patch { writer_id, target, patch, has_more } => {
                    let chunk_id = patch.chunk_id;
                    let patches = &[patch];
                    let chunks_to_patch = &[ChunkToPatch { writer_id, target, chunk_id, patches, has_more }];
                    self.carry_out(&CommitRequest { chunks_to_patch, ..CommitRequest::default() });
                }
            }
        }
    }

    fn carry_out(&mut self, request: &CommitRequest<'_>) {
        self.endpoint.carry_out(request, &mut self.buffers);
    }

    /// Also copies finished packets of chunks that are still being written: for the last export, or when
    /// something went wrong.
    pub fn scrape(&mut self) {
        self.drain();
        self.endpoint.scrape(&mut self.buffers);
    }

    /// The ring.
    pub fn buffer(&mut self) -> &mut TraceBuffer<&'a mut [u8]> {
        let [buffer] = &mut self.buffers;
        buffer
    }
}

/// A region's part as words for shared memory.
fn words(part: &mut [u64]) -> &mut [u32] {
    // SAFETY: every 8 bytes of initialised memory are two `u32`, whatever they hold.
    #[allow(unsafe_code)]
    unsafe {
        part.align_to_mut().1
    }
}

/// A region's part as bytes for the ring.
fn bytes(part: &mut [u64]) -> &mut [u8] {
    // SAFETY: every 8 bytes of initialised memory are eight `u8`, whatever they hold.
    #[allow(unsafe_code)]
    unsafe {
        part.align_to_mut().1
    }
}
