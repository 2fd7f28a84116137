//! Files that a start has made, which go again if the session does not start.

use std::fs;
use std::path::{Path, PathBuf};

/// Takes a new file back when it is dropped, unless the file is to stay.
#[must_use]
pub(crate) struct Undo(Option<New>);

struct New {
    path: PathBuf,
    /// Where what was there before lies now.
    previous: Option<PathBuf>,
}

impl Undo {
    pub(crate) fn new(path: &Path, previous: Option<PathBuf>) -> Self {
        Self(Some(New { path: path.to_owned(), previous }))
    }

    /// The file stays.
    pub(crate) fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some(New { path, previous }) = &self.0 else { return };
        // The start has failed already, and says why; what cannot be put back either lies where it was moved to.
        let _ = match previous {
            Some(previous) => fs::rename(previous, path),
            None => fs::remove_file(path),
        };
    }
}
