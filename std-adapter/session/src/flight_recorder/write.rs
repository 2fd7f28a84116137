//! What the threads of a flight recorder share, and the writing of its snapshots.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::FlightStatus;
use super::files;
use super::reasons::{Asked, Limits, Reasons};
use crate::error::SessionError;
use crate::session::{BeforeStop, Session};
use crate::summary::Losses;
use tracebuf_std::display::Escaped;
use tracebuf_std::fork;

pub(super) struct Inner {
    pub(super) session: Weak<Session>,
    /// The fork count of the process that has the threads; the session may be gone when that is asked.
    forks: u32,
    folder: PathBuf,
    state: Mutex<State>,
    /// Another snapshot is asked for, or one is there, or this is the end.
    changed: Condvar,
    /// Whether it is told of panics.
    pub(super) hears_panics: AtomicBool,
}

pub(super) struct State {
    pub(super) status: FlightStatus,
    pub(super) reasons: Reasons,
    /// Snapshots that are being written.
    writing: u32,
    pub(super) has_ended: bool,
}

impl State {
    pub(super) fn count(&mut self, asked: Asked) {
        match asked {
            Asked::Waits => {}
            Asked::Deferred => self.status.suppressed += 1,
            Asked::Shared | Asked::Refused => self.status.merged += 1,
        }
    }
}

impl State {
    /// From here on somebody writes, and calls [`Inner::write`].
    fn begin(&mut self, reason: &str, now: Instant) -> Begun {
        let (reason, number) = self.reasons.begin(reason, now);
        self.writing += 1;
        Begun { reason, number }
    }
}

impl Inner {
    pub(super) fn new(session: &Arc<Session>, folder: PathBuf) -> Self {
        let limits = Limits { files: 8, first: None, interval: Duration::from_secs(1) };
        let reasons = Reasons::new(limits, files::reasons_in(&folder));
        let state = State { status: FlightStatus::default(), reasons, writing: 0, has_ended: false };
        Self {
            session: Arc::downgrade(session),
            forks: fork::forks(),
            folder,
            state: Mutex::new(state),
            changed: Condvar::new(),
            hears_panics: AtomicBool::new(false),
        }
    }

    /// Whether this is the process that made the recorder.
    pub(super) fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    /// For this process only: in a child, the lock may be held by a thread that does not exist there.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the worker that there is something new.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits for something new, or for a time.
    pub(super) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        due: Option<Instant>,
    ) -> MutexGuard<'s, State> {
        match due.map(|due| due.saturating_duration_since(Instant::now())) {
            Some(wait) => self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Ends the worker once nothing waits.
    pub(super) fn end(&self) {
        self.state().has_ended = true;
        self.wake();
    }

    /// Writes all that waits, whenever its time is.
    pub(super) fn write_waiting(&self, session: Option<&Session>) {
        if !self.is_here() {
            return;
        }
        loop {
            let next = self.state().reasons.take_any();
            let Some(request) = next else { break };
            report(&request.reason, &self.write_now(session, &request.reason, request.from));
        }
    }

    /// The same, and waits for what others are writing: nothing comes after this.
    pub(super) fn finish(&self) {
        self.write_waiting(None);
        if self.is_here() {
            let mut state = self.state();
            while state.writing > 0 {
                state = self.wait(state, None);
            }
        }
    }

    /// Writes a snapshot that somebody waits for.
    pub(super) fn snapshot(&self, reason: &str) -> Result<PathBuf, SessionError> {
        self.write_now(None, reason, None).map(|written| written.path)
    }

    /// Begins a snapshot if it may be written at once, or must be. Otherwise it is asked for.
    pub(super) fn begin_or_ask(&self, reason: &str, must: bool) -> Option<Begun> {
        let (now, mut state) = (Instant::now(), self.state());
        if !must && let Err(asked) = state.reasons.is_now_or_ask(reason, now) {
            state.count(asked);
            drop(state);
            self.wake();
            return None;
        }
        Some(state.begin(reason, now))
    }

    pub(super) fn write_now(
        &self,
        session: Option<&Session>,
        reason: &str,
        from: Option<u64>,
    ) -> Result<FileWritten, SessionError> {
        if !self.is_here() {
            return Err(SessionError::Forked);
        }
        let begun = self.state().begin(reason, Instant::now());
        self.write(session, begun, from)
    }

    /// Writes a snapshot of the session, which may have no owner any more.
    pub(super) fn write(
        &self,
        session: Option<&Session>,
        begun: Begun,
        from: Option<u64>,
    ) -> Result<FileWritten, SessionError> {
        let _writes = Writes(self);
        let written = self.try_write(session, &begun, from);
        let mut state = self.state();
        match &written {
            Ok(written) => {
                state.status.written += 1;
                state.status.last = Some(written.path.clone());
                state.status.losses = written.losses.clone();
                state.status.stall = written.stall;
            }
            Err(error) => {
                state.status.failed += 1;
                state.status.error = Some(error.to_string());
                state.reasons.failed(&begun.reason, begun.number);
            }
        }
        drop(state);
        written
    }

    fn try_write(
        &self,
        session: Option<&Session>,
        begun: &Begun,
        from: Option<u64>,
    ) -> Result<FileWritten, SessionError> {
        let (reason, time) = (&begun.reason[..], SystemTime::now());
        files::check(reason).map_err(|error| SessionError::io(format!("{reason:?} is no reason"), error))?;
        let snapshot = match session {
            Some(session) => session.snapshot(),
            // Kept no longer: writing takes long, and dropping the session meanwhile is meant to end it.
            None => self.session.upgrade().ok_or(SessionError::Stopped)?.snapshot(),
        }?;
        let mut snapshot = match from {
            Some(time) => snapshot.since(time),
            None => snapshot,
        };
        let file = files::publish(&self.folder, reason, begun.number, time, |file| snapshot.write_out(file));
        let (path, _) = file.map_err(|(path, error)| SessionError::writing(&path, error))?;
        let limits = self.state().reasons.limits;
        files::remove_others(limits, &path);
        Ok(FileWritten { path, losses: snapshot.losses(), stall: snapshot.stall() })
    }
}

impl BeforeStop for Inner {
    fn before_stop(&self, session: &Session) {
        self.write_waiting(Some(session));
    }
}

/// A snapshot that is there.
pub(super) struct FileWritten {
    path: PathBuf,
    losses: Losses,
    stall: Duration,
}

/// A file that is to be written: its reason, and which of the recorder's it is.
#[derive(Clone)]
pub(super) struct Begun {
    reason: String,
    number: u64,
}

/// A writer of a file, until that is there or has failed.
struct Writes<'a>(&'a Inner);

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.0.state().writing -= 1;
        self.0.wake();
    }
}

/// Says where a snapshot is that nothing waits for, or why there is none.
pub(super) fn report(reason: &str, written: &Result<FileWritten, SessionError>) {
    let (reason, mut stderr) = (Escaped(reason), io::stderr());
    // What standard error does not take is lost: a panic would abort the program in a panic's hook. In one piece, as
    // others write there too.
    let told = match written {
        Ok(FileWritten { path, losses, .. }) => {
            format!("tracebuf: {reason}: the trace is in {}; lost: {losses}\n", Escaped(path.display()))
        }
        // In a child, the lock of standard error may be held by a thread that does not exist there.
        Err(SessionError::Forked) => return,
        Err(error) => format!("tracebuf: {reason}: no trace: {error}\n"),
    };
    let _ = stderr.write_all(told.as_bytes());
}
