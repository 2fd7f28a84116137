//! Programs that record into the same trace.

use std::path::Path;
use std::sync::Arc;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::session::{ProducerSocket, SocketFile};
use crate::session::{Session, SessionError};

/// The socket that they are to come to, if there is one: before the session starts, which empties the file of a long
/// trace.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) struct Door(Option<SocketFile>);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Door {
    pub(super) fn at(path: Option<&Path>) -> Result<Self, SessionError> {
        path.map(SocketFile::bind).transpose().map(Self)
    }

    pub(super) fn open(self, session: &Arc<Session>) -> Result<Programs, SessionError> {
        let socket = self.0.map(|socket| ProducerSocket::builder().serve(session, socket));
        socket.transpose().map(Programs)
    }
}

/// Those that come.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) struct Programs(Option<ProducerSocket>);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Programs {
    /// How many have come; `None` where none can.
    pub(super) fn seen(&self) -> Option<u64> {
        self.0.as_ref().map(ProducerSocket::producers_seen)
    }
}

// Where there is no `/proc` either.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) struct Door;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Door {
    pub(super) fn at(path: Option<&Path>) -> Result<Self, SessionError> {
        let Some(path) = path else { return Ok(Self) };
        Err(SessionError::io(
            format!("the socket {}", path.display()),
            std::io::ErrorKind::Unsupported.into(),
        ))
    }

    pub(super) fn open(self, _: &Arc<Session>) -> Result<Programs, SessionError> {
        Ok(Programs)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) struct Programs;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Programs {
    pub(super) fn seen(&self) -> Option<u64> {
        None
    }
}
