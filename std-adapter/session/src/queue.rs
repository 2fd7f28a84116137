//! The queue of what recording threads ask for, until it is taken.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::producer::{CommitRequest, CommitSink, Request};

use crate::interrupts;
use crate::limits::BUFFERS_MAX;
use crate::recording_gate::RecordingGate;
use crate::region_file::OwnMemory;
use crate::waits::{Waker, may_wait};

/// How long a thread waits for a chunk while nothing is on its way that could free one.
const IN_VAIN: Duration = Duration::from_secs(1);
/// The step of waiting before which a writer has already waited that long.
const WAITED: u32 = 26;

/// Requests that concern no chunk, or one that was sent before: writers that begin and end, flushes, patches.
const ROOM_FOR_OTHERS: usize = 512;

/// Whether a request concerns a chunk. While nothing takes any, few such come: soon no chunk is free.
fn is_of_chunk(request: &Request) -> bool {
    matches!(request, Request::Move(_) | Request::Patch { .. })
}

/// The place in the queue of a request that another one makes needless, and that would fill the memory.
fn made_needless(queued: &[Request], by: Request) -> Option<usize> {
    let is_needless = |before: &Request| match (*before, by) {
        // When the later one was carried out, so were those before.
        (Request::Flush(_), Request::Flush(_)) => true,
        // A writer without any chunk: its chunks come before its end, and none came after its beginning.
        (Request::Register { writer_id, .. }, Request::Unregister { writer_id: ended }) => writer_id == ended,
        _ => false,
    };
    if !matches!(by, Request::Flush(_) | Request::Unregister { .. }) {
        return None;
    }
    // After the last chunk each writer ends and begins at most once: these are few.
    let found = queued.iter().rposition(|before| is_of_chunk(before) || is_needless(before))?;
    queued.get(found).is_some_and(is_needless).then_some(found)
}

fn add(queued: &mut Vec<Request>, request: Request) {
    let needless = made_needless(queued, request).map(|at| queued.remove(at));
    // If nothing hears of a writer at all, nothing need hear of its end.
    if !matches!(needless, Some(Request::Register { .. })) {
        queued.push(request);
    }
}

/// Carries requests from recording threads to the thread that takes them: the drain thread, or one that passes them on
/// to another process. Its lock is held for pushing a batch, or for a swap.
pub struct Queue {
    requests: Mutex<Vec<Request>>,
    /// Requests for which there is always room, so that signal handlers need not ask for memory.
    room: AtomicUsize,
    waker: Waker,
    gate: Arc<RecordingGate>,
    /// Packets that threads gave up, by buffer, and that nothing in shared memory tells of.
    dropped: [AtomicU64; BUFFERS_MAX],
    /// Chunks that have come, and those that were taken.
    came: AtomicU64,
    done: AtomicU64,
    /// How many chunks had come when a waiting thread last saw that number change or some not yet taken, and when.
    quiet: Mutex<(u64, Instant)>,
    /// How many chunks had come when a thread gave up waiting: until more come, others need not try.
    gave_up_at: AtomicU64,
    /// Where to note which writer writes to which buffer, if shared memory lies in a file.
    in_file: Option<OwnMemory>,
}

impl Queue {
    pub(crate) fn new(waker: Waker, gate: Arc<RecordingGate>, in_file: Option<OwnMemory>) -> Self {
        Self {
            requests: Mutex::new(Vec::new()),
            room: AtomicUsize::new(0),
            waker,
            gate,
            dropped: [const { AtomicU64::new(0) }; BUFFERS_MAX],
            came: AtomicU64::new(0),
            done: AtomicU64::new(0),
            quiet: Mutex::new((0, Instant::now())),
            gave_up_at: AtomicU64::new(u64::MAX),
            in_file,
        }
    }

    /// Makes room for a request for each of so many chunks, and some others.
    pub(crate) fn make_room(&self, chunks: usize) {
        let room = chunks.saturating_add(ROOM_FOR_OTHERS);
        self.room.store(room, Ordering::Relaxed);
        drop(self.with_room_for(room));
    }

    fn push(&self, requests: impl Iterator<Item = Request> + Clone) {
        // In a child the lock may be held by a thread that does not exist there. After the end nothing takes requests.
        if self.gate.is_here() {
            let mut queued = self.with_room_for(requests.clone().count());
            let mut chunks = 0;
            for request in requests {
                // It frees a chunk when it is carried out.
                chunks += u64::from(matches!(request, Request::Move(_)));
                add(&mut queued, request);
            }
            self.came.fetch_add(chunks, Ordering::Relaxed);
        }
    }

    /// Swaps what has come for `requests`, which is empty. Returns how many chunks have come in all.
    pub fn take(&self, requests: &mut Vec<Request>) -> u64 {
        requests.reserve(self.room.load(Ordering::Relaxed));
        let mut queued = self.requests();
        std::mem::swap(requests, &mut queued);
        self.came.load(Ordering::Relaxed)
    }

    /// Notes that the service has taken this many of all the chunks that have come.
    pub fn taken(&self, chunks: u64) {
        self.done.store(chunks, Ordering::Relaxed);
    }

    /// Returns how many packets for a buffer threads gave up without a trace in shared memory.
    pub fn dropped(&self, buffer: usize) -> u64 {
        self.dropped.get(buffer).map_or(0, |dropped| dropped.load(Ordering::Relaxed))
    }

    pub(crate) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests, with room for this many more. An allocator that records may come here again: no lock is held then.
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
            // Others may have enlarged it themselves meanwhile.
            if queued.capacity() < larger.capacity() {
                larger.append(&mut queued);
                std::mem::swap(&mut larger, &mut queued);
            }
            drop(queued);
        }
    }

    /// Returns true if all chunks that came were taken, and none has come while this thread has waited.
    #[cold]
    fn is_in_vain(&self, step: u32) -> bool {
        let came = self.came.load(Ordering::Relaxed);
        let is_quiet = self.done.load(Ordering::Relaxed) == came;
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_quiet || quiet.0 != came {
            *quiet = (came, Instant::now());
            return false;
        }
        // It may have been quiet since long before any thread waited.
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
        if self.gate.is_here() {
            self.waker.wake();
        }
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        // Before it has a chunk. Its entry stays after it has ended, because chunks of it may still lie there.
        if let Some(memory) = self.in_file.as_ref().filter(|_| self.gate.is_here()) {
            memory.note_writer(writer_id, target);
        }
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

    #[cfg(not(tracebuf_small))]
    fn thread_fence(&self) -> Option<fn() -> bool> {
        crate::thread_fence::thread_fence()
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        // What it has interrupted may be what would end the waiting.
        if step == 0 && interrupts::are_handled() {
            return false;
        }
        // The drain thread would wait for itself: a transport that records, or a panic hook.
        if !self.gate.is_on() || self.waker.is_current() || !may_wait() {
            return false;
        }
        // Otherwise each event would wait as long as the first that waited in vain.
        if self.gave_up_at.load(Ordering::Relaxed) == self.came.load(Ordering::Relaxed) {
            return false;
        }
        // Only after a longer wait: threads that get their chunk soon have no lock to wait for.
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

debug_fields!(Queue);

#[cfg(test)]
mod tests {
    use tracebuf::producer::ChunkToMove;

    use super::*;

    #[test]
    fn who_begins_to_wait_does_wait_however_long_nothing_came_before() {
        let queue = Queue::new(Waker::default(), Arc::new(RecordingGate::new()), None);
        let lock = || queue.quiet.lock().expect("nobody panicked");
        lock().1 = Instant::now() - 2 * IN_VAIN;
        let steps: Vec<_> = (0..).take_while(|step| queue.stall(*step, 1000)).collect();
        assert_eq!(steps.len(), WAITED as usize);
        assert!(!queue.stall(0, 0), "the next need not try");
        queue.register_writer(1, 0);
        queue.unregister_writer(1);
        assert!(!queue.stall(0, 0), "a thread that comes and goes frees nothing");
        let chunks_to_move = &[ChunkToMove { page: 0, chunk: 0, target: 0 }];
        queue.commit(&CommitRequest { chunks_to_move, ..CommitRequest::default() });
        assert!(queue.stall(0, 0));
        // Nor does the quiet before a chunk count once that was taken.
        queue.done.store(1, Ordering::Relaxed);
        lock().1 = Instant::now() - 2 * IN_VAIN;
        assert!(queue.stall(WAITED, 1000));
    }

    #[test]
    fn what_is_sent_wakes_the_drain_thread_and_so_does_a_thread_that_waits() {
        use std::sync::mpsc::channel;

        let (waker, gate) = (Waker::default(), Arc::new(RecordingGate::new()));
        let queue = Queue::new(waker.clone(), gate, None);
        let (woken, wakes) = channel();
        let drain = std::thread::spawn(move || {
            // As long as nothing wakes it, this takes longer than the test waits.
            while woken.send(()).is_ok() {
                std::thread::park_timeout(Duration::from_secs(60));
            }
        });
        waker.set(drain.thread().clone());
        let wait = |most| wakes.recv_timeout(Duration::from_millis(most)).is_ok();
        assert!(wait(10_000), "it has begun");
        let chunks_to_move = &[ChunkToMove { page: 0, chunk: 0, target: 0 }];
        queue.commit(&CommitRequest { chunks_to_move, ..CommitRequest::default() });
        assert!(wait(20_000), "chunks were sent");
        while wait(50) {}
        assert!(queue.stall(0, 0));
        assert!(wait(20_000), "a thread waits for chunks");
        drop(wakes);
        waker.wake();
        drain.join().expect("no panic");
    }

    #[test]
    fn there_is_room_for_a_request_for_each_chunk_without_asking_for_memory() {
        let queue = Queue::new(Waker::default(), Arc::new(RecordingGate::new()), None);
        queue.make_room(700);
        let mut taken = Vec::new();
        for _ in 0..3 {
            let room = queue.requests().capacity();
            assert!(room >= 700, "{room}");
            let chunks = vec![ChunkToMove::default(); 700];
            queue.commit(&CommitRequest { chunks_to_move: &chunks, ..CommitRequest::default() });
            assert_eq!(queue.requests().capacity(), room);
            queue.take(&mut taken);
            taken.clear();
        }
    }

    #[test]
    fn what_has_to_do_with_no_chunk_does_not_heap_up_and_the_rest_stays_in_its_order() {
        let begins = |writer_id, target| Request::Register { writer_id, target };
        let ends = |writer_id| Request::Unregister { writer_id };
        let moved = Request::Move(ChunkToMove { page: 0, chunk: 0, target: 0 });
        let flush = Request::Flush;
        for (asked, left) in [
            // The last flush, after what came before it.
            (&[flush(1), begins(1, 0), flush(2)][..], &[begins(1, 0), flush(2)][..]),
            (&[flush(1), moved, flush(2)], &[flush(1), moved, flush(2)]),
            // A writer without any chunk, whatever others do meanwhile.
            (&[begins(1, 0), begins(2, 3), flush(1), ends(1)], &[begins(2, 3), flush(1)]),
            // One that began before, and ends, may be followed by another.
            (&[ends(1), begins(1, 3), ends(1), begins(1, 2)], &[ends(1), begins(1, 2)]),
            // Which writer's chunk it is, is not known here.
            (&[begins(1, 0), moved, ends(1)], &[begins(1, 0), moved, ends(1)]),
            (&[begins(1, 0), moved, ends(1), begins(1, 1), ends(1)], &[begins(1, 0), moved, ends(1)]),
        ] {
            let queue = Queue::new(Waker::default(), Arc::new(RecordingGate::new()), None);
            queue.push(asked.iter().copied());
            let mut queued = Vec::new();
            assert_eq!(
                queue.take(&mut queued),
                asked.iter().filter(|request| **request == moved).count() as u64
            );
            assert_eq!(queued, left, "of {asked:?}");
        }
    }
}
