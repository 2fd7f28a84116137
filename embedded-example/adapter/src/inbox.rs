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
///
/// An interrupt that cannot be masked may record, too: what it has to say while something else is noted is noted beside
/// that. A patch is not, and counts as lost.
pub struct Inbox {
    requests: Mutex<RefCell<Requests>>,
    /// Of one that came in the midst of that. Nobody has both at a time, so one of them is always free.
    beside: Mutex<RefCell<Noted>>,
    wake: Option<fn()>,
}

struct Requests {
    noted: Noted,
    /// They have their own room: however many there are, no move is lost.
    patches: Deque<Words, { Inbox::PATCHES }>,
}

/// All but patches.
struct Noted {
    /// A chunk is in here at most once, so all have room: a chunk whose move is lost would never be free again.
    moves: Deque<Move, { Inbox::CHUNKS }>,
    /// For each writer, the chunks that will never get all of their patches.
    broken: [Option<Chunks>; Inbox::PATCHERS],
    /// The newest flush that was requested.
    flush: Option<u32>,
    losses: InboxLosses,
}

/// A chunk to move, in 16 bits: it is one of up to 32, so there are up to 32 pages of up to 14 chunks. No recorder has a
/// buffer of the highest target, which stands for those above it, too.
#[derive(Clone, Copy)]
struct Move(u16);

impl Move {
    const TARGETS: u16 = 0x7F;

    const fn of(chunk: &ChunkToMove) -> Self {
        let target = if chunk.target < Self::TARGETS { chunk.target } else { Self::TARGETS };
        Self((chunk.page as u16 & 31) << 11 | (chunk.chunk as u16 & 15) << 7 | target)
    }

    const fn chunk(self) -> ChunkToMove {
        let (page, chunk) = ((self.0 >> 11) as u32, (self.0 >> 7 & 15) as u32);
        ChunkToMove { page, chunk, target: self.0 & Self::TARGETS }
    }
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

impl Noted {
    const NOTHING: Self = Self {
        moves: Deque::new(),
        broken: [None; Inbox::PATCHERS],
        flush: None,
        losses: InboxLosses { packets: 0, patches: 0 },
    };

    fn broken(&mut self, writer_id: u16) -> Option<&mut Option<Chunks>> {
        self.broken.get_mut(usize::from(writer_id).wrapping_sub(1))
    }

    fn is_broken(&mut self, writer_id: u16, chunk_id: u32) -> bool {
        self.broken(writer_id).is_some_and(|broken| broken.is_some_and(|chunks| chunks.contains(chunk_id)))
    }

    fn lose_patch(&mut self, writer_id: u16, chunk_id: u32) {
        let this = Chunks { first: chunk_id, last: chunk_id };
        if let Some(broken) = self.broken(writer_id) {
            *broken = Some(broken.map_or(this, |chunks| chunks.with(chunk_id)));
        }
        self.losses.patches = self.losses.patches.saturating_add(1);
    }
}

impl Inbox {
    /// The most chunks that shared memory may have.
    pub const CHUNKS: usize = 32;
    /// Room for patches: a packet of three chunks needs about two, deeply nested ones more. If one does not fit, the
    /// chunk stays incomplete, and readers of its writer wait until the ring laps over it; the next packet says so.
    const PATCHES: usize = if PATCHES { 24 } else { 1 };
    /// Writers that request patches.
    const PATCHERS: usize = if PATCHES { WRITERS } else { 0 };

    /// An empty inbox, for a drain that runs often enough without being called.
    pub const fn new() -> Self {
        let requests = Requests { noted: Noted::NOTHING, patches: Deque::new() };
        Inbox {
            requests: Mutex::new(RefCell::new(requests)),
            beside: Mutex::new(RefCell::new(Noted::NOTHING)),
            wake: None,
        }
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
    /// On a Cortex-M, with the drain in the PendSV handler, this is `Inbox::with_wake(SCB::set_pendsv)`.
    pub const fn with_wake(wake: fn()) -> Self {
        let mut inbox = Self::new();
        inbox.wake = Some(wake);
        inbox
    }

    /// Runs `work` with interrupts masked; `None` in an interrupt that came all the same, while somebody else does.
    fn with<R>(&self, work: impl FnOnce(&mut Requests) -> R) -> Option<R> {
        critical_section::with(|cs| {
            self.requests.borrow(cs).try_borrow_mut().ok().map(|mut all| work(&mut all))
        })
    }

    /// The same with what is noted beside it.
    fn beside<R>(&self, work: impl FnOnce(&mut Noted) -> R) -> Option<R> {
        critical_section::with(|cs| {
            self.beside.borrow(cs).try_borrow_mut().ok().map(|mut all| work(&mut all))
        })
    }

    /// Runs `work` where there is nobody.
    fn note(&self, work: impl Fn(&mut Noted)) {
        if self.with(|requests| work(&mut requests.noted)).is_none() {
            let _ = self.beside(work);
        }
    }

    /// Takes out the oldest request, with interrupts masked. Moves come first, because a patch is sent after its chunk.
    /// A flush comes when there is nothing else.
    pub fn take(&self) -> Option<Request> {
        let chunk = self.with(|requests| requests.noted.moves.pop_front()).flatten();
        if let Some(chunk) = chunk.or_else(|| self.beside(|noted| noted.moves.pop_front()).flatten()) {
            return Some(Request::Move(chunk.chunk()));
        }
        match self.with(|requests| requests.patches.pop_front()).flatten() {
            Some(patch) => request(patch),
            None => {
                let both = [
                    self.with(|requests| requests.noted.flush.take()),
                    self.beside(|noted| noted.flush.take()),
                ];
                let newer = |a: u32, b: u32| if (b.wrapping_sub(a) as i32) < 0 { a } else { b };
                both.into_iter().flatten().flatten().reduce(newer).map(Request::Flush)
            }
        }
    }

    /// Drops what a previous recorder left, one at a time, because interrupts are masked meanwhile.
    pub(crate) fn restart(&self) {
        while self.take().is_some() {}
        let forget = |noted: &mut Noted| {
            noted.broken = [None; Inbox::PATCHERS];
            noted.losses = InboxLosses::default();
        };
        let _ = (self.with(|requests| forget(&mut requests.noted)), self.beside(forget));
    }

    /// What was lost since the start.
    pub fn losses(&self) -> InboxLosses {
        let both = [self.with(|requests| requests.noted.losses), self.beside(|noted| noted.losses)];
        both.into_iter().flatten().fold(InboxLosses::default(), |all, losses| InboxLosses {
            packets: all.packets.saturating_add(losses.packets),
            patches: all.patches.saturating_add(losses.patches),
        })
    }

    /// Notes one patch, or that it is lost: its chunk stays incomplete then.
    fn patch(&self, writer_id: u16, chunk_id: u32, patch: impl FnOnce(bool) -> Words) {
        // A patch that comes after a lost one must not complete the chunk. No other is noted in between, because commits
        // are made one at a time.
        let is_broken = self
            .with(|requests| requests.noted.is_broken(writer_id, chunk_id))
            .and_then(|is| Some(is | self.beside(|noted| noted.is_broken(writer_id, chunk_id))?));
        let is_noted = is_broken.is_some_and(|is_broken| {
            // Otherwise it is assembled where it is needed, which takes 10 instructions more there.
            let patch = core::hint::black_box(patch(is_broken));
            self.with(|requests| requests.patches.push_back(patch).is_ok()) == Some(true)
        });
        if !is_noted {
            self.note(|noted| noted.lose_patch(writer_id, chunk_id));
        }
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
        let of = |noted: &mut Noted| (noted.moves.len(), noted.flush);
        let (moves, flush) = self.with(|requests| of(&mut requests.noted)).unwrap_or_default();
        let (late, late_flush) = self.beside(of).unwrap_or_default();
        f.debug_struct("Inbox")
            .field("moves", &(moves + late))
            .field("patches", &self.with(|requests| requests.patches.len()).unwrap_or_default())
            .field("flush", &flush.or(late_flush))
            .field("losses", &self.losses())
            .field("wakes", &self.wake.is_some())
            .finish()
    }
}

impl CommitSink for Inbox {
    /// Interrupts are masked for one push at a time.
    fn commit(&self, request: &CommitRequest<'_>) {
        // Not with `each`: this way 16 chunks take 230 instructions less on a Cortex-M4.
        for chunk in request.chunks_to_move {
            let chunk = Move::of(chunk);
            self.note(|noted| _ = noted.moves.push_back(chunk));
        }
        for chunk in request.chunks_to_patch {
            let last = chunk.patches.len().saturating_sub(1);
            for (i, patch) in chunk.patches.iter().enumerate() {
                let ChunkToPatch { writer_id, target, chunk_id, .. } = *chunk;
                self.patch(writer_id, chunk_id, |is_broken| {
                    let (patch, has_more) =
                        (ChunkPatch { chunk_id, ..*patch }, chunk.has_more || i < last || is_broken);
                    words(Request::Patch { writer_id, target, patch, has_more })
                });
            }
        }
        if request.flush != 0 {
            self.note(|noted| noted.flush = Some(request.flush));
        }
        // With interrupts as they were: if the drain has a higher priority than this writer, it runs at once.
        if let Some(wake) = self.wake {
            wake();
        }
    }

    fn packet_dropped(&self, _writer_id: u16, _target: u16) {
        self.note(|noted| noted.losses.packets = noted.losses.packets.saturating_add(1));
    }

    /// The writer has interrupted the drain, or is the drain: waiting would be in vain.
    fn stall(&self, _step: u32, _micros: u32) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_told_in_16_bits() {
        for (page, chunk, target) in [(0, 0, 0), (31, 13, 0), (17, 3, 126), (31, 0, 127)] {
            let chunk = ChunkToMove { page, chunk, target };
            assert_eq!(Move::of(&chunk).chunk(), chunk);
        }
        assert_eq!(Move::of(&ChunkToMove { page: 1, chunk: 2, target: 0x8001 }).chunk().target, 127);
    }

    /// As an interrupt that cannot be masked does it, whatever it interrupts.
    #[test]
    fn what_comes_while_something_is_noted_is_noted_or_counted() {
        let inbox = Inbox::new();
        let moves = |first: u32| [first, first + 1].map(|page| ChunkToMove { page, chunk: 0, target: 0 });
        let say = |page, chunk_id, flush| {
            let patches = [ChunkPatch { chunk_id, offset: 8, data: [0; 4] }];
            let patches =
                ChunkToPatch { writer_id: 1, target: 0, chunk_id, patches: &patches, has_more: false };
            let (chunks_to_move, chunks_to_patch) = (&moves(page)[..], &[patches][..]);
            inbox.commit(&CommitRequest { chunks_to_move, chunks_to_patch, flush });
            inbox.packet_dropped(1, 0);
        };
        let has_more = |request| match request {
            Some(Request::Patch { patch, has_more, .. }) => (patch.chunk_id, has_more),
            other => panic!("{other:?}"),
        };
        critical_section::with(|cs| {
            let _held = inbox.requests.borrow(cs).borrow_mut();
            assert_eq!(inbox.take(), None);
            say(4, 7, 1);
        });
        critical_section::with(|cs| {
            let _held = inbox.beside.borrow(cs).borrow_mut();
            say(0, 8, 2);
        });
        assert_eq!(inbox.losses(), InboxLosses { packets: 2, patches: 2 });
        say(2, 7, 3);
        let told: [_; 6] = core::array::from_fn(|_| inbox.take());
        assert_eq!(
            told,
            [0, 1, 2, 3, 4, 5].map(|page| Some(Request::Move(ChunkToMove { page, chunk: 0, target: 0 })))
        );
        assert_eq!(has_more(inbox.take()), (7, true), "one before it was lost");
        assert_eq!([inbox.take(), inbox.take()], [Some(Request::Flush(3)), None]);
        inbox.restart();
        assert_eq!(inbox.losses(), InboxLosses::default());
    }
}
