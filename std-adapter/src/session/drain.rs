//! The drain thread: owns the central buffers, and does everything to them.
//!
//! Others send it tasks, so that no lock is held while a buffer is copied or read, and none can be left
//! locked. Producers go on meanwhile: they write into shared memory.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tracebuf::buffer::BufferStats;
use tracebuf::service::EndpointStats;

use super::clock::SessionClock;
use super::export::{Flushes, Totals};
use super::in_process::Switch;
use super::long_trace::Recording;
use super::transport::{BUFFERS_MAX, CentralBuffer, Transport};
use super::{PATIENCE, Written};
use crate::whole_file::OwnFiles;

/// Wakes a session's drain thread. Cheap to clone; from any thread.
#[derive(Clone, Debug, Default)]
pub struct Waker {
    thread: Arc<OnceLock<Thread>>,
}

impl Waker {
    /// Wakes it, or keeps it from going to sleep the next time. Cost: an atomic swap, and when it sleeps a
    /// system call.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn set(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    pub(crate) fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == thread::current().id())
    }
}

/// Something for the drain thread to do.
pub(crate) type Task = Box<dyn FnOnce(&mut Core) + Send>;

/// What the drain thread owns.
pub(crate) struct Core {
    pub(crate) buffers: Vec<CentralBuffer>,
    transports: Vec<Box<dyn Transport>>,
    /// Of producers that are gone.
    past: EndpointStats,
    past_dropped: Dropped,
    seen: u64,
    pub(crate) flushes: Flushes,
    pub(crate) long_trace: Option<Recording>,
    pub(crate) files: OwnFiles,
    pub(crate) invalid_packets: u64,
    stopped: bool,
    clock: SessionClock,
    /// When files get what lies in shared memory.
    next_kept: Instant,
}

/// Turns recording off when the drain thread ends, also by a panic, of a transport perhaps: threads that stall would
/// wait for it for ever.
struct OffAtEnd(Arc<Switch>);

impl Drop for OffAtEnd {
    fn drop(&mut self) {
        self.0.off();
    }
}

/// How long the thread sleeps when nobody wakes it, and how much of what lies in shared memory a kill costs where
/// buffers are in files.
const IDLE: Duration = Duration::from_secs(1);

impl Core {
    pub(crate) fn new(
        buffers: Vec<CentralBuffer>,
        long_trace: Option<Recording>,
        clock: SessionClock,
    ) -> Self {
        Self {
            buffers,
            transports: Vec::new(),
            past: EndpointStats::default(),
            past_dropped: Dropped::default(),
            seen: 0,
            flushes: Flushes::default(),
            long_trace,
            files: OwnFiles::default(),
            invalid_packets: 0,
            stopped: false,
            clock,
            next_kept: Instant::now() + IDLE,
        }
    }

    pub(crate) fn attach(&mut self, transport: Box<dyn Transport>) {
        self.transports.push(transport);
        self.seen += 1;
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Does what is to be done until the session is stopped. Nobody records after that.
    pub(crate) fn run(mut self, tasks: &Receiver<Task>, switch: Arc<Switch>) -> Self {
        // Dropped before what this thread owns: a transport may wait for a thread that stalls.
        let _off = OffAtEnd(switch);
        while !self.stopped {
            self.drain();
            self.clock.steer();
            // One at a time: while many ask, what producers send must not fill shared memory, nor the file wait.
            let was_asked = match tasks.try_recv() {
                Ok(task) => {
                    task(&mut self);
                    true
                }
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => {
                    // The last that had the session was a transport: nobody is left who could ask for an end.
                    self.last_flush(Instant::now() + PATIENCE);
                    self.finish();
                    return self;
                }
            };
            if self.stopped {
                // What is scraped behind the last flush would undo what that gave up.
                break;
            }
            let wait = match self.long_trace.take() {
                Some(mut recording) => {
                    let wait = recording.work(&mut self);
                    self.long_trace = Some(recording);
                    wait
                }
                None => IDLE,
            };
            let wait = wait.min(self.keep_in_files());
            // With more to do at once it does not even give up its processor, which others might keep for milliseconds.
            if !was_asked && !wait.is_zero() {
                thread::park_timeout(wait);
            }
        }
        self
    }

    /// Carries out what producers have asked for so far.
    pub(crate) fn drain(&mut self) {
        let (buffers, past, past_dropped) = (&mut self.buffers[..], &mut self.past, &mut self.past_dropped);
        self.transports.retain_mut(|transport| {
            transport.drain(buffers);
            let connected = transport.is_connected();
            if !connected {
                // Its last packets are not lost.
                transport.disconnect(buffers);
                *past = sum(*past, transport.stats());
                past_dropped.add(transport.as_ref());
            }
            connected
        });
    }

    /// Gets everything that was written until now into the buffers; false if a producer did not answer in
    /// time, and was only scraped.
    pub(crate) fn flush(&mut self, deadline: Instant) -> bool {
        self.ask_flush();
        while !self.is_flushed() && Instant::now() < deadline {
            thread::park_timeout(Duration::from_millis(1));
            self.drain();
        }
        self.end_flush()
    }

    /// Asks producers to send what they have.
    pub(crate) fn ask_flush(&mut self) {
        for transport in &mut self.transports {
            transport.ask_flush();
        }
        self.drain();
    }

    /// Whether all of it has come.
    pub(crate) fn is_flushed(&self) -> bool {
        self.transports.iter().all(|transport| transport.is_flushed())
    }

    /// Gets what has not come; false if that is of a producer that did not answer in time. That this thread is late
    /// itself is no producer's fault.
    pub(crate) fn end_flush(&mut self) -> bool {
        let all = self.is_flushed();
        self.scrape();
        self.flushes.count(all);
        all
    }

    /// Gets what lies in shared memory into buffers in files, when it is time, and says how long to sleep at most: who
    /// writes little would else lose the last minutes when the process is killed.
    fn keep_in_files(&mut self) -> Duration {
        if self.files.regions.is_empty() {
            return IDLE;
        }
        let now = Instant::now();
        if now >= self.next_kept {
            self.next_kept = now + IDLE;
            // Nobody is waited for: what has not come by then is scraped. Nor is anybody asked while one has yet to
            // answer, for which a long trace may be waiting.
            if self.is_flushed() {
                self.ask_flush();
            }
            self.scrape();
        }
        self.next_kept.saturating_duration_since(now)
    }

    fn scrape(&mut self) {
        for transport in &mut self.transports {
            transport.scrape(&mut self.buffers);
        }
    }

    /// The last flush. Nothing comes any more of what packets wait for, so these are given up, or they would keep back
    /// what their threads have recorded before them.
    pub(crate) fn last_flush(&mut self, deadline: Instant) {
        self.flush(deadline);
        for buffer in &mut self.buffers {
            let producers: BTreeSet<u16> = buffer.sequences().map(|sequence| sequence.producer_id).collect();
            producers.into_iter().for_each(|producer| buffer.end_producer(producer));
        }
    }

    /// Completes the long trace, if there is one.
    pub(crate) fn finish(&mut self) -> Option<Written> {
        let mut recording = self.long_trace.take()?;
        recording.finish(self);
        Some(written(&recording))
    }

    /// What is in the long trace's file so far, until it is complete.
    pub(crate) fn written(&self) -> Option<Written> {
        self.long_trace.as_ref().map(written)
    }

    /// What is counted over the whole session.
    pub(crate) fn totals(&self) -> Totals {
        let endpoints = self.transports.iter().fold(self.past, |all, transport| sum(all, transport.stats()));
        let mut dropped = self.past_dropped;
        self.transports.iter().for_each(|transport| dropped.add(transport.as_ref()));
        Totals {
            dropped,
            producers_connected: u32::try_from(self.transports.len()).unwrap_or(u32::MAX),
            producers_seen: self.seen,
            endpoints,
            invalid_packets: self.invalid_packets,
            flushes: self.flushes,
        }
    }
}

fn written(recording: &Recording) -> Written {
    Written {
        packets: recording.progress.packets.load(Ordering::Relaxed),
        bytes: recording.progress.status().bytes,
        invalid_packets: recording.invalid_packets,
    }
}

/// Packets for each buffer that writers gave up, and of which nothing in the buffer tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped([u64; BUFFERS_MAX]);

impl Dropped {
    fn add(&mut self, transport: &dyn Transport) {
        for (buffer, count) in self.0.iter_mut().enumerate() {
            *count += transport.packets_dropped(buffer);
        }
    }

    /// The counters of all buffers with them.
    pub(crate) fn told(
        &self,
        buffers: impl Iterator<Item = BufferStats>,
    ) -> impl Iterator<Item = BufferStats> {
        buffers.zip(self.0).map(|(mut stats, dropped)| {
            stats.trace_writer_packet_loss += dropped;
            stats
        })
    }
}

fn sum(a: EndpointStats, b: EndpointStats) -> EndpointStats {
    EndpointStats {
        chunks_moved: a.chunks_moved + b.chunks_moved,
        chunks_scraped: a.chunks_scraped + b.chunks_scraped,
        chunks_scraped_before: a.chunks_scraped_before + b.chunks_scraped_before,
        chunks_discarded: a.chunks_discarded + b.chunks_discarded,
        chunks_missing: a.chunks_missing + b.chunks_missing,
        patches_discarded: a.patches_discarded + b.patches_discarded,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    use super::*;

    /// How often a producer was drained, asked and scraped.
    #[derive(Default)]
    struct Calls {
        drained: AtomicUsize,
        asked: AtomicUsize,
        scraped: AtomicUsize,
    }

    /// A producer that answers, or does not.
    struct Answers(bool, Arc<Calls>);

    impl Transport for Answers {
        fn drain(&mut self, _: &mut [CentralBuffer]) {
            self.1.drained.fetch_add(1, Ordering::Relaxed);
        }

        fn ask_flush(&mut self) {
            self.1.asked.fetch_add(1, Ordering::Relaxed);
        }

        fn is_flushed(&self) -> bool {
            self.0
        }

        fn scrape(&mut self, _: &mut [CentralBuffer]) {
            self.1.scraped.fetch_add(1, Ordering::Relaxed);
        }

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }
    }

    #[test]
    fn a_flush_that_all_have_answered_has_succeeded_however_late_it_is() {
        for (answers, told) in [(true, (1, 0)), (false, (0, 1))] {
            let mut core = Core::new(Vec::new(), None, SessionClock::new(false));
            core.attach(Box::new(Answers(answers, Arc::default())));
            assert_eq!(core.flush(Instant::now()), answers);
            assert_eq!((core.flushes.succeeded, core.flushes.failed), told);
        }
    }

    #[test]
    fn producers_are_drained_between_tasks_however_many_wait() {
        let (mut core, calls) =
            (Core::new(Vec::new(), None, SessionClock::new(false)), Arc::<Calls>::default());
        core.attach(Box::new(Answers(true, calls.clone())));
        let (sender, tasks) = channel::<Task>();
        let (tell, told) = channel();
        for _ in 0..3 {
            let (tell, calls) = (tell.clone(), calls.clone());
            let task: Task = Box::new(move |_| {
                let _ = tell.send(calls.drained.load(Ordering::Relaxed));
            });
            let _ = sender.send(task);
        }
        drop((sender, tell));
        core.run(&tasks, Arc::new(Switch::new()));
        assert_eq!(told.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn for_a_file_who_has_yet_to_answer_is_scraped_and_not_asked_and_behind_the_end_nobody_is() {
        for (answers, stops, told) in [(true, false, (1, 1)), (false, false, (0, 1)), (true, true, (0, 0))] {
            let (mut core, calls) =
                (Core::new(Vec::new(), None, SessionClock::new(false)), Arc::<Calls>::default());
            core.files.regions.push(std::fs::metadata(".").expect("a folder"));
            core.next_kept = Instant::now();
            core.attach(Box::new(Answers(answers, calls.clone())));
            if stops {
                let (sender, tasks) = channel::<Task>();
                let _ = sender.send(Box::new(Core::stop));
                core.run(&tasks, Arc::new(Switch::new()));
            } else {
                core.keep_in_files();
                // It is not time again.
                core.keep_in_files();
            }
            assert_eq!((calls.asked.load(Ordering::Relaxed), calls.scraped.load(Ordering::Relaxed)), told);
        }
    }
}
