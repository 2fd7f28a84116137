//! The transport of this process's own threads: shared memory on the heap or in a buffer's file, requests in a queue.

use std::sync::Arc;

use self_cell::self_cell;
use tracebuf::buffer::OverwriteObserver;
use tracebuf::producer::Request;
use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};

use crate::limits::CHUNK;
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

/// After how many chunks to get the rest of packets whose beginnings are next to be overwritten: more may wait in shared
/// memory than a ring has room for.
fn chunks_between_scrapes(buffers: &[CentralBuffer], waiting: usize) -> usize {
    if waiting <= LEAST_BETWEEN_SCRAPES {
        return usize::MAX;
    }
    let rings = buffers.iter().filter(|buffer| buffer.observer().looks());
    let smallest = rings.map(|buffer| buffer.stats().buffer_size).min();
    smallest.map_or(usize::MAX, |bytes| (bytes as usize / 2 / CHUNK).max(LEAST_BETWEEN_SCRAPES))
}

const LEAST_BETWEEN_SCRAPES: usize = 4;

impl Transport for InProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        // Scraping finds chunks that another thread is sending just now, but not their patches.
        if self.is_asked {
            self.commit();
        }
        let requests = &mut self.requests;
        let came = self.endpoint.with_dependent_mut(|producer, endpoint| {
            let came = producer.queue().take(requests);
            let (mut moved, enough) = (0, chunks_between_scrapes(buffers, requests.len()));
            for request in requests.drain(..) {
                moved += usize::from(matches!(request, Request::Move(_)));
                // The producer is flushed by asking it, not by requests.
                let _no_flush = endpoint.carry_out_one(&request, buffers);
                if moved == enough {
                    moved = 0;
                    endpoint.scrape_rests(buffers);
                }
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
