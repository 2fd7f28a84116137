//! Open files that belong to one process and are closed in its children.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use rustix::io::Errno;

use super::fork;

/// An open file or socket that is closed in children after a fork: otherwise a lock would last until they end, and the
/// peer of a connection would not see that this process has ended.
#[derive(Debug)]
pub struct ClosedInChildren {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    /// The fork count of the process that owns it.
    forks: u32,
}

impl ClosedInChildren {
    /// A child forked before this has the file, and does not know that it must close it.
    pub fn new(file: impl Into<OwnedFd>) -> Self {
        fork::watch();
        let (file, forks) = (file.into(), fork::forks());
        fork::close_in_children(file.as_raw_fd());
        Self { file: Some(file), forks }
    }

    /// Whether this process owns the file. In others it is closed, and its number may be another file's.
    pub fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    /// The file, in the process that owns it.
    pub fn get(&self) -> io::Result<&OwnedFd> {
        self.file.as_ref().filter(|_| self.is_here()).ok_or_else(|| Errno::BADF.into())
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if self.is_here() {
            fork::leave_to_children(file.as_raw_fd());
        } else {
            let _ = file.into_raw_fd();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::io::fcntl_getfd;

    use super::*;

    #[test]
    fn children_close_as_many_as_a_service_with_many_producers_has() {
        let open = || ClosedInChildren::new(File::open("/dev/null").expect("it is there"));
        let files: Vec<_> = (0..600).map(|_| open()).collect();
        let are_open = |is_open: bool| {
            let mut files = files.iter().filter_map(|file| file.file.as_ref());
            files.all(|file| fcntl_getfd(file).is_ok() == is_open)
        };
        assert!(are_open(true));
        assert!(fork::tests::in_child(|| are_open(false)));
    }
}
