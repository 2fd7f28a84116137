//! The flight recorder: what happened last, in a file, when something goes wrong.

mod files;
mod numbers;
mod signals;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::waits::FOR_EVER;
use super::{Session, SessionError};
use numbers::Numbers;
pub use status::FlightStatus;
use tracebuf_std::display::Escaped;
use tracebuf_std::fork;
use tracebuf_std::signals::SignalWatches;

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
/// The rings always hold what came last; a snapshot copies them while recording goes on. A file `REASON-N.pftrace`
/// appears in the folder when it is complete. `N` continues after the largest that is there, earlier runs included, and
/// with each new file the oldest go, so that neither a storm of signals nor a program that is restarted after each
/// panic can fill the disk. This limit is per reason: a program that makes up reasons, from numbers or from what others
/// send, gets files for each of them, and has to remove them itself. Processes that share a folder share that number of
/// files, and two that write one of the same reason at the same moment may write the same file. If you restart a
/// program again and again that may be killed while writing, remove the parts that it leaves: see
/// [`Snapshot::write_to`](super::Snapshot::write_to).
///
/// A session with a [long trace](super::SessionBuilder::long_trace) has no flight recorder: every period the file takes
/// what is in the rings. For both, record into two sessions.
///
/// If threads may hang, let the ring have [`self_contained_chunks`](super::BufferConfig::self_contained_chunks): what
/// such a thread did last is in the snapshot anyway, and then it can be read.
///
/// For snapshots that nothing waits for (panics, signals, triggers), standard error says where they are, or why there
/// is none.
pub struct FlightRecorder {
    inner: Arc<Inner>,
    requests: Option<SyncSender<Request>>,
    worker: Option<JoinHandle<()>>,
    signals: SignalWatches,
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

struct Request {
    reason: String,
    due: Instant,
    /// Boot time of the first moment that is to be in the snapshot.
    from: Option<u64>,
}

/// Most triggers that can wait for their time.
const WAITING: usize = 16;

impl FlightRecorder {
    /// Makes a recorder of a session into a folder that exists; it stays that folder even if the process changes its
    /// working directory later. The recorder does not keep the session alive.
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
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is no folder: it has to be there", Escaped(folder.display())),
            ));
        }
        // Programs that go into the background leave the folder that they were started in.
        let folder = std::path::absolute(folder)?;
        let state = Mutex::new(State { keep: 8, ..State::default() });
        let (session, forks) = (Arc::downgrade(session), fork::forks());
        let inner = Arc::new(Inner { session, forks, folder, state });
        let (requests, receiver) = sync_channel(WAITING);
        let works = inner.clone();
        let worker =
            thread::Builder::new().name("tracebuf-flight".into()).spawn(move || work(&works, &receiver))?;
        Ok(Self { inner, requests: Some(requests), worker: Some(worker), signals: SignalWatches::default() })
    }

    /// How many files of each reason to keep in the folder, whichever process wrote them: 8 unless set otherwise, at
    /// least 1. The number of reasons is not limited.
    #[must_use]
    pub fn keep(self, files: u32) -> Self {
        if self.inner.is_here() {
            self.inner.state().keep = files.max(1);
        }
        self
    }

    /// Writes a snapshot now, and says where it is. `reason` begins the file's name; it may have folders before that,
    /// which must exist. On Windows it may not have a colon. Use a few fixed reasons: [`keep`](Self::keep) removes
    /// files of the same reason only. What is different each time belongs in an event.
    ///
    /// Before the buffers are copied, producers have 5 s to send what they have: with one that never answers, each
    /// snapshot takes that long, and then what it has is scraped.
    ///
    /// # Errors
    /// The session does not answer, has ended or is about to, or the file system refuses; or `reason` is not valid: it
    /// leads out of the folder, its name is empty, or it has more than 226 bytes, so that with its number and ending it
    /// would be longer than names can be.
    pub fn snapshot(&self, reason: &str) -> Result<PathBuf, SessionError> {
        self.inner.snapshot(reason, None)
    }

    /// Writes a snapshot once `after` has passed, so that it shows what led to this moment (as much as the ring holds)
    /// and what follows. An instant with the trigger's name marks the moment, on this thread's track.
    ///
    /// Returns at once. A trigger that is already waiting also serves those of the same reason that come until then.
    /// While 16 wait, one of yet another reason is only counted: [`FlightStatus::merged`].
    pub fn trigger(&self, reason: &'static str, after: Duration) {
        self.request(reason, after, None);
    }

    /// Like [`trigger`](Self::trigger), with a window: nothing from earlier than `before` the trigger is in the trace,
    /// which keeps it small. What the ring no longer holds cannot be in it either.
    ///
    /// Triggers that share a snapshot share the window of the first.
    pub fn trigger_window(&self, reason: &'static str, before: Duration, after: Duration) {
        let before = u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
        let now = self.inner.session.upgrade().map(|session| session.now());
        self.request(reason, after, now.map(|now| now.saturating_sub(before)));
    }

    fn request(&self, reason: &'static str, after: Duration, from: Option<u64>) {
        if !self.inner.is_here() {
            return;
        }
        if let Some(session) = self.inner.session.upgrade() {
            session.recorder().instant(reason);
        }
        {
            let mut state = self.inner.state();
            if state.waiting.len() >= WAITING || state.waiting.iter().any(|waiting| waiting == reason) {
                state.status.merged += 1;
                return;
            }
            state.waiting.push(reason.to_owned());
        }
        let due = Instant::now() + after.min(FOR_EVER);
        let request = Request { reason: reason.to_owned(), due, from };
        // The thread is gone, so nothing else would take this out of what waits.
        if self.requests.as_ref().is_some_and(|requests| requests.try_send(request).is_err()) {
            let mut state = self.inner.state();
            state.status.merged += 1;
            state.waiting.retain(|waiting| waiting != reason);
        }
    }

    /// From now on, a panic of any thread writes a snapshot `panic`, after the previous hook has said its own. That
    /// lasts for the rest of the program; once this recorder is gone the hook does nothing more, nor does it in a child
    /// after a fork. The thread waits for the snapshot, as [`snapshot`](Self::snapshot) says.
    ///
    /// No trace is written for a panic within a [`Transport`](super::Transport), nor for later ones: that panic is on
    /// the session's own thread and ends the session, and what is in the buffers is gone. From one [in a
    /// file](super::BufferConfig::in_file) it can be recovered.
    pub fn on_panic(&self) {
        let inner = Arc::downgrade(&self.inner);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            if let Some(inner) = inner.upgrade() {
                inner.report("panic", None);
            }
        }));
    }

    /// What was done so far; in a child after a fork, nothing.
    pub fn status(&self) -> FlightStatus {
        if self.inner.is_here() { self.inner.state().status.clone() } else { FlightStatus::default() }
    }
}

impl fmt::Debug for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorder").field("folder", &self.inner.folder).finish_non_exhaustive()
    }
}

impl Drop for FlightRecorder {
    /// Triggers still waiting are written at once; this waits for that, but not for their time.
    fn drop(&mut self) {
        if !self.inner.is_here() {
            // The threads are not in this process. One of them may have had the channel's lock; and their handles, like
            // that of the session's thread, may be those of threads of this process.
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
        // What standard error does not take is lost, and nothing worse happens: a panic of the macro would abort the
        // program in a panic's hook, and would end a thread that is to go on watching or to end the program.
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
        match result {
            Ok((path, stall)) => {
                state.status.written += 1;
                state.status.stall = stall;
                Ok(path)
            }
            Err(error) => {
                state.status.failed += 1;
                state.status.error = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Writes the file; says where it is, and how long the drain thread stood still for it.
    fn try_snapshot(&self, reason: &str, from: Option<u64>) -> Result<(PathBuf, Duration), SessionError> {
        files::check(reason).map_err(|error| SessionError::io(format!("{reason:?} is no reason"), error))?;
        let session = self.session.upgrade().ok_or(SessionError::Stopped)?;
        let _writes = Writes::begin(self, reason);
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

impl<'a> Writes<'a> {
    fn begin(inner: &'a Inner, reason: &'a str) -> Self {
        inner.state().numbers.begin(reason);
        Self { inner, reason }
    }
}

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.inner.state().numbers.end(self.reason);
    }
}

/// Writes the snapshots of triggers when their time has come, or when no more can come.
fn work(inner: &Inner, requests: &Receiver<Request>) {
    let mut waiting: Vec<Request> = Vec::new();
    loop {
        let due = waiting.iter().map(|request| request.due).min();
        let wait = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
        let last = match requests.recv_timeout(wait) {
            Ok(request) => {
                waiting.push(request);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let now = Instant::now();
        let come: Vec<_> = waiting.extract_if(.., |request| last || request.due <= now).collect();
        for request in come {
            // A trigger that comes from here on is not in this snapshot, and waits for the next one.
            inner.state().waiting.retain(|reason| *reason != request.reason);
            inner.report(&request.reason, request.from);
        }
        if last {
            return;
        }
    }
}
