//! `Need`: when chunks are to be taken back from writers that write nothing.

use super::atomics::{AtomicU32, Ordering, const_fn};

/// How many chunks writers take, and how often there was none.
pub(crate) struct Need {
    /// Chunks that writers took, modulo 2³².
    acquired: AtomicU32,
    /// That number when a sender last looked for chunks to take.
    looked: AtomicU32,
    /// How often there was no free chunk since some were taken back.
    starved: AtomicU32,
    /// Whether the next sender is to take all it can get.
    all: AtomicU32,
}

/// How many chunks to take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Those to which nothing was written since a sender last looked.
    Unused,
    /// All in which nobody writes just then.
    All,
}

/// Of so many times without a free chunk, once somebody looks; the first times, each power of two.
const SELDOM: u32 = 64;

impl Need {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Need {
                acquired: AtomicU32::new(0),
                looked: AtomicU32::new(0),
                starved: AtomicU32::new(0),
                all: AtomicU32::new(0),
            }
        }
    }

    /// Notes that a writer has taken a chunk.
    pub(crate) fn one_more(&self) {
        self.acquired.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether writers hold more than a quarter of so many chunks, and half as many were taken since somebody looked;
    /// given how many they have completed in all.
    pub(crate) fn is_crowded(&self, chunks: u32, completed: u32) -> bool {
        let acquired = self.acquired.load(Ordering::Relaxed);
        let since = acquired.wrapping_sub(self.looked.load(Ordering::Relaxed));
        acquired.wrapping_sub(completed) as i32 > (chunks / 4) as i32 && since > chunks / 8
    }

    /// Notes that there is no free chunk. False: that was so a moment ago, and nothing was found to take back.
    pub(crate) fn starve(&self, has_waited: bool) -> bool {
        let starved = self.starved.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let may_look = has_waited || starved.is_power_of_two() || starved.is_multiple_of(SELDOM);
        if may_look {
            self.all.store(1, Ordering::Relaxed);
        }
        may_look
    }

    /// Whether to take chunks now, and which; for the sender, who does so.
    pub(crate) fn look(&self, chunks: u32, completed: u32) -> Option<Take> {
        let take = match self.all.load(Ordering::Relaxed) {
            0 if !self.is_crowded(chunks, completed) => return None,
            0 => Take::Unused,
            _ => Take::All,
        };
        self.all.store(0, Ordering::Relaxed);
        self.looked.store(self.acquired.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(take)
    }

    /// Notes that some were found.
    pub(crate) fn found(&self) {
        self.starved.store(0, Ordering::Relaxed);
    }
}
