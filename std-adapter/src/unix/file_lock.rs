//! A lock on a file that a process holds and its children do not.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::system::fork::ClosedInChildren;
use crate::system::{id_at, id_of};
use crate::waits::{ASKED, in_use, within};

/// Keeps a file locked until it is dropped or its process ends, whatever children that process has.
///
/// The system's lock belongs to an open file, which children share after a fork, as do mappings of it: the last of them
/// would keep the lock. So the file is opened once more for the lock alone, and that is closed in children.
#[derive(Debug)]
pub struct Lock(ClosedInChildren);

impl Lock {
    /// Locks a file that was opened at this path.
    ///
    /// # Errors
    /// Others hold it for longer than 50 ms, it no longer has this name, or what the system says.
    pub fn new(file: &File, path: &Path) -> io::Result<Self> {
        Self::within(ASKED, file, path)
    }

    /// The same, waiting this long if others hold the file.
    pub fn within(patience: Duration, file: &File, path: &Path) -> io::Result<Self> {
        let own = OpenOptions::new().write(true).open(path)?;
        if id_of(&own)? != id_of(file)? {
            return Err(in_use());
        }
        // First, because a child forked in between would keep the lock. One forked since the file was opened does: it
        // has the file, and does not know that it must close it.
        let own = ClosedInChildren::new(own);
        try_lock(own.get()?, patience)?;
        // Another start that had the lock until now, and failed, has removed the file.
        let id = id_of(file)?;
        if !id_at(path).is_ok_and(|there| there == id) {
            return Err(in_use());
        }
        Ok(Self(own))
    }

    /// The same; `None` on a file system that has no locks, or none that suits.
    pub fn where_possible(file: &File, path: &Path) -> io::Result<Option<Self>> {
        if stops_other_handles(file) {
            return Ok(None);
        }
        let has_none = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].map(Errno::raw_os_error);
        match Self::new(file, path) {
            Err(error) if error.raw_os_error().is_some_and(|error| has_none.contains(&error)) => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Returns true if a lock would stop what its own process writes through another handle, as on SMB mounts (flock(2)).
#[cfg(any(target_os = "linux", target_os = "android"))]
fn stops_other_handles(file: &File) -> bool {
    // Those of the two versions of the protocol.
    const SMB: [u32; 2] = [0xFF53_4D42, 0xFE53_4D42];
    rustix::fs::fstatfs(file).is_ok_and(|system| SMB.contains(&(system.f_type as u32)))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn stops_other_handles(_: &File) -> bool {
    false
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First, because a child forked before the file is closed would keep the lock.
        let _ = self.0.get().map(|file| flock(file, FlockOperation::Unlock));
    }
}

/// Keeps a file locked for a moment, through a handle that has other uses.
#[derive(Debug)]
#[must_use]
pub struct Held<'f>(&'f File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // If this were left to closing the file, a child forked meanwhile would keep the lock.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Locks a file for a moment.
///
/// # Errors
/// Others hold it for longer than 50 ms, or what the system says.
pub fn lock(file: &File) -> io::Result<Held<'_>> {
    lock_within(ASKED, file)
}

/// The same, for what others may hold for so long.
pub fn lock_within(patience: Duration, file: &File) -> io::Result<Held<'_>> {
    try_lock(file, patience).map(|()| Held(file))
}

fn try_lock(file: impl AsFd, patience: Duration) -> io::Result<()> {
    let take = || flock(&file, FlockOperation::NonBlockingLockExclusive);
    within(patience, || {
        take().map_err(|error| match error {
            Errno::WOULDBLOCK => in_use(),
            // Not every file system has locks, nor always room for one more.
            other => other.into(),
        })
    })
}
