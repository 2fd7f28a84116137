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
//!     let _slice = recorder.slice("load");
//!     recorder.instant("cache miss");
//! }
//!
//! let path = std::env::temp_dir().join(format!("doc-session-{}.pftrace", std::process::id()));
//! session.snapshot()?.write_to(&path)?; // for ui.perfetto.dev; recording goes on
//! let summary = session.stop()?.summary();
//! assert_eq!(summary.invalid_packets, 0);
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
//! # What a trace holds
//! Clock snapshots (boot time, steady, time of day), by which events have the right time of day; the packets,
//! with the real user and process ids; and at its end `TraceStats`: counters of each buffer, chunk sizes of each
//! writer, flushes, refused packets. `select * from stats where severity = 'data_loss' and value != 0` lists
//! every loss.
//!
//! # After a crash
//! A buffer [in a file](BufferConfig::in_file) survives the process; see [`region_file`](crate::region_file).
//!
//! # Forks
//! In a child the parent's session is off: recorders record nothing, calls return
//! [`SessionError::Forked`], dropping the session does nothing. A handler of `pthread_atfork` sees to it. The
//! child may start a session of its own; the files of the parent's are free when that has ended, whatever its children
//! do. The same holds for a flight recorder; signals on which it writes a last snapshot end a child at once, unless
//! the child has a recorder for them.

mod builder;
mod clock;
mod drain;
mod error;
pub(crate) mod export;
mod flight_recorder;
mod in_process;
mod long_trace;
mod packet_writer;
mod recorder;
pub(crate) mod snapshot;
mod transport;
mod trim;
mod tsc;

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracebuf::buffer::{BufferStats, SequenceInfo};
use tracebuf::producer::track_event::Clock;

// What recorders take and give, so that most programs need no more of the core.
pub use tracebuf::producer::Exhaustion;
pub use tracebuf::producer::track_event::{Details, Event, Track, Unit, Value};

pub use crate::region_file::BufferMemory;
pub use builder::{BufferConfig, SessionBuilder};
pub use clock::{BootClock, SessionClock};
pub use drain::Waker;
pub use error::SessionError;
pub use export::Flushes;
pub use flight_recorder::{FlightRecorder, FlightStatus};
pub use long_trace::{LongTrace, LongTraceStatus, SyncPolicy};
pub use packet_writer::PacketWriter;
pub use recorder::{Recorder, Slice, ThreadTracer};
pub use snapshot::{Snapshot, Written};
pub use transport::{CentralBuffer, Transport};

pub(crate) use in_process::SHARED_MEMORY;

use clock::ClockReading;
use drain::{Core, Task};
use long_trace::Progress;
use recorder::Shared;
use snapshot::{Spare, write_trace};

use crate::whole_file::write_atomically;

/// A running session. See [the module](self).
///
/// Calls may come from any thread, through `&Session` or an `Arc` of it. Dropping it stops it; a long trace is
/// completed then (where a [`Transport`] drops it, soon after), and what is in the buffers is gone.
pub struct Session {
    shared: Arc<Shared>,
    sources: Vec<(String, u16)>,
    tasks: Sender<Task>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<Option<Core>>>>,
    progress: Option<Arc<Progress>>,
    spare: Spare,
}

/// What a session did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The counters of each buffer.
    pub buffers: Vec<BufferStats>,
    /// The writers of all buffers, with what was lost of each.
    pub sequences: Vec<SequenceInfo>,
    /// How flushes went.
    pub flushes: Flushes,
    /// Chunks for a buffer that is none of the producer's.
    pub chunks_discarded: u64,
    /// Patches for such a buffer.
    pub patches_discarded: u64,
    /// Packets left out of the long trace and of what [`Stopped::write_to`] wrote, because no producer may write them.
    /// Those that a snapshot leaves out are in the buffers still, and not among them: [`Written::invalid_packets`] and
    /// the statistics of its trace tell of them.
    pub invalid_packets: u64,
    /// Packets and bytes that are in the long trace's file, if there is one.
    pub file: Option<Written>,
    /// How the long trace is doing, or how it ended.
    pub long_trace: Option<LongTraceStatus>,
}

/// How long producers are given to send what they have, and a session's thread to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// For ever, to a process: clocks can count no further than some such time, so that more is as much.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl Session {
    /// The producer that this process's own threads are in the buffers: no [`Transport`]'s may have its number.
    pub const OWN_PRODUCER_ID: u16 = 1;

    /// A session with one ring of 4 MiB, unless told otherwise.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new()
    }

    /// A recorder into the first buffer.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.shared.clone(), 0)
    }

    /// A recorder into the buffer that a data source was mapped to; `None` for one that was not.
    pub fn recorder_of(&self, data_source: &str) -> Option<Recorder> {
        let (_, target) = self.sources.iter().find(|(name, _)| name == data_source)?;
        Some(Recorder::new(self.shared.clone(), *target))
    }

    /// Gets all that was recorded until now into the buffers.
    ///
    /// Producers are asked for what they have, and waited for until the timeout; then shared memory is
    /// *scraped*: finished packets of chunks that are still being written are copied too.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when a producer, which this process's threads are too, did not answer in time (what it
    /// had is scraped all the same), or the drain thread did not; [`SessionError::Stopped`] and
    /// [`SessionError::Forked`] as of [`snapshot`](Self::snapshot).
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        let deadline = Instant::now() + timeout.min(FOR_EVER);
        // At the deadline the thread looks who has not answered; this waits a little longer to hear it.
        let all = self.ask(deadline + Duration::from_millis(100), move |core| core.flush(deadline))?;
        if all { Ok(()) } else { Err(SessionError::Timeout) }
    }

    /// Flushes, and copies all buffers while recording goes on.
    ///
    /// Beside a [long trace](SessionBuilder::long_trace), whose file takes what is in the buffers, the copy holds only
    /// what was recorded since its last period: perhaps nothing, perhaps events whose names, tracks and clocks are in
    /// the file, so that no reader can show them.
    ///
    /// Cost: on the drain thread one copy of what is used of the buffers, whose time
    /// [`Snapshot::stall`] tells. Recording threads go on into shared memory. The copies' memory is kept for
    /// the next snapshot; [`SessionBuilder::prepare_snapshots`] has it ready for the first.
    ///
    /// # Errors
    /// No memory for the copies; [`SessionError::Timeout`] when there is no answer in 10 s, of which producers have 5
    /// to send what they have; [`SessionError::Stopped`] when the session has ended or this is its own thread,
    /// [`SessionError::Forked`] in a child after a fork.
    pub fn snapshot(&self) -> Result<Snapshot, SessionError> {
        let (deadline, spare) = (Instant::now() + PATIENCE, self.spare.clone());
        let taken = self.ask(deadline + PATIENCE, move |core| {
            core.flush(deadline);
            Snapshot::take(core, &spare)
        })?;
        taken.map_err(|error| SessionError::io("making a snapshot", error))
    }

    /// Adds a producer that is elsewhere, with a number that nobody else has: [`Transport`] says which are taken.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the session does not answer in 5 s, and then the producer is added as soon as it
    /// can, so that trying again would add another one; [`SessionError::Stopped`] when it has ended or this is its own
    /// thread, [`SessionError::Forked`] in a child after a fork.
    pub fn attach(&self, transport: impl Transport + 'static) -> Result<(), SessionError> {
        self.ask(Instant::now() + PATIENCE, move |core| core.attach(Box::new(transport)))
    }

    /// The time of the session's clock, in nanoseconds of boot time.
    pub fn now(&self) -> u64 {
        // In a child nobody finishes what a thread of the parent's was changing.
        if self.shared.switch.is_here() { self.shared.clock.now() } else { BootClock.now() }
    }

    /// What wakes the drain thread, for a [`Transport`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// How the long trace is doing; `None` if there is none, and in a child after a fork.
    pub fn long_trace(&self) -> Option<LongTraceStatus> {
        // In a child, a thread of the parent's may have had the status's lock.
        self.progress.as_ref().filter(|_| self.shared.switch.is_here()).map(|progress| progress.status())
    }

    /// What happened so far.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the session does not answer in 5 s; [`SessionError::Stopped`] and
    /// [`SessionError::Forked`] as of [`snapshot`](Self::snapshot).
    pub fn summary(&self) -> Result<Summary, SessionError> {
        let summary = self.ask(Instant::now() + PATIENCE, |core| summary_of(core))?;
        Ok(Summary { long_trace: self.long_trace(), ..summary })
    }

    /// Ends recording, flushes, completes the long trace. The buffers are still there to be written. An event over
    /// several chunks that a thread is still within is given up, and counts as given up by its writer.
    ///
    /// # Errors
    /// The session was stopped before, this is a child after a fork, or the session's own thread, which calls a
    /// [`Transport`]. That the long trace could not be written whole is said by [`Stopped::long_trace`].
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
        self.shared.switch.off();
        let deadline = Instant::now() + PATIENCE;
        let stop: Task = Box::new(move |core| {
            core.last_flush(deadline);
            core.stop();
        });
        let _ = self.tasks.send(stop);
        self.waker.wake();
        let mut core = thread.join().ok().flatten().ok_or(SessionError::Stopped)?;
        let file = core.finish();
        Ok(Stopped { core, is_cut: false, file, long_trace: self.long_trace() })
    }

    /// Has the drain thread do something, and waits for what it says.
    fn ask<T: Send + 'static>(
        &self,
        deadline: Instant,
        task: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        if !self.shared.switch.is_here() {
            return Err(SessionError::Forked);
        }
        if self.waker.is_current() {
            // It would wait for itself: a panic hook, called by a panic on that thread.
            return Err(SessionError::Stopped);
        }
        let (answer, answers) = sync_channel(1);
        let task: Task = Box::new(move |core| {
            // Who asked may have given up.
            let _ = answer.send(task(core));
        });
        self.tasks.send(task).map_err(|_| SessionError::Stopped)?;
        self.waker.wake();
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Timeout) => Err(SessionError::Timeout),
            Err(RecvTimeoutError::Disconnected) => Err(SessionError::Stopped),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_on", &self.shared.switch.is_on()).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.shared.switch.is_here() {
            // The thread is not in this process. To drop its handle would be to detach it, and the system may have
            // given its place, by which it goes, to a thread of this process.
            std::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if self.waker.is_current() {
            // A transport had the last of it. The thread finds that nobody can ask for anything more, and ends.
            self.shared.switch.off();
            return;
        }
        // Who wants to hear of errors calls `stop`.
        let _ = self.stop();
    }
}

/// A session that has ended, with what is in its buffers.
///
/// ```
/// use tracebuf_std::session::Session;
///
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// let path = std::env::temp_dir().join(format!("doc-stopped-{}.pftrace", std::process::id()));
/// let written = session.stop()?.write_to(&path)?;
/// assert!(written.packets > 0);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stopped {
    core: Core,
    /// Some of it was read for a file that could not be completed, or all of it for one that has not its name.
    is_cut: bool,
    /// Packets and bytes of the long trace, if there was one.
    pub file: Option<Written>,
    /// How the long trace ended.
    pub long_trace: Option<LongTraceStatus>,
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, long_trace, .. } = self;
        f.debug_struct("Stopped").field("file", file).field("long_trace", long_trace).finish_non_exhaustive()
    }
}

impl Stopped {
    /// Writes what nobody has read yet as a whole trace, in a file that appears when it is complete. As
    /// [`Snapshot::write_to`], without a copy of the buffers; a second call finds them empty. What was read of a buffer
    /// in a file is not there to be recovered any more. Who wants to be able to try again elsewhere, or to lose nothing
    /// if the process is killed meanwhile, takes a snapshot before the session stops.
    ///
    /// # Errors
    /// What the file system says, or that `path` is the file of the long trace or of a buffer; from then on, unless the
    /// file could not even be made, that what there was has been read: what is left of it is in the file that the first
    /// error names, if it names one.
    pub fn write_to(&mut self, path: &Path) -> std::io::Result<Written> {
        if self.is_cut {
            return Err(std::io::Error::other(
                "it was read for a file that could not be completed, or not be named",
            ));
        }
        self.core.files.check_is_none(path)?;
        let (totals, Self { core, is_cut, .. }) = (self.core.totals(), &mut *self);
        let written = write_atomically(path, |file| {
            *is_cut = true;
            let written = write_trace(&mut core.buffers, totals, &ClockReading::now(), None, file)?;
            core.invalid_packets += written.invalid_packets;
            Ok(written)
        })?;
        self.is_cut = false;
        Ok(written)
    }

    /// What the session did.
    pub fn summary(&self) -> Summary {
        Summary { file: self.file, long_trace: self.long_trace.clone(), ..summary_of(&self.core) }
    }
}

fn summary_of(core: &Core) -> Summary {
    let totals = core.totals();
    Summary {
        buffers: totals.dropped.told(core.buffers.iter().map(CentralBuffer::stats)).collect(),
        sequences: core.buffers.iter().flat_map(CentralBuffer::sequences).collect(),
        flushes: totals.flushes,
        chunks_discarded: totals.endpoints.chunks_discarded,
        patches_discarded: totals.endpoints.patches_discarded,
        invalid_packets: totals.invalid_packets,
        file: core.written(),
        long_trace: None,
    }
}
