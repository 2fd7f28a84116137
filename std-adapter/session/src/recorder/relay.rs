//! Relays: recorders that go on from session to session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{By, Recorder};
use crate::error::SessionError;
use crate::producer_cell::RecorderContext;
use crate::recording_gate::{BufferId, Connected, NO_BUFFER, RecordingGate};

/// Connects recorders to one session after another, so that tracing can begin, end and begin again while the program
/// runs, whatever holds the recorders, such as a subscriber for `tracing`.
///
/// ```
/// use tracebuf_session::{Relay, Session};
///
/// // At the program's start.
/// let relay = Relay::new();
/// let recorder = relay.recorder(); // for any thread; nothing is recorded
/// recorder.instant("not in a trace");
///
/// // When somebody asks for a trace, and each time again.
/// let session = Session::builder().start()?;
/// relay.connect(&session.recorder())?;
/// recorder.instant("in a trace");
/// let stopped = session.stop()?; // nothing is recorded from here on
/// assert!(!recorder.is_on());
/// # let summary = stopped.summary();
/// # assert_eq!(summary.buffers[0].chunks_written, 1);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// A library that is handed nothing keeps one in a `static LazyLock<Relay>` for the program to connect. An event while
/// nothing is connected costs three loads; otherwise as much as with the session's recorders. A thread keeps its
/// writer, and with it the memory of a session that is over, some 1.4 MB by default, until its next event in another
/// session, or its own end. A slice that is open when the sessions change is ended by its [guard](crate::SliceGuard)
/// or span in the session where it began, if that goes on.
///
/// Clones are the same relay. Recorders stay connected when all clones are gone. In a child after a fork recorders are
/// off, and the relay cannot be connected again.
#[derive(Clone)]
pub struct Relay(Arc<Route>);

impl Relay {
    /// A relay that is connected to nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Route {
            gate: Arc::new(RecordingGate::of_relay()),
            to: Mutex::default(),
            lost: AtomicUsize::new(0),
        }))
    }

    /// A recorder of this relay.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder { gate: self.0.gate.clone(), target: 0, by: By::Relay(self.0.clone()) }
    }

    /// Returns true if its recorders record.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.0.gate.is_on()
    }

    /// Makes its recorders record where `recorder` does, until that session ends or this is connected elsewhere.
    ///
    /// # Errors
    /// [`SessionError::Stopped`] if `recorder` does not record; this then stays connected to what it was.
    /// [`SessionError::Forked`] in a child after a fork, and for a session of its parent.
    pub fn connect(&self, recorder: &Recorder) -> Result<(), SessionError> {
        let route = &self.0;
        if !route.gate.is_here() || !recorder.is_here() {
            return Err(SessionError::Forked);
        }
        let (context, target) = recorder.destination().ok_or(SessionError::Stopped)?;
        let gate = context.gate.clone();
        if gate.is_on() {
            let told: Weak<Route> = Arc::downgrade(route);
            gate.tell(told);
            route.change(route.to(), Some((context, target)));
            if gate.is_on() {
                return Ok(());
            }
            // The session has ended meanwhile, and perhaps said so before this led there.
            route.leave(gate.own());
        }
        Err(SessionError::Stopped)
    }

    /// Makes its recorders record nothing, except the ends of open slices, until it is connected again.
    pub fn disconnect(&self) {
        if self.0.gate.is_here() {
            self.0.change(self.0.to(), None);
        }
    }
}

impl Default for Relay {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields!(Relay);

/// A session, and a buffer of it.
type Destination = Option<(Arc<RecorderContext>, u16)>;

pub(crate) struct Route {
    /// What every event looks at. Changed under the lock of `to`, to where that leads.
    gate: Arc<RecordingGate>,
    to: Mutex<Destination>,
    /// Events that signal handlers could not count.
    lost: AtomicUsize,
}

impl Route {
    pub(super) fn destination(&self) -> Destination {
        // In a child, a thread that does not exist there may hold the lock.
        if self.gate.is_on() { self.to().clone() } else { None }
    }

    /// Counts an event as lost. In a signal handler, which may have interrupted whoever has the lock: if so, the next one
    /// who has it counts.
    pub(super) fn lose_at_once(&self) {
        match self.to.try_lock() {
            Ok(to) => count_lost(&to, 1),
            Err(_) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn change(&self, mut from: MutexGuard<'_, Destination>, to: Destination) {
        let buffer = to.as_ref().map_or(NO_BUFFER, |(context, target)| context.buffer_id(*target));
        self.gate.set(buffer);
        let before = std::mem::replace(&mut *from, to);
        drop(from);
        // Not under the lock: this frees memory, which an allocator may record.
        drop(before);
    }

    fn to(&self) -> MutexGuard<'_, Destination> {
        let to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lost.load(Ordering::Relaxed) != 0 {
            count_lost(&to, self.lost.swap(0, Ordering::Relaxed));
        }
        to
    }
}

fn count_lost(to: &Destination, events: usize) {
    if let Some((context, target)) = to {
        (0..events).for_each(|_| context.producer.drop_packet(*target));
    }
}

impl Connected for Route {
    fn leave(&self, session: BufferId) {
        let to = self.to();
        if to.as_ref().is_some_and(|(context, _)| context.gate.own() == session) {
            self.change(to, None);
        }
    }
}
