//! A running session.

use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use crate::clock::BootClock;
use crate::drain::{Drain, Task, Work};
use crate::ending::{DrainThread, Ending};
use crate::error::SessionError;
use crate::limits;
use crate::long_trace::{LongTraceStatus, Progress};
use crate::process_tree::ProcessTree;
use crate::producer_cell::RecorderContext;
use crate::recorder::Recorder;
use crate::refusals::Refusals;
use crate::side_packets::{SideData, SidePackets};
use crate::snapshot::{Snapshot, Spare};
use crate::stopped::Stopped;
use crate::summary::{Summary, summary_of};
use crate::transport::Transport;
use crate::waits::{FOR_EVER, GRACE, PATIENCE, Waker};
use tracebuf::vm::RingProgram;

/// A running session. See [the crate](crate).
///
/// Call it from any thread, through `&Session` or an `Arc`. Dropping it stops it: a long trace is completed (soon
/// after, where a [`Transport`] drops it), and what is in the buffers is gone.
pub struct Session {
    pub(crate) context: Arc<RecorderContext>,
    pub(crate) sources: Vec<(String, u16)>,
    pub(crate) tasks: Sender<Task>,
    pub(crate) waker: Waker,
    pub(crate) thread: DrainThread,
    pub(crate) ending: Ending,
    pub(crate) progress: Option<Arc<Progress>>,
    pub(crate) spare: Spare,
    pub(crate) side: SideData,
    pub(crate) before_stop: Mutex<Vec<Weak<dyn BeforeStop>>>,
}

/// Something that asks a session for its last before that stops.
pub(crate) trait BeforeStop: Send + Sync {
    /// The session, which may have no owner any more, is about to stop.
    fn before_stop(&self, session: &Session);
}

impl Session {
    /// The number of the producer that is this process's own threads: no [`Transport`] may have it.
    pub const OWN_PRODUCER_ID: u16 = limits::OWN_PRODUCER_ID;

    /// A recorder into the first buffer.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.context.clone(), 0)
    }

    /// A recorder into the buffer that a data source was mapped to, if it was.
    pub fn recorder_of(&self, data_source: &str) -> Option<Recorder> {
        Recorder::of_source(&self.context, &self.sources, data_source)
    }

    /// Gets all that was recorded until now into the buffers.
    ///
    /// Producers have until the timeout to send what they have; then shared memory is *scraped*: finished packets of
    /// unfinished chunks are copied too.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when a producer ([`Summary::producers`] names it) or the drain thread did not answer;
    /// otherwise those of [`snapshot`](Self::snapshot).
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        let deadline = Instant::now() + timeout.min(FOR_EVER);
        // At the deadline the thread looks which producers have not answered; this waits a little longer to hear it.
        let all = self.ask_for(deadline + GRACE, Task::until_stop, move |drain, answer| {
            drain.flush(deadline, move |_, all| tell(&answer, all));
        })?;
        if all { Ok(()) } else { Err(SessionError::Timeout) }
    }

    /// Flushes, and copies all buffers while recording goes on.
    ///
    /// Beside a [long trace](crate::SessionBuilder::long_trace) it also holds what was written to the file and would
    /// still be in the rings, if [memory for it is prepared](crate::SessionBuilder::prepare_snapshots) or there is a
    /// [`FlightRecorder`](crate::FlightRecorder); otherwise only what was not yet written, mostly without its names.
    ///
    /// Cost: the drain thread copies the used part of the buffers.
    ///
    /// # Errors
    /// No memory for the copies; [`SessionError::Timeout`] after 10 s, of which producers have 5; those of
    /// [`summary`](Self::summary).
    pub fn snapshot(&self) -> Result<Snapshot, SessionError> {
        let (deadline, spare) = (Instant::now() + PATIENCE, self.spare.clone());
        // A snapshot that was asked for before a stop is still made: it may be the last moments before a panic.
        let taken = self.ask_for(deadline + PATIENCE, Task::new, move |drain, answer| {
            // However late its turn comes, producers that answer at once are in it.
            let deadline = deadline.max(Instant::now() + GRACE);
            drain.flush(deadline, move |drain, _| {
                let read = drain.long_trace.as_ref().and_then(|recording| recording.history.as_ref());
                tell(&answer, Snapshot::take(&mut drain.service, read, &spare));
            });
        })?;
        taken.map_err(|error| SessionError::io("making a snapshot", error))
    }

    /// From now on, has snapshots beside a long trace hold what was written to the file, too.
    pub(crate) fn keep_history(&self) -> Result<(), SessionError> {
        self.ask(|drain| {
            let Drain { service, long_trace, .. } = drain;
            long_trace.iter_mut().for_each(|recording| recording.keep_history(service));
        })
    }

    /// Returns a number for a producer that is to be [attached](Self::attach): from 2 to 65,535 in turn, without those
    /// of which a buffer has a sequence in its table, or that an attached transport [names](Transport::identity).
    ///
    /// # Errors
    /// [`SessionError::NoProducerId`] when all are taken; otherwise those of [`summary`](Self::summary).
    pub fn new_producer_id(&self) -> Result<u16, SessionError> {
        let id = self.ask(|drain| drain.service.new_producer_id())?;
        id.ok_or(SessionError::NoProducerId)
    }

    /// Adds a producer that is elsewhere, with a number that no other has: one from
    /// [`new_producer_id`](Self::new_producer_id), or one of your own of which no buffer has a sequence.
    ///
    /// # Errors
    /// Those of [`summary`](Self::summary). After a timeout the producer is still added: do not try again.
    pub fn attach(&self, transport: impl Transport + 'static) -> Result<(), SessionError> {
        self.ask(move |drain| drain.service.attach(Box::new(transport)))
    }

    /// From now on, folds what a buffer overwrites of a producer's packets by a program, as Perfetto's service does with
    /// those of data sources ([`CarryOver::join_vm`](crate::CarryOver::join_vm)). Beside a long trace nothing is folded:
    /// what a buffer overwrites there was mostly written to the file.
    ///
    /// # Errors
    /// [`SessionError::Program`] if the program cannot be had; otherwise those of [`summary`](Self::summary).
    pub fn add_program(
        &self,
        buffer: u16,
        program: RingProgram<'_>,
        producer_id: u16,
    ) -> Result<(), SessionError> {
        let RingProgram { source, program, memory_limit_kb } = program;
        let (source, bytes) = (source.to_owned(), program.to_owned());
        let joined = self.ask(move |drain| {
            let program = RingProgram { source: &source, program: &bytes, memory_limit_kb };
            let buffer = drain.service.buffers.get_mut(usize::from(buffer));
            buffer.is_some_and(|buffer| buffer.observer_mut().join_vm(program, producer_id))
        })?;
        if joined { Ok(()) } else { Err(SessionError::Program) }
    }

    /// Returns the time of the session's clock, in nanoseconds of boot time.
    pub fn now(&self) -> u64 {
        // In a child nothing finishes what a thread of the parent was changing.
        if self.context.gate.is_here() { self.context.clock.now() } else { BootClock.now() }
    }

    /// Returns what wakes the drain thread, for a [`Transport`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Packets that come before all that the buffers hold, in every file.
    pub fn side_packets(&self) -> SidePackets {
        self.side.packets.clone()
    }

    /// Programs that came and were sent away, for whoever accepts them: [`Summary::refused`] tells of them.
    pub fn refusals(&self) -> Refusals {
        self.side.refusals.clone()
    }

    /// The data sources, each with the number of its buffer.
    pub fn data_sources(&self) -> &[(String, u16)] {
        &self.sources
    }

    /// The number of the buffer that a data source was mapped to, if it was.
    pub fn buffer_of(&self, data_source: &str) -> Option<u16> {
        self.sources.iter().find(|(source, _)| source == data_source).map(|(_, buffer)| *buffer)
    }

    /// For each buffer, after how many bytes a writer repeats its names, clocks and tracks.
    pub fn state_every(&self) -> &[u32] {
        &self.context.state_every
    }

    /// Returns true in the process that started the session, and false in its children.
    pub fn is_here(&self) -> bool {
        self.context.gate.is_here()
    }

    /// The programs in containers that record into this session.
    pub fn process_tree(&self) -> ProcessTree {
        self.side.process_tree.clone()
    }

    /// How the long trace is doing; `None` if there is none, and in a child after a fork.
    pub fn long_trace(&self) -> Option<LongTraceStatus> {
        // In a child, the status's lock may be held by a thread of the parent.
        self.progress.as_ref().filter(|_| self.context.gate.is_here()).map(|progress| progress.status())
    }

    /// Returns what has happened so far.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] after 5 s; [`SessionError::Stopped`] when the session has ended or soon will, or this
    /// is its own thread; [`SessionError::Forked`] in a child after a fork.
    pub fn summary(&self) -> Result<Summary, SessionError> {
        let summary = self.ask(|drain| summary_of(&drain.service, drain.written()))?;
        Ok(Summary { long_trace: self.long_trace(), ..summary })
    }

    /// Has something told before it stops.
    pub(crate) fn tell_before_stop(&self, other: Weak<dyn BeforeStop>) {
        let mut told = self.before_stop.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|known| known.strong_count() > 0);
        told.push(other);
    }

    /// Ends recording, flushes, completes the long trace, and returns the buffers. An event over several chunks that a
    /// thread is still within is given up, and counted, unless its buffer is full and keeps its oldest.
    ///
    /// Producers have 5 s to send what they have; then that is scraped. Snapshots and flushes that were asked for
    /// before are done first, as are triggers of a flight recorder that wait for their time; other callers that wait
    /// get [`SessionError::Stopped`].
    ///
    /// # Errors
    /// The session was stopped before, or this is a child after a fork, or the session's own thread.
    /// [`Stopped::long_trace`] says if the long trace could not be written whole.
    pub fn stop(&self) -> Result<Stopped, SessionError> {
        self.check_caller()?;
        let told = std::mem::take(&mut *self.before_stop.lock().unwrap_or_else(PoisonError::into_inner));
        told.iter().filter_map(Weak::upgrade).for_each(|told| told.before_stop(self));
        // An exit waits for a stop that has begun.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread.take().ok_or(SessionError::Stopped)?;
        self.context.gate.stop();
        let stop: Work = Box::new(|drain| {
            drain.last_flush();
            drain.stop();
        });
        let _ = self.tasks.send(Task::new(stop));
        self.waker.wake();
        let mut drain = thread.join().ok().flatten().ok_or(SessionError::Stopped)?;
        let file = drain.finish();
        Ok(Stopped::new(drain.service, file, self.long_trace()))
    }

    fn check_caller(&self) -> Result<(), SessionError> {
        if !self.context.gate.is_here() {
            // The thread is not in this process; waiting for it would be for ever.
            return Err(SessionError::Forked);
        }
        // It would wait for itself: a panic hook, called by a panic on that thread.
        if self.waker.is_current() { Err(SessionError::Stopped) } else { Ok(()) }
    }

    /// Makes the drain thread do something before the session stops, and waits for the result.
    fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Drain) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.ask_for(Instant::now() + PATIENCE, Task::until_stop, |drain, answer| tell(&answer, task(drain)))
    }

    /// The same with a task that may give its result later.
    fn ask_for<T: Send + 'static>(
        &self,
        deadline: Instant,
        make: fn(Work) -> Task,
        task: impl FnOnce(&mut Drain, SyncSender<T>) + Send + 'static,
    ) -> Result<T, SessionError> {
        self.check_caller()?;
        let (answer, answers) = sync_channel(1);
        let work: Work = Box::new(move |drain| task(drain, answer));
        if self.context.gate.is_stopping() {
            // The answer would come only after the stop, which may wait for producers.
            return Err(SessionError::Stopped);
        }
        self.tasks.send(make(work)).map_err(|_| SessionError::Stopped)?;
        self.waker.wake();
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Timeout) => Err(SessionError::Timeout),
            Err(RecvTimeoutError::Disconnected) => Err(SessionError::Stopped),
        }
    }
}

/// Answers a caller that may have given up.
fn tell<T>(answer: &SyncSender<T>, value: T) {
    let _ = answer.send(value);
}

debug_fields!(Session, sources);

impl Drop for Session {
    fn drop(&mut self) {
        if !self.context.gate.is_here() {
            // The thread is not in this process, and its handle may be that of a thread of this process.
            std::mem::forget(self.thread.clone());
            self.ending.forget();
            return;
        }
        if self.waker.is_current() {
            // A transport was the last owner. The thread finds that nothing can ask for anything more, and ends.
            self.context.gate.off();
            return;
        }
        // Callers that want to hear of errors call `stop`.
        let _ = self.stop();
    }
}
