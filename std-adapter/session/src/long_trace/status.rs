//! What a long trace reports about itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a long trace is doing.
///
/// ```
/// use tracebuf_session::{LongTrace, Session};
///
/// # let path = std::env::temp_dir().join(format!("doc-long-status-{}.pftrace", std::process::id()));
/// let session = Session::builder().long_trace(LongTrace::to(&path).max_file_size(2000)).start()?;
/// let recorder = session.recorder();
/// (0..1000).for_each(|_| recorder.instant("frame"));
/// let status = session.stop()?.long_trace.expect("a long trace"); // while it runs: session.long_trace()
/// println!("{} bytes, full: {}, error: {:?}", status.bytes, status.full, status.error);
/// assert!(status.full && status.bytes <= 2000);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongTraceStatus {
    /// Bytes of whole packets in the file.
    pub bytes: u64,
    /// Why writing makes no progress now, or did not at the end. If it does, what went wrong once: that the file could
    /// not be synced, or that somebody else changed its length. That is reported until the end: what was written before
    /// may not be on the disk, and no later sync reports that, or not in the file. A file that was cut short goes on
    /// where it ends now.
    pub error: Option<String>,
    /// Bytes that were given up because they could not be written when the session stopped: everything from the first
    /// that did not go in, the statistics at the end included, so that the file has no hole. Those of a buffer in a
    /// file stay there, to be recovered.
    pub bytes_given_up: u64,
    /// The file has reached its largest size, and has nothing that was recorded later. From a buffer in a file that can
    /// be recovered. If there was no room for them, the file has no statistics of the writers either, or none at all;
    /// those that the session returns are complete.
    pub full: bool,
}

/// [`LongTraceStatus`], shared by the drain thread, the file's thread and those who ask.
#[derive(Default)]
pub(crate) struct Progress {
    pub(super) bytes: AtomicU64,
    /// Packets in the file.
    pub(crate) packets: AtomicU64,
    pub(super) given_up: AtomicU64,
    pub(super) full: AtomicBool,
    pub(super) finishing: AtomicBool,
    errors: Mutex<Errors>,
}

/// What has gone wrong.
#[derive(Default)]
struct Errors {
    /// In the last write.
    write: Option<String>,
    /// The first error that nothing later makes good.
    lasting: Option<String>,
}

impl Progress {
    pub(crate) fn status(&self) -> LongTraceStatus {
        LongTraceStatus {
            bytes: self.bytes.load(Ordering::Relaxed),
            error: {
                let errors = self.errors();
                errors.write.as_ref().or(errors.lasting.as_ref()).cloned()
            },
            bytes_given_up: self.given_up.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    fn errors(&self) -> MutexGuard<'_, Errors> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_error(&self, error: Option<String>) {
        self.errors().write = error;
    }

    pub(super) fn set_lasting_error(&self, error: String) {
        self.errors().lasting.get_or_insert(error);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use crate::children::in_child;
    use crate::{LongTrace, Session, SessionError};

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
