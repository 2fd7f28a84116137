//! Errors that name the file they are about.

use std::io;
use std::path::Path;

use crate::figures::Escaped;

/// The error, prefixed with the file's name.
pub(crate) fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", Escaped(path.display())))
}

/// The same for a file that was to be written.
#[cfg(feature = "receive")]
pub(crate) fn about_writing(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: cannot be written: {error}", Escaped(path.display())))
}
