//! A machine of files, for tests.

use std::fs;
use std::path::PathBuf;

use super::proc::Proc;

/// Folders that say what `/proc` and `/sys/block` would; gone when dropped.
pub(super) struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// A machine of nothing, for the test of this name.
    pub(super) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracebuf-machine-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for part in ["proc/net", "block"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        Self { folder }
    }

    pub(super) fn proc(&self) -> Proc {
        Proc::at(self.folder.join("proc"), self.folder.join("block"))
    }

    pub(super) fn disk(&self, name: &str) {
        fs::create_dir(self.folder.join("block").join(name)).expect("a folder");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
