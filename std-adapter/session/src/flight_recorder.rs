//! The flight recorder: snapshots of a session's rings, when something goes wrong.

mod files;
#[cfg(test)]
mod tests;
mod triggers;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::SessionError;
use crate::session::Session;
use files::Numbers;
use tracebuf_std::display::Escaped;
use tracebuf_std::fork;
use tracebuf_std::signals::SignalWatches;
use triggers::{Request, WAITING, work};

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
/// let recorder = FlightRecorder::new(&session, &folder)?.keep(4);
/// recorder.on_panic();
///
/// session.recorder().instant("deadline missed");
/// recorder.trigger("deadline", Duration::from_millis(10)); // and 10 ms of what comes after
/// let path = recorder.snapshot("by hand")?;
/// assert!(path.ends_with("by hand-0.pftrace"));
/// drop(recorder); // waits for the trigger
/// assert!(folder.join("deadline-0.pftrace").exists());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A file `REASON-N.pftrace` appears in the folder when it is complete. `N` continues after the largest that is there,
/// earlier runs included. With each new file the oldest of its reason go, so that a storm of signals, or a program
/// restarted after each panic, cannot fill the disk. Use a few fixed reasons: their number is not limited. Processes
/// that share a folder share its limit, and two that write one reason at the same moment may write the same file. A
/// program that is killed while writing leaves [parts](crate::Snapshot::write_to), which you have to remove.
///
/// Beside a [long trace](crate::SessionBuilder::long_trace) snapshots hold what the rings have room for, whether it was
/// written to the file or not, from the moment on when this is made; that takes the rings' memory once more. If threads
/// may hang, let the ring have [`self_contained_chunks`](crate::BufferConfig::self_contained_chunks): what they
/// did last can then be read. Standard error says where a snapshot is that nothing waits for, or why there is none.
pub struct FlightRecorder {
    inner: Arc<Inner>,
    requests: Option<SyncSender<Request>>,
    worker: Option<JoinHandle<()>>,
    signals: SignalWatches,
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
    /// Why the last failed snapshot failed.
    pub error: Option<String>,
    /// How long the drain thread stood still for the last snapshot.
    pub stall: Duration,
}

struct Inner {
    session: Weak<Session>,
    /// The fork count of the process that has the threads; the session may be gone when that is asked.
    forks: u32,
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    status: FlightStatus,
    keep: u32,
    numbers: Numbers,
    /// Reasons whose time has yet to come.
    waiting: Vec<String>,
}

impl FlightRecorder {
    /// Makes a recorder of a session into a folder that exists, and stays the same if the process changes its working
    /// directory. The recorder does not keep the session alive.
    ///
    /// # Errors
    /// The folder is not one, the session has ended, or the system has no thread.
    pub fn new(session: &Arc<Session>, folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref().to_owned();
        if !folder.is_dir() {
            let why = format!("{} is no folder: it has to be there", Escaped(folder.display()));
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        // Programs that go into the background leave the folder that they were started in.
        let folder = std::path::absolute(folder)?;
        if session.progress.is_some() {
            // What the file has got is to be in snapshots, too.
            session.keep_history().map_err(io::Error::other)?;
        }
        let state = Mutex::new(State { keep: 8, ..State::default() });
        let (session, forks) = (Arc::downgrade(session), fork::forks());
        let inner = Arc::new(Inner { session, forks, folder, state });
        let (requests, receiver) = sync_channel(WAITING);
        let works = inner.clone();
        let worker =
            thread::Builder::new().name("tracebuf-flight".into()).spawn(move || work(&works, &receiver))?;
        Ok(Self { inner, requests: Some(requests), worker: Some(worker), signals: SignalWatches::default() })
    }

    /// Sets how many files of each reason to keep in the folder, whichever process wrote them: 8 unless set.
    #[must_use]
    pub fn keep(self, files: u32) -> Self {
        if self.inner.is_here() {
            self.inner.state().keep = files.max(1);
        }
        self
    }

    /// Writes a snapshot now, and returns its path. `reason` begins the file's name; folders before that must exist.
    /// What is different each time belongs in an event.
    ///
    /// # Errors
    /// The session does not answer, has ended or is about to; the file system refuses; or `reason` is not valid: it
    /// leads out of the folder, its name is empty or has more than 226 bytes, or, on Windows, it has a colon.
    pub fn snapshot(&self, reason: &str) -> Result<PathBuf, SessionError> {
        self.inner.snapshot(reason, None)
    }

    /// Returns what was done so far; in a child after a fork, nothing.
    pub fn status(&self) -> FlightStatus {
        if self.inner.is_here() { self.inner.state().status.clone() } else { FlightStatus::default() }
    }
}

debug_fields!(FlightRecorder);

impl Drop for FlightRecorder {
    /// Triggers still waiting are written at once; this waits for that, but not for their time.
    fn drop(&mut self) {
        if !self.inner.is_here() {
            // The threads are not in this process, and their handles may be those of threads of this process.
            std::mem::forget((self.requests.take(), self.worker.take()));
            self.signals.forget();
            return;
        }
        self.requests = None;
        self.signals.end();
        self.worker.take().into_iter().for_each(fork::join);
    }
}

impl Inner {
    /// Whether this is the process that made the recorder.
    fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    /// For this process only: in a child, the lock may be held by a thread that does not exist there.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a snapshot that nothing waits for.
    fn report(&self, reason: &str, from: Option<u64>) {
        if !self.is_here() {
            // The lock of standard error, too, may be held by a thread that does not exist here.
            return;
        }
        let (result, reason, mut stderr) = (self.snapshot(reason, from), Escaped(reason), io::stderr());
        // What standard error does not take is lost: a panic would abort the program in a panic's hook.
        let _ = match result {
            Ok(path) => writeln!(stderr, "tracebuf: {reason}: the trace is in {}", Escaped(path.display())),
            Err(error) => writeln!(stderr, "tracebuf: {reason}: no trace: {error}"),
        };
    }

    fn snapshot(&self, reason: &str, from: Option<u64>) -> Result<PathBuf, SessionError> {
        if !self.is_here() {
            return Err(SessionError::Forked);
        }
        let result = self.try_snapshot(reason, from);
        let mut state = self.state();
        match &result {
            Ok((_, stall)) => {
                state.status.written += 1;
                state.status.stall = *stall;
            }
            Err(error) => {
                state.status.failed += 1;
                state.status.error = Some(error.to_string());
            }
        }
        result.map(|(path, _)| path)
    }

    /// Writes the file; says where it is, and how long the drain thread stood still for it.
    fn try_snapshot(&self, reason: &str, from: Option<u64>) -> Result<(PathBuf, Duration), SessionError> {
        files::check(reason).map_err(|error| SessionError::io(format!("{reason:?} is no reason"), error))?;
        let session = self.session.upgrade().ok_or(SessionError::Stopped)?;
        self.state().numbers.begin(reason);
        let _writes = Writes { inner: self, reason };
        // Not under the lock, which triggers wait for: the folder may be large, or far away.
        let behind = files::next(&self.folder, reason);
        let number = self.state().numbers.next(reason, behind);
        let path = files::path(&self.folder, reason, number);
        let snapshot = session.snapshot()?;
        // Writing takes long, and dropping the session meanwhile is meant to end it.
        drop(session);
        let stall = snapshot.stall();
        let snapshot = match from {
            Some(time) => snapshot.since(time),
            None => snapshot,
        };
        snapshot.write_to(&path).map_err(|error| SessionError::writing(&path, error))?;
        let keep = self.state().keep;
        files::remove_all_but(keep, &self.folder, reason, number);
        Ok((path, stall))
    }
}

/// A writer of a reason's snapshot, until that is there or has failed.
struct Writes<'a> {
    inner: &'a Inner,
    reason: &'a str,
}

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.inner.state().numbers.end(self.reason);
    }
}
