//! What there is instead where there is no Unix, as on Windows: as much as `std` knows of there.

use std::fs::{Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Nobody's: users have no numbers there.
pub(crate) fn user_id() -> u32 {
    0
}

/// Whether it is the same file, by whatever name. Files have no number that `std` tells; two that were made and changed
/// at the same moment, to 100 ns where disks are Windows's own, are not told apart if they are as long as each other.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let of = |file: &Metadata| (file.is_file(), file.len(), file.created().ok(), file.modified().ok());
    of(one) == of(other)
}

/// Sessions lock files, and there are none.
pub(crate) fn is_locked(_: &Path) -> bool {
    false
}

/// Who may read a file is said by its folder.
pub(crate) fn as_readable_as(_: &mut OpenOptions, _: &Metadata) {}

/// An error if what has this name is protected against writing.
pub(crate) fn check_unprotected(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.permissions().readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// None has a file's name.
pub(crate) fn is_socket(_: &Metadata) -> bool {
    false
}
