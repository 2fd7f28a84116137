//! What a Unix does in its own way.

use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Access, access};

pub(crate) use crate::file_lock::is_locked;

/// Who this process works for.
pub(crate) fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether it is the same file, by whatever name.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
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
