//! A file's lock, which a process has and its children have not.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::closed_in_children::ClosedInChildren;

/// Keeps a file locked until it is dropped or its process ends, whatever children that has.
///
/// The system's lock is that of an open file, which children after a fork have too, and so has what is mapped from it:
/// the last of them would keep it. So the file is opened once more for the lock alone, and that is closed in children.
pub(crate) struct Lock(ClosedInChildren);

impl Lock {
    /// Locks a file that was opened at this path.
    pub(crate) fn new(file: &File, path: &Path) -> io::Result<Self> {
        let own = OpenOptions::new().write(true).open(path)?;
        if !is_same(&own.metadata()?, &file.metadata()?) {
            return Err(in_use());
        }
        // First, for a child that came in between would keep the lock. One that came since the file was opened does: it
        // has the file, and does not know that it is to close it.
        let own = ClosedInChildren::new(own);
        try_lock(own.get()?)?;
        Ok(Self(own))
    }

    /// The same of a file that is of use without a lock too, where its file system has none.
    pub(crate) fn where_possible(file: &File, path: &Path) -> io::Result<Option<Self>> {
        let has_none = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].map(Errno::raw_os_error);
        match Self::new(file, path) {
            Err(error) if error.raw_os_error().is_some_and(|error| has_none.contains(&error)) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First, for a child that comes before it is closed would keep the lock.
        let _ = self.0.get().map(|file| flock(file, FlockOperation::Unlock));
    }
}

/// Keeps a file locked for a moment, by one that has other uses.
#[must_use]
pub(crate) struct Held<'f>(&'f File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Left to the closing of the file, a child that came meanwhile would keep the lock.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

pub(crate) fn lock(file: &File) -> io::Result<Held<'_>> {
    try_lock(file).map(|()| Held(file))
}

/// One session a file.
fn try_lock(file: impl AsFd) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        Errno::WOULDBLOCK => in_use(),
        // Not every file system has locks, nor always room for one more.
        other => other.into(),
    })
}

/// Refuses a file that a session is using, also one of another process; of one that nobody knows this of it is not
/// said. To be asked before a file is emptied: of a long trace all would be gone, and a process whose buffer is in the
/// file would end.
///
/// ```
/// use tracebuf_std::region_file::check_is_free;
/// use tracebuf_std::session::{LongTrace, Session};
///
/// let path = std::env::temp_dir().join(format!("doc-free-{}.pftrace", std::process::id()));
/// let session = Session::builder().long_trace(LongTrace::to(&path)).start()?;
/// assert!(check_is_free(&path).is_err());
/// session.stop()?;
/// check_is_free(&path)?;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if a session has it.
pub fn check_is_free(path: &Path) -> io::Result<()> {
    // Looked at first: who opens a pipe waits for its other end.
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let Ok(file) = File::open(path) else { return Ok(()) };
    // Shared: file systems that lock over a network want a file that can be written for more.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Err(in_use()),
        Ok(()) => {
            drop(Held(&file));
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// Creates a file, or empties the one that is there, unless a session is using it.
///
/// ```
/// let path = std::env::temp_dir().join(format!("doc-create-{}.svg", std::process::id()));
/// std::io::Write::write_all(&mut tracebuf_std::region_file::create_if_free(&path)?, b"<svg/>")?;
/// assert_eq!(std::fs::read(&path)?, b"<svg/>");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of [`check_is_free`], and what the file system says.
pub fn create_if_free(path: &Path) -> io::Result<File> {
    check_is_free(path)?;
    File::create(path)
}

/// Whether it is the same file, by whatever name.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another session is using it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_locked_for_a_moment_is_free_though_a_child_of_that_moment_lives_on() {
        let path = std::env::temp_dir().join(format!("tracebuf-lock-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let other = File::open(&path).expect("a file");
        std::fs::remove_file(path).expect("it is there");
        let held = lock(&file).expect("it is free");
        // What a child has of it is the same open file.
        let child_s = file.try_clone().expect("a file");
        assert!(lock(&other).is_err());
        drop(held);
        drop(file);
        assert!(lock(&other).is_ok());
        drop(child_s);
    }
}
