//! What is left to do after an event.

use super::{Recording, ThreadTracer};

/// When dropped, does what is left to do after an event: seldom anything, so it is not dropped if there is nothing.
pub(super) struct Afterwards<'r>(pub(super) &'r Recording);

impl Drop for Afterwards<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let left = |tracer: &ThreadTracer<'_>| (tracer.reentered(), tracer.owed_ends());
        let (reentered, owed) = self.0.tracer.with_dependent(|_, tracer| left(tracer));
        self.0.count_skipped(reentered);
        self.0.owe(owed);
    }
}

impl Recording {
    /// Counts events inside another one's writing, which only the tracer has counted so far.
    fn count_skipped(&self, reentered: usize) {
        let producer = &self.tracer.borrow_owner().borrow_owner().producer;
        for _ in 0..reentered.wrapping_sub(self.told.replace(reentered)) {
            producer.drop_packet(self.target);
        }
    }
}
