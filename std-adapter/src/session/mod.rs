//! Sessions: tracing of this process that is always on, bounded, and there when something goes wrong.
//!
//! ```
//! use std::time::Duration;
//! use tracebuf_std::session::Session;
//!
//! // A ring of 16 MiB: the newest events are there, whenever somebody asks.
//! let session = Session::builder().ring(16 << 20).start()?;
//!
//! let recorder = session.recorder(); // cheap to clone, for any thread
//! {
//!     let _slice = recorder.enter("load");
//!     recorder.instant("cache miss");
//! }
//!
//! let path = std::env::temp_dir().join(format!("doc-session-{}.pftrace", std::process::id()));
//! session.snapshot()?.write_to(&path)?; // for ui.perfetto.dev; recording goes on
//! let summary = session.stop()?.summary();
//! println!("lost: {}", summary.losses());
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//! Each thread has a writer that fills chunks of shared memory without a lock. Completed chunks are handed to
//! the *drain thread*, which owns the central buffers, copies them in, and does everything else on request:
//! flushes, snapshots, long traces. So recording threads do not wait for a file or a snapshot; when shared memory is
//! full they drop packets, counted and reported, or wait for the drain thread, if the session is built
//! [with `Exhaustion::Stall`](SessionBuilder::exhaustion).
//!
//! # On demand
//! A program that records only when somebody asks for a trace has a [`Relay`]: the relay's recorders exist all the
//! time, even in a library or a subscriber for `tracing`, and record into whichever session the relay is connected to.
//!
//! # Other programs
//! On Linux, programs in other processes record into a session too: each through a [`Connection`] to the service's
//! [`ProducerSocket`], or a [`Follower`], which has one whenever a service listens. Programs with Perfetto's own SDK
//! come to a [`PerfettoSocket`]. For any other way to the service, such as over a network or from another processor,
//! implement [`Transport`]. The other way round, [`ConnectionBuilder::follow_perfetto`] puts a program of this crate
//! into the traces of Perfetto's own service, whenever somebody records with that.
//!
//! # What a trace holds
//! Clock snapshots (boot time, steady, time of day), from which readers know the time of day of events; the packets,
//! with the real user and process ids; and at its end `TraceStats`: counters of each buffer, chunk sizes of each
//! writer, flushes, refused packets. `select * from stats where severity = 'data_loss' and value != 0` lists every
//! loss. Before the packets of programs in containers, that is in Linux's pid namespaces, `ProcessTree` says which
//! processes and threads they are outside: their tracks have the numbers that the programs see themselves.
//!
//! A packet's `trusted_packet_sequence_id` says who wrote it: it is [`sequence_id`](tracebuf::service::sequence_id) of
//! the producer's number and the writer's, 65,536 times the first plus the second; [`Summary::sequences`] lists both.
//! This process's threads are writers of [`Session::OWN_PRODUCER_ID`], one for each buffer that they record into; the
//! number of a writer that has ended goes to the next one.
//!
//! # What loses events
//! No loss is silent: [`Summary::losses`] says in one line whether there was any.
//!
//! | when | what is lost | what helps |
//! |---|---|---|
//! | shared memory is full: threads record faster than it is emptied | events meanwhile | [more][m], or [waiting][w] |
//! | more threads record than shared memory has chunks of 2 KiB (512 in 1 MiB) | events of the rest | [more][m] |
//! | more than 1,024 threads record | events of the rest | fewer threads that record |
//! | the ring is full | its oldest events | a larger [ring](SessionBuilder::ring), or a [long trace](LongTrace) |
//! | a buffer that [keeps its oldest](BufferConfig::discard) is full, or a long trace's file | the rest | more room |
//! | an event comes from within another one's details | that event | to record it before or after |
//! | a destructor records after the thread's writer is gone | its event | a first event before that local is made |
//! | a thread records many events of more than 4 KB while another one is sending | some of them | [waiting][w] |
//!
//! [m]: SessionBuilder::shared_memory
//! [w]: SessionBuilder::exhaustion
//!
//! # After a crash
//! A buffer [in a file](BufferConfig::in_file) survives the process, and with it what threads had finished just before,
//! if [shared memory lies there too](SessionBuilder::shared_memory_in_file); see [`region_file`](crate::region_file).
//!
//! # Forks
//! In a child the parent's session is off: recorders record nothing, calls return [`SessionError::Forked`], dropping
//! the session does nothing. A handler of `pthread_atfork` sees to it. The child may start a session of its own; the
//! files of the parent's session are free once that has ended, whatever its children do. The same holds for a flight
//! recorder; signals on which it writes a last snapshot end a child at once, unless the child has a recorder for them.
//!
//! # On Windows
//! There are no buffers in files, and no signals on which a flight recorder would write. A long trace goes into a
//! regular file, into which nobody else can write meanwhile. A buffer's memory [is reserved](crate::PagedMemory) when
//! the session starts.

// What is where:
//
// - Starting: `builder`, and `buffer_config` for each buffer; `open_files`, which are put back on an error, and
//   `own_files`, by which a running session knows its own.
// - The drain thread: `drain` is its loop, and owns `central`: the buffers and their producers. `asked` knows which
//   flushes a producer has answered, `producer_ids` numbers new producers, `counts` adds up what they count.
// - How chunks come: each producer by a `transport`; `in_process` is that of this process's threads, `processes` has
//   those of other programs, and `perfetto_socket` is where Perfetto's service listens.
// - What threads write into: `producer_cell`, shared memory with the producer over it; `queue`, which holds what they
//   ask for; `waker`, which wakes the thread that takes that.
// - Recording: `recorder`, and `packet_writer` for whole packets. `shared` is what all recorders of a session have in
//   common, `switch` says whether it records; `relay` leads recorders by a `route` from session to session.
// - What comes out: `snapshot`, which `trim` cuts to a window; `stopped`, what a session leaves, and its summary with
//   the `losses`; `long_trace` and `flight_recorder`, which write files; `process_tree`, who is in a container.
// - Time: `clock`, the system's; `session_clock`, that or the processor's counter (`tsc`); `waits`, how long to wait.
// - `error`: what can go wrong.

mod asked;
mod beside;
mod buffer_config;
mod builder;
mod central;
mod clock;
mod counts;
mod drain;
mod error;
mod flight_recorder;
mod in_process;
mod long_trace;
mod losses;
mod open_files;
mod own_files;
mod packet_writer;
#[cfg(unix)]
mod perfetto_socket;
mod process_tree;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod processes;
mod producer_cell;
mod producer_ids;
mod queue;
mod recorder;
mod relay;
mod route;
mod session_clock;
mod shared;
mod snapshot;
mod stopped;
pub(crate) mod switch;
mod transport;
mod trim;
mod tsc;
pub(crate) mod waits;
mod waker;

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

// What recorders take and give, so that most programs need no more of the core.
pub use tracebuf::producer::Exhaustion;
pub use tracebuf::producer::track_event::{
    Details, Event, LogMessage, LogPriority, OnTrack, Tracer, TracerStats, Track, Unit, Value,
};

pub use crate::counts::{Flushes, Written};
pub use crate::region_file::BufferMemory;
pub use crate::this_process::this_process;
#[cfg(unix)]
pub(crate) use beside::Descriptions;
pub use buffer_config::BufferConfig;
pub use builder::SessionBuilder;
pub use clock::BootClock;
pub use counts::ProducerSummary;
pub use error::SessionError;
pub use flight_recorder::{FlightRecorder, FlightStatus};
pub use long_trace::{LongTrace, LongTraceStatus, SyncPolicy};
pub use losses::Losses;
pub use packet_writer::PacketWriter;
#[cfg(unix)]
pub use perfetto_socket::perfetto_socket;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use processes::{
    Connection, ConnectionBuilder, Follower, PerfettoSocket, PerfettoSocketBuilder, ProducerSocket,
    ProducerSocketBuilder,
};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use processes::{SocketFile, SocketKind};
pub use recorder::{Recorder, SliceGuard, ThreadTracer, TrackRecorder, TrackSliceGuard};
pub use relay::Relay;
pub use session_clock::SessionClock;
pub use snapshot::Snapshot;
pub use stopped::{Stopped, Summary};
pub use transport::{CentralBuffer, Transport};
pub use waker::Waker;

use drain::{Drain, Task, Work};
use long_trace::Progress;
use shared::Shared;
use snapshot::Spare;
use stopped::summary_of;
use waits::{A_MOMENT, FOR_EVER, PATIENCE};

/// A running session. See [the module](self).
///
/// Calls may come from any thread, through `&Session` or an `Arc` of it. Dropping it stops it; a long trace is then
/// completed (soon after, where a [`Transport`] drops it), and what is in the buffers is gone.
pub struct Session {
    shared: Arc<Shared>,
    sources: Vec<(String, u16)>,
    tasks: Sender<Task>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<Option<Drain>>>>,
    progress: Option<Arc<Progress>>,
    spare: Spare,
    #[cfg(unix)]
    beside: beside::Beside,
}

impl Session {
    /// The number of the producer that is this process's own threads: no [`Transport`] may have it.
    pub const OWN_PRODUCER_ID: u16 = 1;

    /// A builder of a session, with one ring of 4 MiB unless set otherwise.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new()
    }

    /// A recorder into the first buffer.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.shared.clone(), 0)
    }

    /// A recorder into the buffer that a data source was mapped to; `None` if it was not mapped.
    pub fn recorder_of(&self, data_source: &str) -> Option<Recorder> {
        Recorder::of_source(&self.shared, &self.sources, data_source)
    }

    /// Gets all that was recorded until now into the buffers.
    ///
    /// Producers are asked for what they have, and waited for until the timeout; then shared memory is *scraped*:
    /// finished packets of chunks that are still being written are copied too. Nothing else waits meanwhile: other
    /// calls are answered, flushes and snapshots in their own time, and programs that come are accepted. A producer
    /// that has yet to answer another flush is asked after that answer, and has what is left of this one's timeout.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when a producer, this process's threads included, did not answer in time (what it had
    /// is scraped anyway, and [`Summary::producers`] says which one it is), or the drain thread did not;
    /// [`SessionError::Stopped`] and [`SessionError::Forked`] as for [`snapshot`](Self::snapshot).
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        let deadline = Instant::now() + timeout.min(FOR_EVER);
        // At the deadline the thread looks which producers have not answered; this waits a little longer to hear it.
        let all = self.ask_for(deadline + A_MOMENT, Task::until_stop, move |drain, answer| {
            drain.flush(deadline, move |_, all| tell(&answer, all));
        })?;
        if all { Ok(()) } else { Err(SessionError::Timeout) }
    }

    /// Flushes, and copies all buffers while recording goes on.
    ///
    /// Beside a [long trace](SessionBuilder::long_trace), whose file takes what is in the buffers, the copy holds only
    /// what was recorded since its last period: perhaps nothing, perhaps events whose names, tracks and clocks are in
    /// the file, so that no reader can show them.
    ///
    /// Cost: on the drain thread one copy of the used part of the buffers, which takes as long as [`Snapshot::stall`]
    /// says. Recording threads go on into shared memory. The copies' memory is kept for the next snapshot;
    /// [`SessionBuilder::prepare_snapshots`] has it ready for the first.
    ///
    /// # Errors
    /// No memory for the copies; [`SessionError::Timeout`] when there is no answer in 10 s, of which producers have 5
    /// to send what they have; [`SessionError::Stopped`] when the session has ended or is about to, or this is its own
    /// thread; [`SessionError::Forked`] in a child after a fork.
    pub fn snapshot(&self) -> Result<Snapshot, SessionError> {
        let (deadline, spare) = (Instant::now() + PATIENCE, self.spare.clone());
        // A snapshot that was asked for before a stop is still made: it may be the last moments before a panic.
        let taken = self.ask_for(deadline + PATIENCE, Task::new, move |drain, answer| {
            // However late its turn comes, producers that answer at once are in it.
            let deadline = deadline.max(Instant::now() + A_MOMENT);
            drain.flush(deadline, move |drain, _| tell(&answer, Snapshot::take(&drain.central, &spare)));
        })?;
        taken.map_err(|error| SessionError::io("making a snapshot", error))
    }

    /// A number for a producer that is to be [attached](Self::attach): from 2 to 65,535, and then from 2 again, except
    /// those of which a buffer still has a sequence in its table, and those that an attached [`Transport`]
    /// [names](Transport::identity).
    ///
    /// Chunks with a number that is used again look like chunks of the producer that had it first: those that are no
    /// newer than what was read of it are discarded, and if it was not read, its packets and theirs are mixed. What was
    /// read keeps its place in the table until that is needed for another sequence.
    ///
    /// Cost: on the drain thread, a look at each sequence of all buffers.
    ///
    /// ```
    /// use tracebuf_std::session::Session;
    ///
    /// let session = Session::builder().start()?;
    /// let ids = [session.new_producer_id()?, session.new_producer_id()?];
    /// assert!(ids[0] != ids[1] && !ids.contains(&Session::OWN_PRODUCER_ID));
    /// # Ok::<(), tracebuf_std::session::SessionError>(())
    /// ```
    ///
    /// # Errors
    /// [`SessionError::NoProducerId`] when all are taken; [`SessionError::Timeout`] when the session does not answer in
    /// 5 s; [`SessionError::Stopped`] and [`SessionError::Forked`] as for [`snapshot`](Self::snapshot).
    pub fn new_producer_id(&self) -> Result<u16, SessionError> {
        let id = self.ask(Instant::now() + PATIENCE, |drain| drain.central.new_producer_id())?;
        id.ok_or(SessionError::NoProducerId)
    }

    /// Adds a producer that is elsewhere, with a number that no other has: one from
    /// [`new_producer_id`](Self::new_producer_id), or, where others number producers, one of which no buffer has a
    /// sequence any more. [`Transport`] says more about that.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the session does not answer in 5 s: it then adds the producer as soon as it can,
    /// so trying again would add another one; [`SessionError::Stopped`] when it has ended or is about to, or this is
    /// its own thread; [`SessionError::Forked`] in a child after a fork.
    pub fn attach(&self, transport: impl Transport + 'static) -> Result<(), SessionError> {
        self.ask(Instant::now() + PATIENCE, move |drain| drain.central.attach(Box::new(transport)))
    }

    /// The time of the session's clock, in nanoseconds of boot time.
    pub fn now(&self) -> u64 {
        // In a child nothing finishes what a thread of the parent was changing.
        if self.shared.switch.is_here() { self.shared.clock.now() } else { BootClock.now() }
    }

    /// What wakes the drain thread, for a [`Transport`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Descriptions of tracks that come before all that the buffers hold.
    #[cfg(unix)]
    pub(crate) fn descriptions(&self) -> Descriptions {
        self.beside.tracks.clone()
    }

    /// How the long trace is doing; `None` if there is none, and in a child after a fork.
    pub fn long_trace(&self) -> Option<LongTraceStatus> {
        // In a child, the status's lock may be held by a thread of the parent.
        self.progress.as_ref().filter(|_| self.shared.switch.is_here()).map(|progress| progress.status())
    }

    /// What has happened so far.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the session does not answer in 5 s; [`SessionError::Stopped`] and
    /// [`SessionError::Forked`] as for [`snapshot`](Self::snapshot).
    pub fn summary(&self) -> Result<Summary, SessionError> {
        let summary =
            self.ask(Instant::now() + PATIENCE, |drain| summary_of(&drain.central, drain.written()))?;
        Ok(Summary { long_trace: self.long_trace(), ..summary })
    }

    /// Ends recording, flushes, completes the long trace. The buffers are still there to be written. An event over
    /// several chunks that a thread is still within is given up, and counts as given up by its writer, unless its
    /// buffer is full and keeps its oldest.
    ///
    /// Producers have 5 s to send what they have: with one that never answers this takes that long, and then what it
    /// has is scraped. What other threads have asked for and has not begun is left out, and they hear
    /// [`SessionError::Stopped`], as do those that ask for something, or come, while this waits. The exceptions are
    /// snapshots that were asked for before, and flushes that have begun: these are done first, and have no more than 5
    /// s.
    ///
    /// # Errors
    /// The session was stopped before, or this is a child after a fork, or the session's own thread, which calls a
    /// [`Transport`]. [`Stopped::long_trace`] says if the long trace could not be written whole.
    pub fn stop(&self) -> Result<Stopped, SessionError> {
        if !self.shared.switch.is_here() {
            // The thread is not in this process; waiting for it would be for ever.
            return Err(SessionError::Forked);
        }
        if self.waker.is_current() {
            // It would wait for itself.
            return Err(SessionError::Stopped);
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = thread.ok_or(SessionError::Stopped)?;
        self.shared.switch.stop();
        let stop: Work = Box::new(|drain| {
            drain.last_flush();
            drain.stop();
        });
        let _ = self.tasks.send(Task::new(stop));
        self.waker.wake();
        let mut drain = thread.join().ok().flatten().ok_or(SessionError::Stopped)?;
        let file = drain.finish();
        Ok(Stopped::new(drain.central, file, self.long_trace()))
    }

    /// Makes the drain thread do something before the session stops, and waits for the result.
    fn ask<T: Send + 'static>(
        &self,
        deadline: Instant,
        task: impl FnOnce(&mut Drain) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.ask_for(deadline, Task::until_stop, |drain, answer| tell(&answer, task(drain)))
    }

    /// The same with a task that may give its result later.
    fn ask_for<T: Send + 'static>(
        &self,
        deadline: Instant,
        make: fn(Work) -> Task,
        task: impl FnOnce(&mut Drain, SyncSender<T>) + Send + 'static,
    ) -> Result<T, SessionError> {
        if !self.shared.switch.is_here() {
            return Err(SessionError::Forked);
        }
        if self.waker.is_current() {
            // It would wait for itself: a panic hook, called by a panic on that thread.
            return Err(SessionError::Stopped);
        }
        let (answer, answers) = sync_channel(1);
        let work: Work = Box::new(move |drain| task(drain, answer));
        if self.shared.switch.is_stopping() {
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

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_on", &self.shared.switch.is_on()).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.shared.switch.is_here() {
            // The thread is not in this process. Dropping its handle would detach it, and the system may have given the
            // place by which it is identified to a thread of this process.
            std::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if self.waker.is_current() {
            // A transport was the last owner. The thread finds that nothing can ask for anything more, and ends.
            self.shared.switch.off();
            return;
        }
        // Callers that want to hear of errors call `stop`.
        let _ = self.stop();
    }
}
