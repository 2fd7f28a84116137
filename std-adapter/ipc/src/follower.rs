//! Connections to whichever service listens, now or later, in either protocol: [`Follower`].

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use tracebuf_session::SessionError;
use tracebuf_session::parts::join;
use tracebuf_std::fork;

/// How often to look whether a service has come or gone.
const EVERY: Duration = Duration::from_millis(250);
/// Why there is no connection to a service that is there.
const NOTHING_WANTED: &str = "the tracing service is there, and does not want anything recorded";
/// How long to wait for the first look: with a service that answers, one takes some milliseconds.
const FIRST: Duration = Duration::from_secs(1);

/// Connects a program to whichever service listens at a path, now or later, and to the next one when that has ended.
/// Made by [`ConnectionBuilder::follow`], and for Perfetto's service by
/// [`follow_perfetto`](ConnectionBuilder::follow_perfetto).
///
/// ```no_run
/// use tracebuf_ipc::Connection;
/// use tracebuf_session::Relay;
///
/// let relay = Relay::new();
/// let recorder = relay.recorder(); // for any thread, from now on
/// let _follower = Connection::builder()
///     .process_name("camera")
///     .follow("/run/camera/trace", move |service| relay.connect(&service.recorder()))?;
///
/// // In a trace whenever `tracebuf record --listen /run/camera/trace` runs.
/// let _slice = recorder.enter("frame");
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// A thread looks four times a second whether a service listens, for the first time before
/// [`follow`](ConnectionBuilder::follow) returns. Nothing is recorded between services; one that stands still counts as
/// there. Dropping it ends the connection as dropping a [`Connection`] does, and waits for an attempt under way (some
/// 5 s if a service does not answer) and for the function that it calls. If it is a `static`, call
/// [`flush`](Self::flush) at the program's end. In a child after a fork it does nothing.
pub struct Follower {
    state: Arc<FollowerState>,
    /// Dropped to end the thread.
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    forks: u32,
}

/// A kind of service, and where to look for it.
pub(crate) trait ServiceFinder: Send + 'static {
    /// A connection; `None` for a service that is there but does not want anything recorded now, which this waits for
    /// until then.
    fn look(&mut self, until: Instant) -> Result<Option<Connection>, SessionError>;
}

impl Follower {
    pub(crate) fn start(
        look: impl ServiceFinder,
        connected: impl FnMut(&Connection) -> Result<(), SessionError> + Send + 'static,
    ) -> Result<Self, SessionError> {
        fork::watch();
        let state = Arc::new(FollowerState(Mutex::new(Err("nobody was looked for yet".to_owned()))));
        let (going_on, goes_on) = channel();
        let (looked, first_look) = sync_channel(1);
        let in_thread = state.clone();
        let thread = thread::Builder::new()
            .name("tracebuf-follow".into())
            .spawn(move || in_thread.follow(look, connected, &looked, &goes_on))
            .map_err(|error| SessionError::io("starting a thread", error))?;
        let _ = first_look.recv_timeout(FIRST);
        Ok(Follower { state, going_on: Some(going_on), thread: Some(thread), forks: fork::forks() })
    }

    /// Whether a service is there and wants something recorded, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.connection().is_ok()
    }

    /// Why there is no connection: the last attempt's error, or that it has ended. `None` while there is one.
    pub fn error(&self) -> Option<String> {
        self.connection().err()
    }

    /// Gets all that was recorded until now into the service's buffers: see [`Connection::flush`].
    ///
    /// # Errors
    /// Those of [`Connection::flush`]; [`SessionError::Stopped`] while there is no connection.
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        if !self.is_here() {
            return Err(SessionError::Forked);
        }
        self.connection().map_err(|_| SessionError::Stopped)?.flush(timeout)
    }

    fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    fn connection(&self) -> Result<Arc<Connection>, String> {
        if !self.is_here() {
            // The thread, which does not exist here, may hold the lock.
            return Err(SessionError::Forked.to_string());
        }
        let connection = self.state.lock().clone()?;
        // The thread finds out later that it has ended, and may try for some seconds to make another one.
        if connection.is_connected() { Ok(connection) } else { Err(SessionError::Stopped.to_string()) }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if !self.is_here() {
            // As with a session: the thread is not in this process, and by now another one may have its place. Nor is
            // anything there that would let go of the channel's lock.
            std::mem::forget((self.going_on.take(), self.thread.take()));
            return;
        }
        drop(self.going_on.take());
        // If the function that is called with a connection drops this, the thread would wait for itself.
        self.thread.take().into_iter().for_each(join);
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("is_connected", &self.is_connected()).finish_non_exhaustive()
    }
}

/// The connection, or why there is none.
struct FollowerState(Mutex<Result<Arc<Connection>, String>>);

impl FollowerState {
    fn lock(&self) -> MutexGuard<'_, Result<Arc<Connection>, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: Result<Arc<Connection>, String>) {
        let before = std::mem::replace(&mut *self.lock(), state);
        // Not under the lock: a connection's end may take a while.
        drop(before);
    }

    fn follow(
        &self,
        mut look: impl ServiceFinder,
        mut connected: impl FnMut(&Connection) -> Result<(), SessionError>,
        looked: &SyncSender<()>,
        goes_on: &Receiver<()>,
    ) {
        let _told = PanicNote(self);
        loop {
            let until = Instant::now() + EVERY;
            let is_connected = self.lock().as_ref().is_ok_and(|connection| connection.is_connected());
            if !is_connected {
                let connection = look.look(until).and_then(|connection| {
                    let Some(connection) = connection else { return Ok(Err(NOTHING_WANTED.to_owned())) };
                    connected(&connection)?;
                    connection.begin();
                    Ok(Ok(Arc::new(connection)))
                });
                self.set(connection.unwrap_or_else(|error| Err(error.to_string())));
                // Nothing waits for more than the first.
                let _ = looked.try_send(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if goes_on.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        self.set(Err(SessionError::Stopped.to_string()));
    }
}

/// Says why there will be no connection any more.
struct PanicNote<'a>(&'a FollowerState);

impl Drop for PanicNote<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set(Err("what is called with each connection has panicked".to_owned()));
        }
    }
}
