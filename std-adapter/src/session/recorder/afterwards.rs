//! What an event leaves to do.

use super::{Recording, ThreadTracer};

/// Does when dropped what an event has left to do: seldom anything, so it is not dropped where there is nothing.
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
    /// Events inside the writing of another one are counted by the tracer, and nothing else tells of them.
    fn count_skipped(&self, reentered: usize) {
        let producer = &self.tracer.borrow_owner().borrow_owner().producer;
        for _ in 0..reentered.wrapping_sub(self.told.replace(reentered)) {
            producer.drop_packet(self.target);
        }
    }
}
