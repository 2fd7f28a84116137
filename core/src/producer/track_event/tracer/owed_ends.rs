//! Ends of slices that are lost, and are made up for so that the slices around them do not end in their place.

use super::Tracer;
use crate::producer::track_event::Clock;

impl<C: Clock, const N: usize, const T: usize> Tracer<'_, C, N, T> {
    /// How many ends of guards' slices on the tracer's own track are lost and not made up for.
    ///
    /// Where several tracers write to one track, such a slice is open for all of them. Ends have no names: what one
    /// tracer owes may be moved to the one that is next to begin or end a slice.
    #[inline]
    pub fn owed_ends(&self) -> usize {
        self.owed_ends.get()
    }

    /// Makes the tracer owe this many, and returns how many it has owed.
    pub fn replace_owed_ends(&self, ends: usize) -> usize {
        self.owed_ends.replace(ends)
    }

    /// Notes that the end of a slice on the tracer's own track is lost.
    #[cold]
    #[inline(never)]
    pub(super) fn owe_end(&self) {
        self.owed_ends.set(self.owed_ends.get().saturating_add(1));
    }

    /// Writes the lost ends. False: there is no room for them yet, and what comes next is lost like the end that was
    /// tried, which is counted in its place.
    ///
    /// Guards do so themselves; others may, before they begin or end a slice on the tracer's own track.
    #[inline]
    pub fn make_up_for_ends(&self) -> bool {
        self.owed_ends.get() == 0 || self.write_owed_ends()
    }

    #[cold]
    #[inline(never)]
    fn write_owed_ends(&self) -> bool {
        while self.owed_ends.get() != 0 {
            if !self.track().write_end() {
                return false;
            }
            // Not the number from before: while it was written, the clock or the sink may have come to another's end.
            self.owed_ends.set(self.owed_ends.get().wrapping_sub(1));
        }
        true
    }
}
