//! Causes of a snapshot that nothing waits for: triggers, panics, signals.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tracebuf_std::signals;

use super::{FlightRecorder, Inner};
use crate::error::SessionError;
use crate::waits::FOR_EVER;

pub(super) struct Request {
    reason: String,
    due: Instant,
    from: Option<u64>,
}

/// Most triggers that can wait for their time.
pub(super) const WAITING: usize = 16;

impl FlightRecorder {
    /// Writes a snapshot once `after` has passed, so that it shows what led to this moment and what follows. An instant
    /// with the trigger's name marks the moment, on this thread's track.
    ///
    /// Returns at once. A trigger that is already waiting serves those of the same reason too. While 16 wait, one of
    /// another reason is only counted: [`FlightStatus::merged`](crate::FlightStatus::merged).
    pub fn trigger(&self, reason: &'static str, after: Duration) {
        self.request(reason, after, None);
    }

    /// Like [`trigger`](Self::trigger), but keeps nothing from earlier than `before` the (first) trigger.
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

    /// Writes a snapshot `panic` when any thread panics, after the previous hook has run; the thread waits for it. A
    /// panic within a [`Transport`](crate::Transport) ends the session: no trace is written.
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

    /// Writes a snapshot `signal-NUMBER` on each of these signals, and the program goes on. Signals that come while one
    /// is being written count as one. In a child after a fork, and once this recorder is gone, they do nothing. Not
    /// available on Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, or that tells of a crash; no thread, or a child after a fork.
    pub fn on_signals(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        self.signals.watch(signals, self.on_signal())
    }

    /// Like [`on_signals`](Self::on_signals), for signals that end the program: once the snapshot is written, they take
    /// their default action. Real-time signals, whose default action the crate `signal-hook` does not know, only write
    /// a snapshot.
    ///
    /// Writing may hang. So if another of these signals, except SIGHUP, comes 500 ms or more after the first, as with a
    /// second Ctrl-C, it takes its default action at once, and the snapshot remains a
    /// [part](crate::Snapshot::write_to). So do all of them in a child after a fork, and once this recorder is gone,
    /// unless another recorder watches them.
    ///
    /// # Errors
    /// As for [`on_signals`](Self::on_signals).
    pub fn before_ending_on(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        self.signals.watch_before_end(signals, self.on_signal())
    }

    fn on_signal(&self) -> impl Fn(i32) + Send + 'static {
        let inner = self.inner.clone();
        move |signal| inner.report(&format!("signal-{signal}"), None)
    }

    fn check_signals(&self, signals: &[i32]) -> io::Result<()> {
        signals::check_signals(signals)?;
        // In a child nothing changes, and a thread of the parent may have held the locks of handlers.
        if self.inner.is_here() { Ok(()) } else { Err(io::Error::other(SessionError::Forked)) }
    }
}

/// Writes the snapshots of triggers when their time has come, or when no more can come.
pub(super) fn work(inner: &Inner, requests: &Receiver<Request>) {
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
