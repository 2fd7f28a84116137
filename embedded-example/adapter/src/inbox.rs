//! The inbox: requests of writers to the drain.

use core::cell::RefCell;
use core::fmt;
use critical_section::Mutex;
use heapless::Deque;
use tracebuf::producer::{
    ChunkPatch, ChunkToMove, ChunkToPatch, CommitRequest, CommitSink, PATCHES, Request,
};

/// Writers at a time: one for each priority that traces.
pub const WRITERS: usize = 4;

/// Requests of writers that the drain has not handled yet.
pub struct Inbox {
    requests: Mutex<RefCell<Requests>>,
    wake: Option<fn()>,
}

/// Each kind has its own room: however many patches there are, no move is lost.
struct Requests {
    /// A chunk is in here at most once, so all have room: a chunk whose move is lost would never be free again.
    moves: Deque<ChunkToMove, { Inbox::CHUNKS }>,
    patches: Deque<Words, { Inbox::PATCHES }>,
    /// For each writer, the chunks that will never get all of their patches.
    broken: [Option<Chunks>; Inbox::PATCHERS],
    /// The newest flush that was requested.
    flush: Option<u32>,
    losses: InboxLosses,
}

/// A patch as its request, which is assembled and inspected while interrupts are not masked: noting one masks them for
/// 37 instructions instead of 73.
type Words = [u32; Request::BYTES / 4];

const fn words(request: Request) -> Words {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = request.to_bytes();
    [
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
        u32::from_le_bytes([i, j, k, l]),
        u32::from_le_bytes([m, n, o, p]),
    ]
}

fn request([a, b, c, d]: Words) -> Option<Request> {
    let [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]] = [a, b, c, d].map(u32::to_le_bytes);
    Request::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

/// Losses before the ring, which nothing in the ring reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxLosses {
    /// Packets that writers gave up when they had no chunk.
    pub packets: u32,
    /// Patches for which the inbox had no room: their chunks stay incomplete.
    pub patches: u32,
}

/// Some chunks of a writer, from the oldest to the newest.
#[derive(Clone, Copy)]
struct Chunks {
    first: u32,
    last: u32,
}

impl Chunks {
    fn contains(&self, chunk_id: u32) -> bool {
        chunk_id.wrapping_sub(self.first) <= self.last.wrapping_sub(self.first)
    }

    /// Extended to include this chunk, and those between.
    fn with(self, chunk_id: u32) -> Self {
        if self.contains(chunk_id) {
            self
        } else if (chunk_id.wrapping_sub(self.last) as i32) > 0 {
            Chunks { last: chunk_id, ..self }
        } else {
            Chunks { first: chunk_id, ..self }
        }
    }
}

impl Requests {
    fn broken(&mut self, writer_id: u16) -> Option<&mut Option<Chunks>> {
        self.broken.get_mut(usize::from(writer_id).wrapping_sub(1))
    }

    fn is_broken(&mut self, writer_id: u16, chunk_id: u32) -> bool {
        self.broken(writer_id).is_some_and(|broken| broken.is_some_and(|chunks| chunks.contains(chunk_id)))
    }

    fn push_patch(&mut self, writer_id: u16, chunk_id: u32, patch: Words) {
        if self.patches.push_back(patch).is_err() {
            let this = Chunks { first: chunk_id, last: chunk_id };
            if let Some(broken) = self.broken(writer_id) {
                *broken = Some(broken.map_or(this, |chunks| chunks.with(chunk_id)));
            }
            self.losses.patches = self.losses.patches.saturating_add(1);
        }
    }
}

impl Inbox {
    /// The most chunks that shared memory may have.
    pub const CHUNKS: usize = 32;
    /// Room for patches: a packet of three chunks needs about two. With deeply nested packets, some may not fit. Then
    /// the chunk stays incomplete, and readers of its writer wait until the ring laps over it; the next packet says so.
    /// If nobody requests patches, this is the smallest possible.
    const PATCHES: usize = if PATCHES { 24 } else { 1 };
    /// Writers that request patches.
    const PATCHERS: usize = if PATCHES { WRITERS } else { 0 };

    /// An empty inbox, for a drain that runs often enough without being called.
    pub const fn new() -> Self {
        Self::empty(None)
    }

    /// An empty inbox that calls `wake` when something was put into it: mainly when half of shared memory waits to be
    /// moved, and when a writer is flushed.
    ///
    /// `wake` pends an interrupt of the lowest priority, in which the drain runs, or gives the semaphore that the
    /// drain's task takes. It runs within an event or a flush, at any priority that traces: it must be short and
    /// neither wait, nor drain, nor trace. It is not called again for what lies there already, so a drain that could
    /// not handle that must come back by itself.
    ///
    /// The drain comes in time if what is written above its priority until it runs fits into the other half of shared
    /// memory, less a chunk for each writer. With four writers that is no chunk in a region of 4 KiB, 4 chunks in one
    /// of 8 KiB and 12 from 16 KiB on; an event that starts the state anew takes about two. With fewer than two chunks
    /// for each writer a timer must call the drain, too.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicBool, Ordering};
    /// use tracebuf_embedded::recorder::Inbox;
    ///
    /// // On a Cortex-M, with the drain in the PendSV handler: Inbox::with_wake(SCB::set_pendsv)
    /// static DRAIN: AtomicBool = AtomicBool::new(false);
    /// static INBOX: Inbox = Inbox::with_wake(|| DRAIN.store(true, Ordering::Release));
    /// ```
    pub const fn with_wake(wake: fn()) -> Self {
        Self::empty(Some(wake))
    }

    const fn empty(wake: Option<fn()>) -> Self {
        let requests = Requests {
            moves: Deque::new(),
            patches: Deque::new(),
            broken: [None; Inbox::PATCHERS],
            flush: None,
            losses: InboxLosses { packets: 0, patches: 0 },
        };
        Inbox { requests: Mutex::new(RefCell::new(requests)), wake }
    }

    /// Runs `work` with interrupts masked.
    fn with<R>(&self, work: impl FnOnce(&mut Requests) -> R) -> R {
        critical_section::with(|cs| work(&mut self.requests.borrow_ref_mut(cs)))
    }

    /// Takes out the oldest request, with interrupts masked. Moves come first, because a patch is sent after its chunk.
    /// A flush comes when there is nothing else.
    pub fn take(&self) -> Option<Request> {
        let mut patch = None;
        let other = self.with(|requests| {
            let first = requests.moves.pop_front();
            if first.is_none() {
                patch = requests.patches.pop_front();
            }
            match (first, patch) {
                (Some(chunk), _) => Some(Request::Move(chunk)),
                (None, Some(_)) => None,
                (None, None) => requests.flush.take().map(Request::Flush),
            }
        });
        other.or_else(|| request(patch?))
    }

    /// Starts over, for a recorder whose chunks all have room: the content is a previous recorder's. One at a time,
    /// because interrupts are masked meanwhile.
    pub(crate) fn restart(&self) {
        while self.take().is_some() {}
        self.with(|requests| {
            requests.broken = [None; Inbox::PATCHERS];
            requests.losses = InboxLosses::default();
        });
    }

    /// What was lost since the start.
    pub fn losses(&self) -> InboxLosses {
        self.with(|requests| requests.losses)
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows how much there is; interrupts are masked for counting, not for formatting.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (moves, patches, flush, losses) = self
            .with(|requests| (requests.moves.len(), requests.patches.len(), requests.flush, requests.losses));
        f.debug_struct("Inbox")
            .field("moves", &moves)
            .field("patches", &patches)
            .field("flush", &flush)
            .field("losses", &losses)
            .field("wakes", &self.wake.is_some())
            .finish()
    }
}

impl CommitSink for Inbox {
    /// Interrupts are masked for one push at a time.
    fn commit(&self, request: &CommitRequest<'_>) {
        // Not with `each`: this way 16 chunks take 230 instructions less on a Cortex-M4.
        for chunk in request.chunks_to_move {
            // Field by field: built for size, it would otherwise be copied by a function, with interrupts masked.
            let ChunkToMove { page, chunk, target } = *chunk;
            let _ = self.with(|requests| requests.moves.push_back(ChunkToMove { page, chunk, target }));
        }
        for chunk in request.chunks_to_patch {
            let last = chunk.patches.len().saturating_sub(1);
            for (i, patch) in chunk.patches.iter().enumerate() {
                let ChunkToPatch { writer_id, target, chunk_id, .. } = *chunk;
                // A patch that comes after a lost one must not complete the chunk. No other is noted in between,
                // because commits are made one at a time.
                let is_broken = self.with(|requests| requests.is_broken(writer_id, chunk_id));
                let (patch, has_more) =
                    (ChunkPatch { chunk_id, ..*patch }, chunk.has_more || i < last || is_broken);
                let patch = words(Request::Patch { writer_id, target, patch, has_more });
                // Otherwise it is assembled where it is needed, which takes 10 instructions more there.
                let patch = core::hint::black_box(patch);
                self.with(|requests| requests.push_patch(writer_id, chunk_id, patch));
            }
        }
        if request.flush != 0 {
            self.with(|requests| requests.flush = Some(request.flush));
        }
        // With interrupts as they were: if the drain has a higher priority than this writer, it runs at once.
        if let Some(wake) = self.wake {
            wake();
        }
    }

    fn packet_dropped(&self, _writer_id: u16, _target: u16) {
        self.with(|requests| requests.losses.packets = requests.losses.packets.saturating_add(1));
    }

    /// The writer has interrupted the drain, or is the drain: waiting would be in vain.
    fn stall(&self, _step: u32, _micros: u32) -> bool {
        false
    }
}
