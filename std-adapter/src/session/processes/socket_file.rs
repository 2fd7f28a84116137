//! A socket that has a place among the files.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::link::Link;
use crate::file_lock::is_same;
use crate::session::SessionError;

/// A socket at a path, where others can connect, until it is dropped; whoever takes them has to come yet.
pub(crate) struct SocketFile {
    pub(super) link: Link,
    /// To be removed, unless another one is there by then.
    path: PathBuf,
    file: Metadata,
}

impl SocketFile {
    /// Listens at a path where nobody else does.
    pub(crate) fn bind(path: &Path) -> Result<Self, SessionError> {
        Self::at(path).map_err(|error| SessionError::io(format!("the socket {}", path.display()), error))
    }

    fn at(path: &Path) -> io::Result<Self> {
        let link = listen(path)?;
        let file = path.symlink_metadata()?;
        // Programs that go into the background leave the folder that they were started in.
        let path = std::path::absolute(path)?;
        Ok(Self { link, path, file })
    }
}

fn listen(path: &Path) -> io::Result<Link> {
    match Link::listening(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            // An ordinary file refuses connections too.
            let is_socket = path.symlink_metadata()?.file_type().is_socket();
            if !is_socket || Link::is_there(path).unwrap_or(true) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            Link::listening(path)
        }
        other => other,
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a child after a fork it is another process's.
        if self.link.is_here() && self.path.symlink_metadata().is_ok_and(|there| is_same(&there, &self.file))
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
