//! A file's lock on Windows: that it is open, through [`for_a_trace`](crate::system::for_a_trace).

use std::fs::File;
use std::io;
use std::path::Path;

/// No lock beside the open file.
pub(crate) enum Lock {}

impl Lock {
    /// The file is already locked.
    pub(crate) fn where_possible(_: &File, _: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }
}
