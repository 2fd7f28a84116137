//! Long traces: buffers that are read every period and appended to a file.

mod output;
mod recording;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::waits::FOR_EVER;

pub(crate) use recording::Recording;

/// When what was written must be on the disk itself, not only with the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Never. A kill of the process loses nothing that was written; a power cut, on Linux, up to some 30 s.
    Never,
    /// Once, when the session stops.
    #[default]
    AtEnd,
    /// After each period, which waits for the disk, and at the end. A power cut loses at most a period.
    EveryPeriod,
}

/// A trace that is written while it is recorded.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_session::{LongTrace, Session};
///
/// let path = std::env::temp_dir().join(format!("doc-long-{}.pftrace", std::process::id()));
/// let trace = LongTrace::to(&path).period(Duration::from_secs(1)).max_file_size(1 << 30);
/// let session = Session::builder().long_trace(trace).start()?;
/// session.recorder().instant("hello");
/// assert!(session.stop()?.file.unwrap().packets >= 3);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// At any moment the file is a trace up to its last whole packet. When the process dies, a period is lost, unless the
/// buffer is [in a file](crate::BufferConfig::in_file) too. While the file takes nothing, packets stay in the ring, and
/// what is overwritten there is reported like any loss.
#[derive(Clone, Debug)]
#[doc(alias = "write_into_file")]
pub struct LongTrace {
    pub(crate) path: PathBuf,
    period: Duration,
    max_file_size: u64,
    sync: SyncPolicy,
}

impl LongTrace {
    /// Writes into this file every 5 s, of any size, synced at the end. The file is emptied when the session starts.
    /// Until the session has stopped, it is locked against other sessions, and no snapshot replaces it.
    ///
    /// A pipe or a device is not locked, and [`stop`](crate::Session::stop) waits while it takes nothing; a named
    /// pipe must already have its reader. On Windows it must be a regular file.
    pub fn to(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            period: Duration::from_secs(5),
            max_file_size: u64::MAX,
            sync: SyncPolicy::default(),
        }
    }

    /// Sets how often to write; at least 10 ms. Each ring must hold what is recorded into it in a period, and while
    /// that is read. The default 4 MiB in 5 s are 0.8 MB/s, which one or two busy threads record.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.clamp(Duration::from_millis(10), FOR_EVER);
        self
    }

    /// Sets the most bytes of the file. When the next packet does not fit, the trace ends, with its statistics as far
    /// as they fit, and the session records no more.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// Sets when to sync the file to the disk.
    #[must_use]
    pub fn sync(mut self, sync: SyncPolicy) -> Self {
        self.sync = sync;
        self
    }
}

/// How a long trace is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongTraceStatus {
    /// Bytes of whole packets in the file.
    pub bytes: u64,
    /// Why writing makes no progress now, or did not at the end. Otherwise what went wrong once: a sync failed, or
    /// somebody else changed the file's length.
    pub error: Option<String>,
    /// Bytes given up because they could not be written when the session stopped: everything from the first that did
    /// not go in, so that the file has no hole. Those of a buffer in a file can be recovered there.
    pub bytes_given_up: u64,
    /// The file has reached its largest size, and has nothing that was recorded later.
    pub full: bool,
}

/// [`LongTraceStatus`], shared by the drain thread, the file's thread and those who ask.
#[derive(Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    pub(crate) packets: AtomicU64,
    given_up: AtomicU64,
    full: AtomicBool,
    finishing: AtomicBool,
    errors: Mutex<Errors>,
}

#[derive(Default)]
struct Errors {
    write: Option<String>,
    /// The first error that nothing later makes good.
    lasting: Option<String>,
}

impl Progress {
    pub(crate) fn status(&self) -> LongTraceStatus {
        let errors = self.errors();
        LongTraceStatus {
            bytes: self.bytes.load(Ordering::Relaxed),
            error: errors.write.as_ref().or(errors.lasting.as_ref()).cloned(),
            bytes_given_up: self.given_up.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    fn errors(&self) -> MutexGuard<'_, Errors> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_lasting_error(&self, error: String) {
        self.errors().lasting.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use crate::{LongTrace, Session, SessionError};
    use tracebuf_testing::fork::in_child;

    #[test]
    fn a_child_does_not_wait_for_the_thread_that_had_the_status_s_lock() {
        let session = Session::builder().long_trace(LongTrace::to("/dev/null")).start().expect("a session");
        let progress = session.progress.clone().expect("a long trace");
        let held = progress.errors();
        assert!(in_child(|| {
            session.long_trace().is_none() && matches!(session.summary(), Err(SessionError::Forked))
        }));
        drop(held);
        assert!(session.long_trace().is_some());
    }
}
