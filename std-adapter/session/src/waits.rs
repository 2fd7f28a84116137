//! Limits of waiting, and the wake-up call of a session's own thread.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crate::error::SessionError;

/// How long producers are given to send what they have, and a session's thread to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Time until the next look whether producers have answered, or a file that is behind has caught up.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How long past a deadline to wait for what takes some milliseconds.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// How long a session's or a connection's own thread sleeps when nothing wakes it.
pub const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Whether to wait for what cannot be had or done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No: take as much of it as there is now.
    Now,
    /// However long it takes.
    UntilDone,
}

/// The longest time to wait: clocks count no further.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Waits for a thread's end, unless it is this one: a session's own thread may drop what it belongs to.
pub fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

/// Receives what a newly started thread makes first. In a child after a fork it may never come.
/// An error is [`SessionError::Timeout`], or that the thread has ended.
pub fn made_by<T>(made: &Receiver<T>, within: Duration) -> Result<T, SessionError> {
    made.recv_timeout(within).map_err(|error| match error {
        RecvTimeoutError::Timeout => SessionError::Timeout,
        // A panic's own message is on standard error.
        RecvTimeoutError::Disconnected => {
            let why = io::Error::other("it has ended before it was ready, as after a panic");
            SessionError::io("starting a thread", why)
        }
    })
}

thread_local! {
    /// Whether this thread may wait for shared memory, if it is told to.
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

pub(crate) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// Records without waiting for the drain thread, which may itself wait for what the caller has locked.
pub fn without_waiting(record: impl FnOnce()) {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _before = Before(MAY_WAIT.replace(false));
    record();
}

/// Wakes a session's drain thread, so that it calls [`Transport::drain`](crate::Transport::drain). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Waker {
    thread: Arc<OnceLock<Thread>>,
}

impl Waker {
    /// Wakes the thread, or keeps it from going to sleep the next time, by a system call if it sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sets the thread that this and its clones wake, once.
    pub fn set(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Returns true if that thread calls.
    pub fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == thread::current().id())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_told_from_one_that_takes_long() {
        let (making, made) = channel::<()>();
        assert!(matches!(made_by(&made, Duration::ZERO), Err(SessionError::Timeout)));
        drop(making);
        let error = made_by(&made, FOR_EVER).expect_err("nobody makes it").to_string();
        assert!(error.contains("it has ended before it was ready"), "{error}");
    }
}
