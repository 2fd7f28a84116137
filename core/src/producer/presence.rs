//! `Presence`: whether a writer writes just now, for those who would take its chunk back.
//!
//! A writer says that it is in its chunk with a plain store, and looks whether somebody is about to take the chunk. Who
//! takes chunks asks first, and then looks whether the writer is in it. Each must see what the other one has said, or
//! both would go on. The fence that this needs is where it is seldom passed: on the taker's side, which has all threads
//! pass one ([`CommitSink::thread_fence`](super::CommitSink::thread_fence)). A writer only keeps its compiler from
//! changing the order.

use super::atomics::{AtomicU32, Ordering, const_fn, light_fence};

/// What a writer and a taker tell one another. On microcontrollers nothing is taken back, and nothing is told.
#[cfg_attr(all(feature = "std", not(any(loom, test))), derive(zerocopy::FromZeros))]
pub(crate) struct Presence {
    /// 1 while the writer is in its chunk.
    inside: AtomicU32,
    /// [`LEFT_ALONE`], [`ASKED`] or [`TAKEN`].
    question: AtomicU32,
    /// One more than the writer's current chunk, or 0.
    chunk: AtomicU32,
    /// How far the writer had come when a taker last came by.
    seen: AtomicU32,
}

const LEFT_ALONE: u32 = 0;
/// A taker would like to have the chunk. Set by the taker only.
const ASKED: u32 = 1;
/// The chunk is the taker's. The writer takes this back when it hears of it.
const TAKEN: u32 = 2;

impl Presence {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Presence {
                inside: AtomicU32::new(0),
                question: AtomicU32::new(LEFT_ALONE),
                chunk: AtomicU32::new(0),
                seen: AtomicU32::new(0),
            }
        }
    }

    /// Notes that the writer is in its chunk. True: somebody would like to have that, or has taken it.
    #[inline(always)]
    pub(crate) fn enter(&self) -> bool {
        self.inside.store(1, Ordering::Relaxed);
        light_fence();
        self.question.load(Ordering::Relaxed) != LEFT_ALONE
    }

    /// Notes that the writer has nothing open in its chunk. Release: who takes it finds all that was written.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.inside.store(0, Ordering::Release);
    }

    /// Keeps the chunk if it was only asked for. True: it was taken.
    pub(crate) fn is_taken(&self) -> bool {
        let kept = self.question.compare_exchange(ASKED, LEFT_ALONE, Ordering::AcqRel, Ordering::Acquire);
        let is_taken = kept == Err(TAKEN);
        if is_taken {
            self.set_chunk(None);
            self.question.store(LEFT_ALONE, Ordering::Release);
        }
        is_taken
    }

    /// Notes which chunk the writer writes.
    pub(crate) fn set_chunk(&self, chunk: Option<u32>) {
        self.chunk.store(chunk.map_or(0, |chunk| chunk.wrapping_add(1)), Ordering::Relaxed);
    }

    /// The chunk, if the writer has one and is not in it, as far as can be seen without a fence.
    pub(super) fn idle_chunk(&self) -> Option<u32> {
        let is_idle = self.inside.load(Ordering::Acquire) == 0;
        let chunk = self.chunk.load(Ordering::Relaxed).checked_sub(1);
        chunk.filter(|_| is_idle)
    }

    /// Whether the writer has come no further since a taker last asked.
    pub(super) fn is_where_it_was(&self, now: u32) -> bool {
        self.seen.load(Ordering::Relaxed) == now || {
            self.seen.store(now, Ordering::Relaxed);
            false
        }
    }

    /// Asks for the chunk. False: the one before was taken, and the writer has not heard of it.
    pub(super) fn ask(&self) -> bool {
        // Acquire: the chunk is looked up again, and then it is not the one that was taken.
        self.question.compare_exchange(LEFT_ALONE, ASKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.question.load(Ordering::Relaxed) == ASKED
    }

    /// Leaves the chunk to its writer.
    pub(super) fn take_back_question(&self) {
        // The writer may have done so itself.
        let _ = self.question.compare_exchange(ASKED, LEFT_ALONE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the chunk that was asked for, unless the writer came back to it since it was last seen outside.
    pub(super) fn take(&self) -> bool {
        self.question.compare_exchange(ASKED, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
