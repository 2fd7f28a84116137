//! Programs that record into the same trace.

use std::sync::Arc;

use super::RecordOptions;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::session::{PerfettoSocket, ProducerSocket, SocketFile, SocketKind};
use crate::session::{Session, SessionError};

/// The sockets that programs are to come to, as far as there are any: made before the session starts, which empties the
/// file of a long trace.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) struct Doors {
    own: Option<SocketFile>,
    perfetto: Option<SocketFile>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Doors {
    pub(super) fn of(options: &RecordOptions) -> Result<Self, SessionError> {
        let bind =
            |path: &Option<_>, kind| path.as_deref().map(|path| SocketFile::bind(path, kind)).transpose();
        let own = bind(&options.socket, SocketKind::Messages)?;
        Ok(Self { own, perfetto: bind(&options.perfetto, SocketKind::Stream)? })
    }

    pub(super) fn open(
        self,
        options: &RecordOptions,
        session: &Arc<Session>,
    ) -> Result<Programs, SessionError> {
        let own = self.own.map(|socket| ProducerSocket::builder().serve(session, socket)).transpose()?;
        let mut builder = PerfettoSocket::builder();
        if !options.categories.is_empty() {
            builder = builder.categories(options.categories.iter().map(String::as_str));
        }
        let perfetto = self.perfetto.map(|socket| builder.serve(session, socket)).transpose()?;
        Ok(Programs { own, perfetto })
    }
}

/// The programs that come.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) struct Programs {
    own: Option<ProducerSocket>,
    perfetto: Option<PerfettoSocket>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Programs {
    /// How many have come; `None` where none can.
    pub(super) fn seen(&self) -> Option<u64> {
        let own = self.own.as_ref().map(ProducerSocket::producers_seen);
        let perfetto = self.perfetto.as_ref().map(PerfettoSocket::producers_seen);
        own.into_iter().chain(perfetto).reduce(u64::saturating_add)
    }
}

// Where there is no `/proc` either.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) struct Doors;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Doors {
    pub(super) fn of(options: &RecordOptions) -> Result<Self, SessionError> {
        let Some(path) = options.socket.as_ref().or(options.perfetto.as_ref()) else { return Ok(Self) };
        Err(SessionError::io(
            format!("the socket {}", path.display()),
            std::io::ErrorKind::Unsupported.into(),
        ))
    }

    pub(super) fn open(self, _: &RecordOptions, _: &Arc<Session>) -> Result<Programs, SessionError> {
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
