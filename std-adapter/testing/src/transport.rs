//! A producer without shared memory.

use tracebuf::service::{EndpointStats, FlushTracker};
use tracebuf_session::{CentralBuffer, Transport};

/// Does this to the buffers on the drain thread each time it is asked for its chunks, and goes when that returns false.
pub struct Does<F> {
    work: F,
    stays: bool,
}

impl<F: FnMut(&mut [CentralBuffer]) -> bool> Does<F> {
    pub fn new(work: F) -> Self {
        Does { work, stays: true }
    }
}

impl<F: FnMut(&mut [CentralBuffer]) -> bool + Send> Transport for Does<F> {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        flushes.answer_all();
        self.stays = (self.work)(buffers);
    }

    fn ask_flush(&mut self, _: u64) {}

    fn scrape(&mut self, _: &mut [CentralBuffer]) {}

    fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }

    fn is_connected(&self) -> bool {
        self.stays
    }
}
