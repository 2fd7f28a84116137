//! A socket with a path in the file system.

use std::path::Path;

use crate::link::{Link, SocketKind};
use tracebuf_session::SessionError;
use tracebuf_sockets::{Listening, SocketPath};

/// How many may wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket at a path, where others can connect until it is dropped; nothing accepts them yet.
#[derive(Debug)]
pub struct SocketFile {
    pub(crate) link: Link,
    path: SocketPath,
}

impl SocketFile {
    /// Listens at a path where nothing else does.
    ///
    /// # Errors
    /// Something listens there, or what the system says.
    pub fn bind(path: impl AsRef<Path>, kind: SocketKind) -> Result<Self, SessionError> {
        let path = path.as_ref();
        let bound = Listening::at(path, kind, BACKLOG);
        let bound = bound.map(|Listening { socket, path }| Self { link: Link::of(socket), path });
        bound.map_err(|error| SessionError::io(format!("the socket {}", path.display()), error))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a child after a fork it belongs to another process.
        if self.link.is_here() {
            self.path.remove();
        }
    }
}
