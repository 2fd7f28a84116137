//! The transport of this process's own threads: shared memory on the heap, requests in a queue.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self_cell::self_cell;
use tracebuf::producer::track_event::Track;
use tracebuf::producer::{
    AtomicU32, CommitRequest, CommitSink, Consumer, Layout, MemoryError, Producer, ProducerStorage, Request,
    SharedMemory,
};
use tracebuf::service::{EndpointStats, ProducerEndpoint, ProducerIdentity};

use super::switch::Switch;
use super::transport::{BUFFERS_MAX, CentralBuffer, Transport};
use super::waker::Waker;

/// Threads that can write at a time, each to one buffer.
pub(crate) const WRITERS: usize = 1024;
/// Chunks of shared memory, at most.
const CHUNKS: usize = 32_768;
const PAGE: u32 = 4096;
/// Two chunks a page: 2 KiB each, so that many threads with few events do not use it up.
const LAYOUT: Layout = Layout::Two;
/// Bytes of a chunk, its header included.
pub(crate) const CHUNK: usize = LAYOUT.chunk_size(PAGE) as usize;
/// Sizes that shared memory can have, in bytes: from a page to what has room in the producer's lists.
pub(crate) const SHARED_MEMORY: RangeInclusive<usize> = PAGE as usize..=CHUNKS / 2 * PAGE as usize;

/// Shared memory in which whoever waits for a chunk gets one, however many threads keep theirs and record nothing: each
/// writer has one between its events and while it waits, and there is a page more. Not larger, for half of it may be
/// complete before it is sent.
pub(crate) const ENOUGH_TO_STALL: usize = (WRITERS.div_ceil(PAGE as usize / CHUNK) + 1) * PAGE as usize;
/// How long a thread waits for a chunk when nothing is on its way that could set one free.
const IN_VAIN: Duration = Duration::from_secs(1);
/// The step of waiting before which a writer has waited so long: from the 17th on each takes 100 ms, as all before do
/// together.
const WAITED: u32 = 26;

type Storage = ProducerStorage<CHUNKS, WRITERS>;

/// Of so many requests, those that set a chunk free when they are carried out.
fn chunks(requests: &[Request]) -> u64 {
    requests.iter().filter(|request| matches!(request, Request::Move(_))).count() as u64
}

/// The way from the threads to the drain thread. Its lock is held for a push of a batch, or a swap.
pub(crate) struct Queue {
    requests: Mutex<Vec<Request>>,
    waker: Waker,
    switch: Arc<Switch>,
    /// Packets for each buffer that threads gave up, and of which nothing in shared memory tells.
    dropped: [AtomicU64; BUFFERS_MAX],
    /// Chunks that have come, and those that were taken. Threads that begin or end bring none, and say nothing of when
    /// one will.
    came: AtomicU64,
    done: AtomicU64,
    /// How many had come when a thread that waits saw last that all were taken, and since when it was so.
    quiet: Mutex<(u64, Instant)>,
    /// How many had come when a thread gave waiting up: until more come, others need not try.
    gave_up_at: AtomicU64,
}

impl Queue {
    fn new(waker: Waker, switch: Arc<Switch>) -> Self {
        Self {
            requests: Mutex::new(Vec::new()),
            waker,
            switch,
            dropped: [const { AtomicU64::new(0) }; BUFFERS_MAX],
            came: AtomicU64::new(0),
            done: AtomicU64::new(0),
            quiet: Mutex::new((0, Instant::now())),
            gave_up_at: AtomicU64::new(u64::MAX),
        }
    }

    fn push(&self, requests: impl Iterator<Item = Request> + Clone) {
        // In a child the lock may be held by a thread that is not there. After the end nobody takes requests.
        if self.switch.is_here() {
            let mut queued = self.with_room_for(requests.clone().count());
            let before = queued.len();
            queued.extend(requests);
            let chunks = chunks(queued.get(before..).unwrap_or_default());
            self.came.fetch_add(chunks, Ordering::Relaxed);
        }
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests, with room for so many more. Without the lock while it asks for memory: an allocator that records
    /// may come here again.
    fn with_room_for(&self, more: usize) -> MutexGuard<'_, Vec<Request>> {
        loop {
            let queued = self.requests();
            let needed = queued.len().saturating_add(more);
            if needed <= queued.capacity() {
                return queued;
            }
            drop(queued);
            let mut larger = Vec::with_capacity(needed.saturating_mul(2));
            let mut queued = self.requests();
            // Others may have made it larger themselves meanwhile.
            if queued.capacity() < larger.capacity() {
                larger.append(&mut queued);
                std::mem::swap(&mut larger, &mut queued);
            }
            drop(queued);
        }
    }

    /// Whether no chunk has come for a while, in which this thread has waited, and all that came were taken: then all
    /// are held by threads that record nothing, and nobody knows when they will.
    #[cold]
    fn is_in_vain(&self, step: u32) -> bool {
        let came = self.came.load(Ordering::Relaxed);
        let is_quiet = self.done.load(Ordering::Relaxed) == came;
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_quiet || quiet.0 != came {
            *quiet = (came, Instant::now());
            return false;
        }
        // It may be quiet since long before there was anybody to wait.
        let in_vain = step >= WAITED && quiet.1.elapsed() >= IN_VAIN;
        if in_vain {
            self.gave_up_at.store(came, Ordering::Relaxed);
        }
        in_vain
    }
}

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.push(request.each());
        if self.switch.is_here() {
            self.waker.wake();
        }
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.push(std::iter::once(Request::Register { writer_id, target }));
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.push(std::iter::once(Request::Unregister { writer_id }));
    }

    fn packet_dropped(&self, _writer_id: u16, target: u16) {
        if let Some(dropped) = self.dropped.get(usize::from(target)) {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        // The drain thread would wait for itself: a transport that records, or a panic hook.
        if !self.switch.is_on() || self.waker.is_current() {
            return false;
        }
        // Else each event would wait as long as the first that waited in vain.
        if self.gave_up_at.load(Ordering::Relaxed) == self.came.load(Ordering::Relaxed) {
            return false;
        }
        // Only where it is long already: those who get their chunk soon have no lock to wait for.
        if micros >= 1000 && self.is_in_vain(step) {
            return false;
        }
        self.waker.wake();
        match micros {
            0 => std::thread::yield_now(),
            micros => std::thread::sleep(Duration::from_micros(micros.into())),
        }
        true
    }
}

/// What the producer borrows.
pub(crate) struct Home {
    words: Box<[AtomicU32]>,
    storage: Box<Storage>,
    queue: Queue,
    process_name: String,
}

/// The producer, and the track that its threads lie under.
pub(crate) struct Attached<'a> {
    pub(crate) producer: Producer<'a>,
    pub(crate) process: Track<'a>,
}

/// So many bytes for shared memory. Each page is touched here, so that no thread that records has to wait until the
/// system has one.
pub(crate) fn words(bytes: usize) -> Box<[AtomicU32]> {
    (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
}

self_cell!(
    pub(crate) struct ProducerCell {
        owner: Home,
        #[covariant]
        dependent: Attached,
    }
);

impl ProducerCell {
    /// A producer over shared memory.
    pub(crate) fn in_memory(
        words: Box<[AtomicU32]>,
        switch: Arc<Switch>,
        waker: Waker,
        process_name: String,
    ) -> Result<Self, MemoryError> {
        let queue = Queue::new(waker, switch);
        let home = Home { words, storage: Box::new(Storage::new()), queue, process_name };
        ProducerCell::try_new(home, |home| {
            let memory = SharedMemory::new(&home.words, PAGE)?;
            let producer = Producer::new(memory, LAYOUT, &home.storage, &home.queue)?;
            Ok(Attached { producer, process: Track::process(std::process::id(), &home.process_name) })
        })
    }

    /// A thread that has no writer for a buffer has recorded something.
    #[cold]
    pub(crate) fn drop_packet(&self, target: u16) {
        self.borrow_owner().queue.packet_dropped(0, target);
    }
}

type Endpoint<'a> = ProducerEndpoint<'a, WRITERS>;

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
    /// The queue's other vector: the two change places, so that none is ever allocated anew.
    requests: Vec<Request>,
    /// All that was ready to be sent at the last flush was in the queue when that was emptied.
    is_flushed: bool,
}

impl InProcess {
    pub(crate) fn new(producer: Arc<ProducerCell>, identity: ProducerIdentity, buffers: u16) -> Self {
        let endpoint = EndpointCell::new(producer, |cell| {
            let memory = cell.borrow_dependent().producer.memory();
            let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
            for target in 0..buffers {
                endpoint.allow(target);
            }
            endpoint
        });
        Self { endpoint, requests: Vec::new(), is_flushed: true }
    }
}

impl Transport for InProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer]) {
        if !self.is_flushed {
            self.ask_flush();
        }
        let requests = &mut self.requests;
        self.endpoint.with_dependent_mut(|producer, endpoint| {
            let queue = &producer.borrow_owner().queue;
            std::mem::swap(requests, &mut *queue.requests());
            for request in requests.iter() {
                // The producer is flushed by asking it, not by requests.
                let _no_flush = endpoint.carry_out_one(request, buffers);
            }
        });
        let queue = &self.endpoint.borrow_owner().borrow_owner().queue;
        queue.done.fetch_add(chunks(&self.requests), Ordering::Relaxed);
        self.requests.clear();
    }

    fn ask_flush(&mut self) {
        self.is_flushed = self.endpoint.borrow_owner().borrow_dependent().producer.commit();
    }

    fn is_flushed(&self) -> bool {
        // Chunks that another thread is sending just now are found by scraping, but not the patches that packets in
        // them, and all that their thread wrote behind those, wait for.
        self.is_flushed
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.scrape(buffers));
    }

    fn stats(&self) -> EndpointStats {
        self.endpoint.borrow_dependent().stats()
    }

    fn packets_dropped(&self, buffer: usize) -> u64 {
        let dropped = &self.endpoint.borrow_owner().borrow_owner().queue.dropped;
        dropped.get(buffer).map_or(0, |dropped| dropped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
