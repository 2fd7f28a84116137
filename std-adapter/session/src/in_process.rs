//! The transport of this process's own threads: shared memory on the heap or in a buffer's file, requests in a queue.

use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::producer::Request;
use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};

use crate::producer_cell::{Endpoint, ProducerCell, endpoint};
use crate::transport::{CentralBuffer, Transport};

self_cell!(
    struct EndpointCell {
        owner: Arc<ProducerCell>,
        #[covariant]
        dependent: Endpoint,
    }
);

pub(crate) struct InProcess {
    endpoint: EndpointCell,
    requests: Vec<Request>,
    /// Whether it was asked for what is ready to be sent, and not all of that is in the queue.
    is_asked: bool,
}

impl InProcess {
    pub(crate) fn new(producer: Arc<ProducerCell>, identity: ProducerIdentity, buffers: u16) -> Self {
        let endpoint =
            EndpointCell::new(producer, |cell| endpoint(cell.producer().memory(), identity, buffers));
        Self { endpoint, requests: Vec::new(), is_asked: false }
    }

    fn commit(&mut self) {
        self.is_asked = !self.endpoint.borrow_owner().producer().commit();
    }
}

impl Transport for InProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        // Scraping finds chunks that another thread is sending just now, but not their patches.
        if self.is_asked {
            self.commit();
        }
        let requests = &mut self.requests;
        let came = self.endpoint.with_dependent_mut(|producer, endpoint| {
            let came = producer.queue().take(requests);
            for request in requests.drain(..) {
                // The producer is flushed by asking it, not by requests.
                let _no_flush = endpoint.carry_out_one(&request, buffers);
            }
            came
        });
        self.endpoint.borrow_owner().queue().taken(came);
        if !self.is_asked {
            flushes.answer_all();
        }
    }

    fn ask_flush(&mut self, _: u64) {
        self.commit();
    }

    fn clear_incremental_state(&mut self) {
        self.endpoint.borrow_owner().producer().clear_incremental_state();
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.scrape(buffers));
    }

    fn scrape_rests(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.scrape_rests(buffers));
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        Some(self.endpoint.borrow_dependent().identity())
    }

    fn stats(&self) -> EndpointStats {
        self.endpoint.borrow_dependent().stats()
    }

    fn packets_dropped(&self, buffer: usize) -> u64 {
        self.endpoint.borrow_owner().queue().dropped(buffer)
    }
}

#[cfg(test)]
mod tests;
