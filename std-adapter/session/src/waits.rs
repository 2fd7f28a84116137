//! How long to wait for things, and what not to wait for.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::SessionError;

/// How long producers are given to send what they have, and a session's thread to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Time until the next look whether producers have answered, or a file that is behind has caught up.
pub const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How long past a deadline to wait for what takes some milliseconds.
pub const GRACE: Duration = Duration::from_millis(100);

/// How long a session's or a connection's own thread sleeps when nothing wakes it. Where buffers are in files, a kill
/// loses what came to lie in shared memory within this time.
pub const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Whether to wait for something that cannot be had or done at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// No: take as much of it as there is now.
    Now,
    /// However long it takes.
    UntilDone,
}

/// For ever, to a process: clocks count no further than about such a time, so more would be no different.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Waits for a thread's end, unless it is this one: the last owner of a session drops what its transports own, and that
/// may be what this thread belongs to.
pub fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

/// What a newly started thread makes first, and hands over, within this time: in a child after a fork, a thread that
/// was not forked may hold a lock that the new one waits for.
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

pub(super) fn may_wait() -> bool {
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
