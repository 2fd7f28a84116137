//! The transport of this process's own threads: shared memory on the heap or in a buffer's file, requests in a queue.

use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::producer::Request;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use crate::producer_cell::{Endpoint, ProducerCell, endpoint};
use crate::transport::{CentralBuffer, Transport};

self_cell!(
    struct EndpointCell {
        owner: Arc<ProducerCell>,
        #[covariant]
        dependent: Endpoint,
    }
);

/// The drain thread's end.
pub(crate) struct InProcess {
    endpoint: EndpointCell,
    /// The queue's other vector.
    requests: Vec<Request>,
    /// Whether everything that was ready to be sent at the last flush was in the queue when that was emptied.
    is_flushed: bool,
}

impl InProcess {
    pub(crate) fn new(producer: Arc<ProducerCell>, identity: ProducerIdentity, buffers: u16) -> Self {
        let endpoint =
            EndpointCell::new(producer, |cell| endpoint(cell.producer().memory(), identity, buffers));
        Self { endpoint, requests: Vec::new(), is_flushed: true }
    }
}

impl Transport for InProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer]) {
        if !self.is_flushed {
            self.ask_flush();
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
    }

    fn ask_flush(&mut self) {
        self.is_flushed = self.endpoint.borrow_owner().producer().commit();
    }

    fn is_flushed(&self) -> bool {
        // Scraping finds chunks that another thread is sending just now, but not the patches that packets in them, and
        // everything that their thread wrote after those, wait for.
        self.is_flushed
    }

    fn clear_incremental_state(&mut self) {
        self.endpoint.borrow_owner().producer().clear_incremental_state();
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.scrape(buffers));
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
