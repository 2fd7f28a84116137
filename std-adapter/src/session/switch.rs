//! Whether a session records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fork;

/// Whether threads may write: the session records, and this is its process.
pub(crate) struct Switch {
    recording: AtomicBool,
    stopping: AtomicBool,
    forks: u32,
}

impl Switch {
    pub(crate) fn new() -> Self {
        fork::watch();
        Self { recording: AtomicBool::new(true), stopping: AtomicBool::new(false), forks: fork::forks() }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.recording.load(Ordering::Relaxed) && self.is_here()
    }

    /// Whether this process is the one that began the session.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    pub(crate) fn off(&self) {
        self.recording.store(false, Ordering::Relaxed);
    }

    /// Off, and somebody waits for the session's end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.off();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Turns recording off when the drain thread ends, also by a panic, of a transport perhaps: threads that stall would
/// wait for it for ever.
pub(crate) struct OffAtEnd(pub(crate) Arc<Switch>);

impl Drop for OffAtEnd {
    fn drop(&mut self) {
        self.0.off();
    }
}
