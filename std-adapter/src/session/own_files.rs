//! The files that a session writes into.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use crate::system::is_same;

/// The files that a session writes into as long as it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    /// Also when it is complete.
    pub(crate) long_trace: Option<Metadata>,
    /// Of buffers in files.
    pub(crate) regions: Vec<Metadata>,
}

impl OwnFiles {
    /// Refuses to replace one of them, by whatever name: what goes into it would be gone.
    pub(crate) fn check_is_none(&self, path: &Path) -> io::Result<()> {
        let Ok(there) = fs::metadata(path) else { return Ok(()) };
        let is_there = |file: &Metadata| there.is_file() && is_same(&there, file);
        let what = if self.long_trace.as_ref().is_some_and(is_there) {
            "it is the file of the session's long trace"
        } else if self.regions.iter().any(is_there) {
            "it is the file of a buffer of the session"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }
}
