//! Files that nobody holds, and that nobody else's link leads to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::system::{check_link, is_locked, standard_output};
pub use crate::waits::in_use;

/// Fails if this or another process holds the file by a [`Lock`](crate::file_lock::Lock); passes if that cannot be
/// determined. To be called before a file is emptied, which would lose what its owner has written, and end an owner
/// whose memory it is.
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if it is held, and those of [`followed`].
pub fn check_is_free(path: &Path) -> io::Result<()> {
    followed(path)?;
    // Looked at first: opening a pipe waits for its other end.
    if !fs::metadata(path).is_ok_and(|there| there.is_file()) {
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

/// The path of the file that links from `path` lead to, whether it exists or not.
///
/// # Errors
/// More than 40 links; one that the system does not follow; another user's in a folder that is sticky and for all, such
/// as `/tmp`, unless it is that folder's owner's: what it leads to would be replaced for whoever planted it. Linux does
/// the same where `fs.protected_symlinks` is set.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        check_link(&path, folder_of(&path))?;
        path.pop();
        path.push(target);
    }
    Err(io::Error::other("too many links lead to each other"))
}

/// The folder that a name is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
