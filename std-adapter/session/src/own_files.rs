//! The files that a session writes into.

use std::io;
use std::path::Path;

use tracebuf_std::system::{FileId, id_at};

/// The files that a session writes into as long as it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    /// Kept when that is complete, too.
    pub(crate) long_trace: Option<FileId>,
    /// The files of buffers.
    pub(crate) regions: Vec<FileId>,
}

impl OwnFiles {
    /// Refuses to replace one of them, under whatever name: what goes into it would be gone.
    pub(crate) fn check_is_none(&self, path: &Path) -> io::Result<()> {
        if !path.is_file() {
            return Ok(());
        }
        let Ok(there) = id_at(path) else { return Ok(()) };
        let what = if self.long_trace == Some(there) {
            "it is the file of the session's long trace"
        } else if self.regions.contains(&there) {
            "it is the file of a buffer of the session"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }
}
