//! What writers tell the drain, each in its own time.

use core::cell::RefCell;
use critical_section::Mutex;
use heapless::Deque;
use tracebuf::producer::{ChunkToMove, CommitRequest, CommitSink, Patch};

/// What writers have completed and the drain has yet to see to.
///
/// ```
/// use tracebuf_firmware::recorder::Inbox;
///
/// static INBOX: Inbox = Inbox::new();
/// ```
pub struct Inbox {
    requests: Mutex<RefCell<Requests>>,
}

/// Each with room of its own: however many patches there are, no move is lost.
struct Requests {
    /// A chunk is in here once at most, so all have room: one whose move is lost is never free again.
    moves: Deque<ChunkToMove, { Inbox::CHUNKS }>,
    patches: Deque<Request, { Inbox::PATCHES }>,
}

/// One thing that a writer asks for.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// To move a chunk into the ring.
    Move(ChunkToMove),
    /// To patch a chunk there.
    Patch {
        /// Whose chunk it is.
        writer_id: u16,
        /// The buffer; there is but one.
        target: u16,
        /// Chunk, place and bytes.
        patch: Patch,
        /// Whether the chunk has to wait for others.
        has_more: bool,
    },
}

impl Inbox {
    /// The most chunks that shared memory may have.
    pub const CHUNKS: usize = 32;
    /// Room for patches: a packet of three chunks needs about two. Of packets that are nested deeply, some may
    /// not fit. Then the chunk stays incomplete, and readers of its writer wait until the ring laps over it; the
    /// next packet says so.
    const PATCHES: usize = 24;

    /// An empty one.
    pub const fn new() -> Self {
        let requests = Requests { moves: Deque::new(), patches: Deque::new() };
        Inbox { requests: Mutex::new(RefCell::new(requests)) }
    }

    /// With interrupts masked.
    fn with<R>(&self, work: impl FnOnce(&mut Requests) -> R) -> R {
        critical_section::with(|cs| work(&mut self.requests.borrow_ref_mut(cs)))
    }

    /// Takes the oldest request out, with interrupts masked. Moves come first: a patch is sent after its chunk.
    pub fn take(&self) -> Option<Request> {
        self.with(|requests| {
            requests.moves.pop_front().map(Request::Move).or_else(|| requests.patches.pop_front())
        })
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitSink for Inbox {
    /// Interrupts are masked for one push at a time.
    fn commit(&self, request: &CommitRequest<'_>) {
        for chunk in request.chunks_to_move {
            let _ = self.with(|requests| requests.moves.push_back(*chunk));
        }
        for chunk in request.chunks_to_patch {
            let last = chunk.patches.len().saturating_sub(1);
            for (i, patch) in chunk.patches.iter().enumerate() {
                let request = Request::Patch {
                    writer_id: chunk.writer_id,
                    target: chunk.target,
                    patch: *patch,
                    has_more: chunk.has_more || i < last,
                };
                // Full: see PATCHES.
                let _ = self.with(|requests| requests.patches.push_back(request));
            }
        }
    }
}
