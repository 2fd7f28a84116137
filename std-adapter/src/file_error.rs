//! Errors that name the file they are about.

use std::io;
use std::path::Path;

/// The error with what was done, and to which file, before it.
pub(crate) fn about(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}
