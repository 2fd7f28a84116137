//! Files that nobody holds.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::system::{is_locked, standard_output};
pub use crate::waits::in_use;

/// Fails if this or another process holds the file by a [`Lock`](crate::file_lock::Lock); passes if that cannot be
/// determined. To be called before a file is emptied, which would lose what its owner has written, and end an owner
/// whose memory it is.
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if it is held.
pub fn check_is_free(path: &Path) -> io::Result<()> {
    // Looked at first: opening a pipe waits for its other end.
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    if is_locked(path) { Err(in_use()) } else { Ok(()) }
}

/// Creates a file, or empties the one that is there, unless it is held.
///
/// # Errors
/// Those of [`check_is_free`] and of the file system.
pub fn create_if_free(path: &Path) -> io::Result<File> {
    check_is_free(path)?;
    standard_output(path)?.map_or_else(|| File::create(path), Ok)
}
