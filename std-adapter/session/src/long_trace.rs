//! Long traces: buffers that are read every period and appended to a file.

mod backlog;
mod compression;
mod history;
mod output;
mod past;
mod recording;
mod rotation;
mod turns;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::export::Piece;
use crate::waits::FOR_EVER;
use rotation::Rotation;

pub use compression::Compression;
pub(crate) use history::History;
pub(crate) use recording::Recording;
pub(crate) use rotation::Names;

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
/// The file is written every second, and earlier when a ring is half full; before that it has the clocks of the start.
/// At any moment it is a trace up to its last whole packet. It is completed when the session is stopped or dropped, at a
/// return from `main` and at `std::process::exit`, also for a session in a `static`, and on signals if
/// [asked](Self::complete_on_signals). A child after a fork leaves it alone. A process that aborts or is killed loses a
/// period, unless the buffer is [in a file](crate::BufferConfig::in_file) too.
///
/// While the file takes nothing, up to 64 MiB [wait](Self::backlog) in memory. When that is full the oldest of it is
/// given up and counted, as [`Losses::packets_not_written`](crate::Losses::packets_not_written).
#[derive(Clone, Debug)]
#[doc(alias = "write_into_file")]
pub struct LongTrace {
    pub(crate) path: PathBuf,
    period: Duration,
    max_file_size: u64,
    sync: SyncPolicy,
    backlog: usize,
    pub(crate) rotation: Rotation,
    compression: Compression,
    pub(crate) signals: Vec<i32>,
    /// Bytes for what is kept of descriptions, if it is.
    pub(crate) keeps: Option<usize>,
}

impl LongTrace {
    /// Writes into this file, of any size, synced at the end. The file is emptied when the session starts. Until the
    /// session has stopped, it is locked against other sessions, and no snapshot replaces it.
    ///
    /// A pipe or a device is not locked, and [`stop`](crate::Session::stop) waits while it takes nothing; a named
    /// pipe must already have its reader. On Windows it must be a regular file.
    pub fn to(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            period: Duration::from_secs(1),
            max_file_size: u64::MAX,
            sync: SyncPolicy::default(),
            backlog: 64 << 20,
            rotation: Rotation::default(),
            compression: Compression::default(),
            signals: Vec::new(),
            keeps: None,
        }
    }

    /// Sets how often to write at least; 1 s unless set, 10 ms or more. A kill loses what was recorded in a period.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.clamp(Duration::from_millis(10), FOR_EVER);
        self
    }

    /// Sets the most bytes of the file. When the next packet does not fit, the trace ends, with its statistics as far
    /// as they fit, and the session records no more. A compressed trace may end a mebibyte earlier. It does not hold
    /// for files that [follow each other](Self::rotate_at_size).
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// Begins another file before one exceeds this many bytes, up to a mebibyte earlier.
    ///
    /// Files are then called `NAME-N.EXTENSION`: `long-0.pftrace`, `long-1.pftrace` and so on for `long.pftrace`, `N`
    /// continuing after the largest that is there. Each can be opened by itself: it begins with clocks, tracks, names and
    /// what is open, and ends with statistics, which count from the session's start. No event is in two of them.
    #[must_use]
    pub fn rotate_at_size(mut self, bytes: u64) -> Self {
        self.rotation.size = Some(bytes);
        self
    }

    /// Begins another file after this time, with the first write after it. Files are named as by
    /// [`rotate_at_size`](Self::rotate_at_size).
    #[must_use]
    pub fn rotate_every(mut self, time: Duration) -> Self {
        self.rotation.time = Some(time);
        self
    }

    /// Keeps this many files, the one that is written among them: with each new file the oldest go, those of earlier
    /// runs included. Needs [`rotate_at_size`](Self::rotate_at_size) or [`rotate_every`](Self::rotate_every).
    #[must_use]
    pub fn keep_files(mut self, files: u32) -> Self {
        self.rotation.files = Some(files);
        self
    }

    /// Keeps so many files that they have at most this many bytes in all, those of earlier runs included. A file has at
    /// most a quarter of it. A file that another process writes stays in any case.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.rotation.bytes = Some(bytes);
        self
    }

    /// Sets how packets are compressed: not at all unless set. With a buffer [in a
    /// file](crate::BufferConfig::in_file) a session does not start if they are, or if there are several files.
    #[must_use]
    pub fn compress(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the most bytes that wait in memory for a file that takes nothing: 64 MiB unless set, 2 MiB or more. They
    /// take memory only while they wait.
    #[must_use]
    pub fn backlog(mut self, bytes: usize) -> Self {
        self.backlog = bytes;
        self
    }

    /// Completes the trace on these signals, which then take their default action, such as the end of the program. In a
    /// child after a fork they take it at once. Starting the session fails with signals that cannot be caught, and on
    /// Windows with any.
    #[must_use]
    pub fn complete_on_signals(mut self, signals: &[i32]) -> Self {
        self.signals = signals.to_owned();
        self
    }

    /// Refuses what recovery of a buffer in a file does not know: it finds in the trace, byte for byte, what was on its
    /// way there.
    pub(crate) fn check_beside_file(&self) -> io::Result<()> {
        if self.rotation.is_on() || self.compression != Compression::None {
            let why = "beside a buffer in a file, a long trace is one file and not compressed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(())
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
    /// Bytes of whole packets in the file; in all of them, if they follow each other.
    pub bytes: u64,
    /// Files that were begun.
    pub files: u64,
    /// Packets that were given up because the file took nothing for too long.
    pub packets_not_written: u64,
    /// Packets in the file that readers skip: names, clock or track that they need were lost before them.
    pub packets_unreadable: u64,
    /// Times that what was written was synced to the disk.
    pub syncs: u64,
    /// The file is a pipe or a socket whose reader is gone. What is recorded waits for another one.
    pub has_no_reader: bool,
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
    /// Packets given up on the way.
    lost: AtomicU64,
    unreadable: AtomicU64,
    /// Something was lost before packets of the file: from then on it is looked whether they can be read.
    has_losses: AtomicBool,
    /// How many bytes more, or less, the file has than were handed over.
    growth: AtomicI64,
    files: AtomicU64,
    syncs: AtomicU64,
    has_no_reader: AtomicBool,
    /// Statistics with which a file ends that is followed by another.
    end_of_file: Mutex<Piece>,
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
            files: self.files.load(Ordering::Relaxed),
            packets_not_written: self.lost.load(Ordering::Relaxed),
            packets_unreadable: self.unreadable.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            has_no_reader: self.has_no_reader.load(Ordering::Relaxed),
            error: errors.write.as_ref().or(errors.lasting.as_ref()).cloned(),
            bytes_given_up: self.given_up.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    fn end_of_file(&self) -> Piece {
        self.end_of_file.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
