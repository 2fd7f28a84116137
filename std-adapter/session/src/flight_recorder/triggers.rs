//! Triggers: moments in the program whose snapshots are written later, by a thread of the recorder's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Details;

use super::FlightRecorder;
use super::write::{Inner, report};

/// Triggers a [`FlightRecorder`] from anywhere: cheap to clone, for any thread. It does nothing once the recorder is
/// gone, nor in a child after a fork.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tracebuf_session::{FlightRecorder, Session};
///
/// # let folder = std::env::temp_dir().join(format!("doc-handle-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let session = Arc::new(Session::builder().start()?);
/// let recorder = FlightRecorder::new(&session, &folder)?;
/// let handle = recorder.handle();
/// std::thread::spawn(move || {
///     let after = Duration::from_millis(20);
///     handle.trigger_with("deadline", after, |event| event.arg("job", 17).arg("late_ms", 3.5));
/// })
/// .join()
/// .expect("no panic");
/// drop(recorder); // writes it
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FlightHandle {
    inner: Arc<Inner>,
}

debug_fields!(FlightHandle);

impl FlightHandle {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// See [`FlightRecorder::trigger`].
    pub fn trigger(&self, reason: &str, after: Duration) {
        self.trigger_with(reason, after, |event| event);
    }

    /// See [`FlightRecorder::trigger_with`].
    pub fn trigger_with(&self, reason: &str, after: Duration, details: impl for<'a> Details<'a>) {
        self.request(reason, None, after, details);
    }

    /// See [`FlightRecorder::trigger_window`].
    pub fn trigger_window(&self, reason: &str, before: Duration, after: Duration) {
        self.trigger_window_with(reason, before, after, |event| event);
    }

    /// See [`FlightRecorder::trigger_window_with`].
    pub fn trigger_window_with(
        &self,
        reason: &str,
        before: Duration,
        after: Duration,
        details: impl for<'a> Details<'a>,
    ) {
        self.request(reason, Some(before), after, details);
    }

    fn request(
        &self,
        reason: &str,
        before: Option<Duration>,
        after: Duration,
        details: impl for<'a> Details<'a>,
    ) {
        if !self.inner.is_here() {
            return;
        }
        let (session, now) = (self.inner.session.upgrade(), Instant::now());
        let mut from = None;
        if let Some(session) = &session {
            let nanoseconds = |before: Duration| u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
            from = before.map(|before| session.now().saturating_sub(nanoseconds(before)));
            session.recorder().instant_with("", |event| details(event.name(reason)));
        }
        let mut state = self.inner.state();
        if !state.has_ended {
            let asked = state.reasons.ask(reason, now, after, from);
            state.count(asked);
        }
        drop(state);
        self.inner.wake();
    }
}

impl FlightRecorder {
    /// Writes a snapshot once `after` has passed, so that it shows what led to this moment and what follows. An instant
    /// with the reason's name marks the moment, on this thread's track.
    ///
    /// Returns at once. A trigger that is already waiting serves those of the same reason too: the longest `after` and
    /// the longest `before` win, and a trigger that comes when the first one's `after` has passed waits for its own.
    /// While 16 wait, one of another reason is only counted: [`FlightStatus::merged`](crate::FlightStatus::merged).
    /// Triggers that wait are written when the recorder is dropped, when its session stops, before the process ends by
    /// a return from `main` or `std::process::exit` (on Windows, by a return), and before a signal of
    /// [`before_ending_on`](Self::before_ending_on) ends it.
    pub fn trigger(&self, reason: &str, after: Duration) {
        self.handle.trigger(reason, after);
    }

    /// Like [`trigger`](Self::trigger), with arguments of the instant that marks the moment: who was slow, and how
    /// slow. Their keys need not live long with [`Event::named_arg`](crate::Event::named_arg).
    pub fn trigger_with(&self, reason: &str, after: Duration, details: impl for<'a> Details<'a>) {
        self.handle.trigger_with(reason, after, details);
    }

    /// Like [`trigger`](Self::trigger), but keeps nothing from earlier than `before` this moment.
    pub fn trigger_window(&self, reason: &str, before: Duration, after: Duration) {
        self.handle.trigger_window(reason, before, after);
    }

    /// Like [`trigger_window`](Self::trigger_window), with arguments as for [`trigger_with`](Self::trigger_with).
    pub fn trigger_window_with(
        &self,
        reason: &str,
        before: Duration,
        after: Duration,
        details: impl for<'a> Details<'a>,
    ) {
        self.handle.trigger_window_with(reason, before, after, details);
    }
}

/// Writes the snapshots of triggers when their time has come, or when no more can come.
pub(super) fn work(inner: &Inner) {
    let mut state = inner.state();
    loop {
        let has_ended = state.has_ended;
        let next = if has_ended { state.reasons.take_any() } else { state.reasons.take_due(Instant::now()) };
        state = match next {
            // A trigger that comes from here on is not in this snapshot, and waits for the next one.
            Some(request) => {
                drop(state);
                report(&request.reason, &inner.write_now(None, &request.reason, request.from));
                inner.state()
            }
            None if has_ended => return,
            None => {
                let due = state.reasons.next_due();
                inner.wait(state, due)
            }
        };
    }
}
