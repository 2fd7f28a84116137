//! The drain thread: owns the central buffers, and does everything to them.
//!
//! Others send it tasks, so no lock is held while a buffer is copied or read. Producers go on meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::SessionClock;
use crate::long_trace::Recording;
use crate::recording_gate::{OffAtEnd, RecordingGate};
use crate::service::Service;
use crate::totals::Written;
use crate::waits::{MAX_SLEEP, PATIENCE, POLL_INTERVAL};

pub(crate) type Work = Box<dyn FnOnce(&mut Drain) + Send>;

pub(crate) struct Task {
    work: Work,
    /// Whether it is of no use to a session that is about to end.
    is_until_stop: bool,
}

impl Task {
    pub(crate) fn new(work: Work) -> Self {
        Self { work, is_until_stop: false }
    }

    /// A task that is no longer done once the session is being stopped: the stop would have to wait for it.
    pub(crate) fn until_stop(work: Work) -> Self {
        Self { is_until_stop: true, ..Self::new(work) }
    }
}

type Flushed = Box<dyn FnOnce(&mut Drain, bool) + Send>;

/// A flush that something waits for.
struct Flush {
    number: u64,
    deadline: Instant,
    /// Done once the flush has ended, with true if all producers have answered.
    then: Flushed,
}

/// The next task. For those that are left out, the caller that waits hears that the session has ended.
fn next(tasks: &Receiver<Task>, gate: &RecordingGate) -> Result<Task, TryRecvError> {
    loop {
        let task = tasks.try_recv()?;
        if !(task.is_until_stop && gate.is_stopping()) {
            return Ok(task);
        }
    }
}

pub(crate) struct Drain {
    pub(crate) service: Service,
    pub(crate) long_trace: Option<Recording>,
    clock: SessionClock,
    stopped: bool,
    flushes: Vec<Flush>,
    /// When what lies in shared memory is next brought into files.
    next_kept: Instant,
}

impl Drain {
    pub(crate) fn new(service: Service, long_trace: Option<Recording>, clock: SessionClock) -> Self {
        let next_kept = Instant::now() + MAX_SLEEP;
        Self { service, long_trace, clock, stopped: false, flushes: Vec::new(), next_kept }
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Does what is to be done until the session is stopped. Nothing is recorded after that.
    pub(crate) fn run(mut self, tasks: &Receiver<Task>, gate: Arc<RecordingGate>) -> Self {
        // Dropped before what this thread owns: a transport may wait for a thread that stalls.
        let _off = OffAtEnd(gate.clone());
        while !self.stopped {
            self.service.drain();
            self.clock.steer();
            self.service.clocks.look();
            // One at a time: meanwhile shared memory must not fill up, nor the file wait.
            let was_asked = self.end_a_flush()
                || match next(tasks, &gate) {
                    Ok(task) => {
                        (task.work)(&mut self);
                        true
                    }
                    Err(TryRecvError::Empty) => false,
                    Err(TryRecvError::Disconnected) => {
                        // The last owner of the session was a transport: nothing is left that could ask for an end.
                        self.last_flush();
                        self.finish();
                        return self;
                    }
                };
            if gate.is_ending() && !self.stopped {
                self.last_flush();
                self.stop();
            }
            if self.stopped {
                // Scraping after the last flush would undo what that gave up.
                break;
            }
            let wait = self.work();
            // With more to do at once it does not even give up its processor.
            if !was_asked && !wait.is_zero() {
                thread::park_timeout(wait);
            }
        }
        self
    }

    /// Does what is due for files, and says how long to sleep at most.
    fn work(&mut self) -> Duration {
        let service = &mut self.service;
        let wait = self.long_trace.as_mut().map_or(MAX_SLEEP, |recording| recording.work(service));
        let wait = wait.min(self.keep_in_files());
        if self.flushes.is_empty() { wait } else { wait.min(POLL_INTERVAL) }
    }

    /// Begins to get everything that was written until now into the buffers, and does `then` once that is done: with
    /// false if a producer did not answer in time, and was only scraped. Meanwhile all else goes on.
    pub(crate) fn flush(&mut self, deadline: Instant, then: impl FnOnce(&mut Self, bool) + Send + 'static) {
        let number = self.service.begin_flush();
        self.flushes.push(Flush { number, deadline, then: Box::new(then) });
    }

    /// Ends one of the flushes that all have answered, or whose time is over; false if there is none.
    fn end_a_flush(&mut self) -> bool {
        let is_over =
            |flush: &Flush| self.service.is_flushed(flush.number) || Instant::now() >= flush.deadline;
        let Some(at) = self.flushes.iter().position(is_over) else { return false };
        let Flush { number, then, .. } = self.flushes.remove(at);
        let all = self.service.end_flush(number);
        then(self, all);
        true
    }

    /// A last flush, after those that have begun; nothing comes after it.
    pub(crate) fn last_flush(&mut self) {
        // Some may have been asked for with no limit to speak of.
        let latest = Instant::now() + PATIENCE;
        self.flushes.iter_mut().for_each(|flush| flush.deadline = flush.deadline.min(latest));
        self.end_flushes();
        // A new deadline: producers may have been waited for as long already.
        self.flush(Instant::now() + PATIENCE, |_, _| {});
        self.end_flushes();
        self.service.end();
    }

    fn end_flushes(&mut self) {
        while !self.flushes.is_empty() {
            self.service.drain();
            if !self.end_a_flush() {
                let wait = self.work();
                if !wait.is_zero() {
                    thread::park_timeout(wait);
                }
            }
        }
    }

    /// Gets what lies in shared memory into buffers in files, when it is time, and says how long to sleep at most.
    fn keep_in_files(&mut self) -> Duration {
        if self.service.files.regions.is_empty() {
            return MAX_SLEEP;
        }
        let now = Instant::now();
        if now >= self.next_kept {
            self.next_kept = now + MAX_SLEEP;
            // What has not come by then is scraped. Who has yet to answer is not asked again: others may be waiting.
            self.service.ask_flush_of_idle();
            self.service.scrape();
        }
        self.next_kept.saturating_duration_since(now)
    }

    pub(crate) fn finish(&mut self) -> Option<Written> {
        let mut recording = self.long_trace.take()?;
        recording.finish(&mut self.service);
        Some(recording.written())
    }

    pub(crate) fn written(&self) -> Option<Written> {
        self.long_trace.as_ref().map(Recording::written)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use tracebuf::service::{EndpointStats, FlushTracker};

    use super::*;
    use crate::transport::{CentralBuffer, Transport};

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
        fn drain(&mut self, _: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            self.1.drained.fetch_add(1, Ordering::Relaxed);
            if self.0 {
                flushes.answer_all();
            }
        }

        fn ask_flush(&mut self, _: u64) {
            self.1.asked.fetch_add(1, Ordering::Relaxed);
        }

        fn scrape(&mut self, _: &mut [CentralBuffer]) {
            self.1.scraped.fetch_add(1, Ordering::Relaxed);
        }

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }
    }

    fn idle() -> Drain {
        Drain::new(Service::default(), None, SessionClock::new(false))
    }

    #[test]
    fn a_flush_that_all_have_answered_has_succeeded_however_late_it_is() {
        for (answers, told) in [(true, (1, 0)), (false, (0, 1))] {
            let mut drain = idle();
            drain.service.attach(Box::new(Answers(answers, Arc::default())));
            let (tell, all) = channel();
            drain.flush(Instant::now(), move |_, all| tell.send(all).unwrap());
            assert!(drain.end_a_flush() && !drain.end_a_flush());
            assert_eq!(all.recv(), Ok(answers));
            let flushes = drain.service.totals().flushes;
            assert_eq!((flushes.succeeded, flushes.failed), told);
        }
    }

    #[test]
    fn producers_are_drained_between_tasks_however_many_wait() {
        let (mut drain, calls) = (idle(), Arc::<Calls>::default());
        drain.service.attach(Box::new(Answers(true, calls.clone())));
        let (sender, tasks) = channel::<Task>();
        let (tell, told) = channel();
        for _ in 0..3 {
            let (tell, calls) = (tell.clone(), calls.clone());
            let _ = sender.send(Task::new(Box::new(move |_| {
                let _ = tell.send(calls.drained.load(Ordering::Relaxed));
            })));
        }
        drop((sender, tell));
        drain.run(&tasks, Arc::new(RecordingGate::new()));
        assert_eq!(told.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn an_end_waits_for_what_is_of_use_after_it_and_not_for_others() {
        for stops in [false, true] {
            let (mut drain, calls, gate) = (idle(), Arc::<Calls>::default(), Arc::new(RecordingGate::new()));
            drain.service.attach(Box::new(Answers(true, calls.clone())));
            let (sender, tasks) = channel::<Task>();
            let (tell, told) = channel();
            for (number, make) in
                [(0, Task::until_stop as fn(Work) -> Task), (1, Task::new), (2, Task::until_stop)]
            {
                let tell = tell.clone();
                let _ = sender.send(make(Box::new(move |_| tell.send(number).unwrap())));
            }
            let _ = sender.send(Task::new(Box::new(Drain::stop)));
            drop(tell);
            // As a long trace that is full does.
            gate.off();
            if stops {
                gate.stop();
            }
            drain.run(&tasks, gate);
            let done = if stops { &[1][..] } else { &[0, 1, 2] };
            // Nothing waits for one that was left out.
            assert_eq!(told.iter().collect::<Vec<_>>(), done);
            // Nor is anything else done between them.
            assert_eq!(calls.drained.load(Ordering::Relaxed), done.len() + 1);
        }
    }

    #[test]
    fn for_a_file_who_has_yet_to_answer_is_scraped_and_not_asked_and_behind_the_end_nobody_is() {
        let told = |calls: &Calls| {
            let [asked, scraped] = [&calls.asked, &calls.scraped].map(|count| count.load(Ordering::Relaxed));
            (asked, scraped)
        };
        for stops in [false, true] {
            let (mut drain, mute, other) = (idle(), Arc::<Calls>::default(), Arc::<Calls>::default());
            drain.service.files.regions.push(Default::default());
            drain.next_kept = Instant::now();
            drain.service.attach(Box::new(Answers(false, mute.clone())));
            drain.service.attach(Box::new(Answers(true, other.clone())));
            if stops {
                let (sender, tasks) = channel::<Task>();
                let _ = sender.send(Task::new(Box::new(Drain::stop)));
                drain.run(&tasks, Arc::new(RecordingGate::new()));
                assert_eq!((told(&mute), told(&other)), ((0, 0), (0, 0)));
            } else {
                drain.service.begin_flush();
                drain.keep_in_files();
                // It is not yet time again.
                drain.keep_in_files();
                assert_eq!((told(&mute), told(&other)), ((1, 1), (2, 1)));
            }
        }
    }
}
