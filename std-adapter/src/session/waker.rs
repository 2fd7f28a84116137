//! How others wake the drain thread.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

/// Wakes a session's drain thread. Cheap to clone; from any thread.
#[derive(Clone, Debug, Default)]
pub struct Waker {
    thread: Arc<OnceLock<Thread>>,
}

impl Waker {
    /// Wakes the thread, or keeps it from going to sleep the next time. Cost: an atomic swap, plus a system call if the
    /// thread sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn set(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    pub(crate) fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == thread::current().id())
    }
}
