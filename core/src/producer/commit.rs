//! Commit requests, and the sink that takes them to the service.

use super::patch_list::ChunkPatch;

/// A complete chunk that the service may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkToMove {
    /// The page in shared memory.
    pub page: u32,
    /// The chunk in the page.
    pub chunk: u32,
    /// The central buffer that the writer writes to.
    pub target: u16,
}

/// Size fields of one chunk that was sent before, or is sent in the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkToPatch<'r> {
    /// The writer of the chunk.
    pub writer_id: u16,
    /// The central buffer that the writer writes to.
    pub target: u16,
    /// The chunk, in the writer's sequence.
    pub chunk_id: u32,
    /// What to write, all in this chunk.
    pub patches: &'r [ChunkPatch],
    /// Whether more patches of this chunk will follow: it stays incomplete until then.
    pub has_more: bool,
}

/// One message from a producer to its service: moves, then patches, then the flush. Requests of one producer must be
/// carried out in the order they were made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitRequest<'r> {
    /// Chunks to move, oldest first; those of one writer in the order of their ids.
    pub chunks_to_move: &'r [ChunkToMove],
    /// Chunks to patch; a producer sends one at a time, of any of its writers.
    pub chunks_to_patch: &'r [ChunkToPatch<'r>],
    /// If not 0: call [`Producer::flushed`](super::Producer::flushed) with this number when all this is done.
    pub flush: u32,
}

/// The way to the service: a function call, a queue, a socket. Implemented by the user.
///
/// Where the service is a call away, its end of the producer [carries requests
/// out](crate::service::ProducerEndpoint::carry_out) as they come. A queue takes next to nothing of a traced thread's
/// time; it must pass on all that comes, because packets whose patches or registrations are left out are lost, and no
/// counter knows.
///
/// Any thread or interrupt that has a writer calls it: [`commit`](Self::commit) and
/// [`unregister_writer`](Self::unregister_writer) one at a time and never within each other, the others at any time.
/// None may panic and be unwound: that request and those after it would not be sent again.
///
/// ```
/// use std::sync::mpsc::Sender;
/// use tracebuf::producer::{CommitRequest, CommitSink, Request};
///
/// /// To the service's thread.
/// struct Queue(Sender<Request>);
///
/// impl Queue {
///     fn push(&self, request: Request) {
///         // Without a service there is nobody to tell.
///         let _ = self.0.send(request);
///     }
/// }
///
/// impl CommitSink for Queue {
///     fn commit(&self, request: &CommitRequest<'_>) {
///         request.each().for_each(|request| self.push(request));
///     }
///
///     fn register_writer(&self, writer_id: u16, target: u16) {
///         self.push(Request::Register { writer_id, target });
///     }
///
///     fn unregister_writer(&self, writer_id: u16) {
///         self.push(Request::Unregister { writer_id });
///     }
/// }
/// ```
pub trait CommitSink {
    /// Passes a request on. It must not be lost; what it says is not said again.
    fn commit(&self, request: &CommitRequest<'_>);

    /// A writer starts: from now on, the service scrapes its chunks to that buffer, even when the producer goes away.
    /// From a writer that it was not told of, the service takes only what is [committed](Self::commit).
    fn register_writer(&self, _writer_id: u16, _target: u16) {}

    /// A writer ended; its chunks have all been sent. Called by whoever sent the last of them. Its id may start again.
    fn unregister_writer(&self, _writer_id: u16) {}

    /// A packet was given up when the writer had no chunk. The writer's next packet reports it; if there is none, this
    /// call is the only report.
    fn packet_dropped(&self, _writer_id: u16, _target: u16) {}

    /// A function that has each thread with a writer pass a full memory fence, as Linux's `membarrier` does for a
    /// process, and returns whether that was done. With one, chunks of idle writers are taken back when there are few
    /// others; whoever sends then calls it. Without, as by default, writers keep their chunks however long they write
    /// nothing.
    #[cfg(not(tracebuf_small))]
    fn thread_fence(&self) -> Option<fn() -> bool> {
        None
    }

    /// Shared memory is full and a writer stalls: let the service run for about `micros` microseconds.
    ///
    /// `step` counts the calls for one chunk, from 0; `micros` is 0 at first, then 1, 3, 6, … up to 100 ms.
    /// Returning false gives the packet up at once. The default returns after one hint to the processor that it spins,
    /// which suits a service on another core. Threads sleep, a microcontroller runs its drain task.
    fn stall(&self, _step: u32, _micros: u32) -> bool {
        core::hint::spin_loop();
        true
    }
}
