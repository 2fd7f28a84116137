//! What a Unix does in its own way.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;

/// Who this process works for.
pub(crate) fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether it is the same file, by whatever name.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether a session has the file; of one that nobody knows this of it is not said.
pub(crate) fn is_locked(file: &File) -> bool {
    // Shared: file systems that lock over a network want a file that can be written for more.
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            // Left to the closing of the file, a child that came meanwhile would keep the lock.
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        Err(error) => error == Errno::WOULDBLOCK,
    }
}

/// Has files made that no more may read than those who may read this one.
pub(crate) fn as_readable_as(options: &mut OpenOptions, file: &Metadata) {
    options.mode(file.mode() & 0o777);
}

/// An error if what has this name is protected against writing.
pub(crate) fn check_unprotected(path: &Path) -> io::Result<()> {
    Ok(access(path, Access::WRITE_OK)?)
}

pub(crate) fn is_socket(file: &Metadata) -> bool {
    file.file_type().is_socket()
}
