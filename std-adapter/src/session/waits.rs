//! For how long is waited, and for whom not.

use std::cell::Cell;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long producers are given to send what they have, and a session's thread to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Until the next look whether producers have answered, or a file that is behind has caught up.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What takes some milliseconds takes no longer than this.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// For ever, to a process: clocks can count no further than some such time, so that more is as much.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Waits for a thread's end, unless it is this one. Whoever lets go of a session last drops what its transports own, and
/// that may be what this thread belongs to.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

thread_local! {
    /// Whether this thread may wait for shared memory, where it is told to.
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

pub(super) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// Records without waiting for the drain thread, which may itself wait for what the caller has locked.
#[cfg(feature = "tracing")]
pub(crate) fn without_waiting(record: impl FnOnce()) {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _before = Before(MAY_WAIT.replace(false));
    record();
}
