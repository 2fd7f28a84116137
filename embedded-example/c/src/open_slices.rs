//! Which of a writer's open slices have begun: the end of one whose begin is lost would end the slice around it.

use core::cell::Cell;

/// A stack of 32 slices. Those deeper count as begun.
#[derive(Debug, Default)]
pub(crate) struct OpenSlices {
    depth: Cell<u32>,
    /// One bit for each depth: whether the begin is lost.
    lost: Cell<u32>,
}

impl OpenSlices {
    /// A slice begins, or its begin is lost.
    pub(crate) fn push(&self, has_begun: bool) {
        let depth = self.depth.get();
        let bit = 1_u32.checked_shl(depth).unwrap_or(0);
        let lost = if has_begun { 0 } else { bit };
        self.lost.set(self.lost.get() | lost);
        self.depth.set(depth.saturating_add(1));
    }

    /// A slice ends. Returns whether it has begun, which one without a begin here has elsewhere.
    pub(crate) fn pop(&self) -> bool {
        let depth = self.depth.get().saturating_sub(1);
        let (bit, lost) = (1_u32.checked_shl(depth).unwrap_or(0), self.lost.get());
        self.depth.set(depth);
        self.lost.set(lost & !bit);
        lost & bit == 0
    }
}
