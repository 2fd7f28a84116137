//! The flight recorder: snapshots of a session's rings, when something goes wrong.

mod causes;
mod files;
mod reasons;
#[cfg(test)]
mod tests;
mod triggers;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::at_exit::AtExit;
use crate::error::SessionError;
use crate::session::{BeforeStop, Session};
use crate::summary::Losses;
use tracebuf_std::display::Escaped;
use tracebuf_std::fork;
use tracebuf_std::signals::SignalWatches;
pub use triggers::FlightHandle;
use triggers::work;
use write::Inner;

/// Writes snapshots of a session's rings: on request, on a panic, on signals, on triggers.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tracebuf_session::{FlightRecorder, Session};
///
/// let folder = std::env::temp_dir().join(format!("doc-flight-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let session = Arc::new(Session::builder().ring(4 << 20).prepare_snapshots().start()?);
/// let recorder = FlightRecorder::new(&session, &folder)?;
/// recorder.on_panic();
///
/// session.recorder().instant("deadline missed");
/// recorder.trigger("deadline", Duration::from_millis(10)); // and 10 ms of what comes after
/// let path = recorder.snapshot("by hand")?; // …/20261128T163739.123456Z.my_server-4711.by hand-1.pftrace
/// assert!(path.to_string_lossy().ends_with(".by hand-1.pftrace"));
/// drop(recorder); // waits for the trigger
/// assert_eq!(std::fs::read_dir(&folder)?.count(), 2);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Files
/// A file `TIME.PROCESS-PID.REASON-NUMBER.pftrace` appears in the folder when it is complete. The time is in UTC, so
/// that names sort by it; the number says which of this recorder's files of that reason it is. No file replaces
/// another, whoever writes into the folder. A program that is killed while writing leaves a hidden part, `.NAME.part`,
/// which you have to remove.
///
/// Of each reason, 8 files stay ([`keep`](Self::keep)): the newest 6, and 2 that were the first of their run
/// ([`keep_first`](Self::keep_first)), because the first panic has the cause and those that follow push it out.
/// Earlier runs' and other processes' files in the folder count too. There are 64 reasons in a folder at most: others
/// are written as reason `other`.
///
/// The first 2 snapshots of a reason are written at once. After that there is one a second
/// ([`least_interval`](Self::least_interval)): panics, signals and triggers that come sooner share one at the end of
/// that second, and are counted in [`FlightStatus::suppressed`]. Snapshots by hand are always written.
///
/// Standard error says where a snapshot is that nothing waits for and what is missing in it, or why there is none.
///
/// # Limits
/// If threads may hang, let the ring have [`self_contained_chunks`](crate::BufferConfig::self_contained_chunks): what
/// they did last can then be read. A session with a [long trace](crate::SessionBuilder::long_trace) has no flight
/// recorder: use two sessions.
pub struct FlightRecorder {
    handle: FlightHandle,
    worker: Option<JoinHandle<()>>,
    signals: SignalWatches,
    /// Triggers that still wait when the process ends are written then.
    _at_exit: AtExit,
}

/// What a flight recorder has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlightStatus {
    /// Snapshots written.
    pub written: u64,
    /// Snapshots that could not be written.
    pub failed: u64,
    /// Triggers that share a snapshot with another of the same reason, or have none because 16 others were waiting.
    pub merged: u64,
    /// Panics, signals and triggers that came too soon after a snapshot of their reason: the next one serves them.
    pub suppressed: u64,
    /// Why the last failed snapshot failed.
    pub error: Option<String>,
    /// The last snapshot that was written.
    pub last: Option<PathBuf>,
    /// What is missing in it, apart from what its rings have overwritten.
    pub losses: Losses,
    /// How long the drain thread stood still for it.
    pub stall: Duration,
}

impl FlightRecorder {
    /// Makes a recorder of a session into a folder that exists, and stays the same if the process changes its working
    /// directory. The recorder does not keep the session alive.
    ///
    /// # Errors
    /// The folder is not one, the session has a long trace, or the system has no thread.
    pub fn new(session: &Arc<Session>, folder: impl AsRef<Path>) -> io::Result<Self> {
        if session.progress.is_some() {
            let why = "the session has a long trace, whose file takes what a flight recorder would find in the rings: \
                       start two sessions, or do without one of them";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let folder = folder.as_ref().to_owned();
        if !folder.is_dir() {
            let why = format!("{} is no folder: it has to be there", Escaped(folder.display()));
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        // Programs that go into the background leave the folder that they were started in.
        let inner = Arc::new(Inner::new(session, std::path::absolute(folder)?));
        let waits: Arc<dyn BeforeStop> = inner.clone();
        session.tell_before_stop(Arc::downgrade(&waits));
        let (works, waits) = (inner.clone(), Arc::downgrade(&inner));
        let at_exit = AtExit::new(move || {
            if let Some(inner) = waits.upgrade() {
                inner.finish();
            }
        })?;
        let worker = thread::Builder::new().name("tracebuf-flight".into()).spawn(move || work(&works))?;
        let handle = FlightHandle::new(inner);
        Ok(Self { handle, worker: Some(worker), signals: SignalWatches::default(), _at_exit: at_exit })
    }

    /// Sets how many files of each reason to keep in the folder, whichever process wrote them: 8 unless set. A quarter
    /// of them, or one if there are two or three, are the [first](Self::keep_first) of a run.
    #[must_use]
    pub fn keep(self, files: u32) -> Self {
        self.set_limits(|limits| limits.files = files.max(1))
    }

    /// Sets how many of the files that are kept are the first of a run, rather than the newest. One at least is the
    /// newest. That many are also written at once, whatever the [interval](Self::least_interval).
    #[must_use]
    pub fn keep_first(self, files: u32) -> Self {
        self.set_limits(|limits| limits.first = Some(files))
    }

    /// Sets how long after a snapshot of a reason the next one may follow: a second, unless set.
    #[must_use]
    pub fn least_interval(self, interval: Duration) -> Self {
        self.set_limits(|limits| limits.interval = interval)
    }

    fn set_limits(self, set: impl FnOnce(&mut reasons::Limits)) -> Self {
        if self.inner().is_here() {
            set(&mut self.inner().state().reasons.limits);
        }
        self
    }

    /// Writes a snapshot now, and returns its path. Folders that `reason` begins with must exist. What is different
    /// each time belongs in an event, or in a [trigger](Self::trigger_with)'s arguments.
    ///
    /// # Errors
    /// The session does not answer, has ended or is about to; the file system refuses; or `reason` is not valid: it
    /// leads out of the folder, its name is empty or has more than 120 bytes, or, on Windows, it has a colon.
    pub fn snapshot(&self, reason: &str) -> Result<PathBuf, SessionError> {
        self.inner().snapshot(reason)
    }

    /// Returns what was done so far; in a child after a fork, nothing.
    pub fn status(&self) -> FlightStatus {
        if self.inner().is_here() { self.inner().state().status.clone() } else { FlightStatus::default() }
    }

    /// Returns what triggers this recorder from elsewhere, as long as it is there.
    pub fn handle(&self) -> FlightHandle {
        self.handle.clone()
    }

    fn inner(&self) -> &Arc<Inner> {
        self.handle.inner()
    }
}

debug_fields!(FlightRecorder);

impl Drop for FlightRecorder {
    /// Triggers still waiting are written at once; this waits for that, but not for their time.
    fn drop(&mut self) {
        if !self.inner().is_here() {
            // The threads are not in this process, and their handles may be those of threads of this process.
            std::mem::forget(self.worker.take());
            self.signals.forget();
            return;
        }
        self.signals.end();
        self.inner().end();
        self.worker.take().into_iter().for_each(fork::join);
    }
}
