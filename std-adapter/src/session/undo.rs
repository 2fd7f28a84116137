//! Files that a start has made, which go again if the session does not start.

use std::fs;
use std::path::{Path, PathBuf};

/// Takes a new file back when it is dropped, unless the file is to stay: the name of the file, then those that what was
/// there before was moved to, each from the one before it.
#[must_use]
pub(crate) struct Undo(Vec<PathBuf>);

impl Undo {
    /// `moved`: where what was there lies now, then where what had been in that place does.
    pub(crate) fn new(path: &Path, moved: Vec<PathBuf>) -> Self {
        let mut names = vec![path.to_owned()];
        names.extend(moved);
        Self(names)
    }

    /// The file stays, and the last of what was moved goes: it was kept for this one's sake only.
    pub(crate) fn forget(mut self) {
        if let [_, .., last] = &self.0[..] {
            // There may be none. One that cannot be removed does no harm.
            let _ = fs::remove_file(last);
        }
        self.0.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The start has failed already, and says why; what cannot be put back either lies where it was moved to.
        if let [path] = &self.0[..] {
            let _ = fs::remove_file(path);
        }
        for names in self.0.windows(2) {
            if let [to, from] = names {
                let _ = fs::rename(from, to);
            }
        }
    }
}
