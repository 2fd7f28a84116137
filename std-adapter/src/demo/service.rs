//! The demonstration's service: a queue, and a thread that carries out the requests in it.

use crate::PagedMemory;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::*;
use tracebuf::service::{EndpointStats, ProducerEndpoint, ProducerIdentity};

/// Carries requests from the writers' threads to the service's. As long as shared memory has chunks, its length never
/// exceeds twice their number.
pub(super) struct Queue {
    requests: Mutex<VecDeque<Request>>,
    filled: Condvar,
    /// Packets given up that nothing in shared memory tells of.
    dropped: AtomicU64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue { requests: Mutex::new(VecDeque::new()), filled: Condvar::new(), dropped: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, requests: impl IntoIterator<Item = Request>) {
        self.lock().extend(requests);
        self.filled.notify_one();
    }

    /// The requests that have come, after waiting a moment at most.
    fn take(&self) -> VecDeque<Request> {
        let waiting = self.filled.wait_timeout_while(self.lock(), TICK, |requests| requests.is_empty());
        let (mut requests, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *requests)
    }

    /// Packets that writers gave up when they had no chunk: the buffer counts the others but has not seen these.
    pub(super) fn packets_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// How often the service checks whether the work is done.
const TICK: Duration = Duration::from_millis(10);

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.push(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.push([Request::Register { writer_id, target }]);
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.push([Request::Unregister { writer_id }]);
    }

    fn packet_dropped(&self, _writer_id: u16, _target: u16) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn stall(&self, _step: u32, micros: u32) -> bool {
        match micros {
            0 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(micros.into())),
        }
        true
    }
}

pub(super) struct Service<'m> {
    endpoint: ProducerEndpoint<'m, { super::THREADS }>,
    buffers: [TraceBuffer<PagedMemory>; 1],
}

impl<'m> Service<'m> {
    pub(super) fn new(memory: SharedMemory<'m>, buffer: TraceBuffer<PagedMemory>) -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(-1);
        let identity = ProducerIdentity { producer_id: 1, uid: u32::MAX, pid };
        let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
        endpoint.allow(0);
        Service { endpoint, buffers: [buffer] }
    }

    /// Carries out requests until the work is done, then takes what is left in shared memory.
    pub(super) fn run(&mut self, queue: &Queue, producer: &Producer<'_>, done: &AtomicBool) {
        loop {
            let last = done.load(Ordering::Acquire);
            let requests = queue.take();
            if last && requests.is_empty() {
                break;
            }
            for request in &requests {
                if let Some(flush) = self.endpoint.carry_out_one(request, &mut self.buffers) {
                    producer.flushed(flush);
                }
            }
        }
        self.endpoint.scrape(&mut self.buffers);
    }

    pub(super) fn endpoint_stats(&self) -> EndpointStats {
        self.endpoint.stats()
    }

    pub(super) fn buffer(&mut self) -> &mut TraceBuffer<PagedMemory> {
        let [buffer] = &mut self.buffers;
        buffer
    }
}
