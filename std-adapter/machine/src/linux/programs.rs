//! Programs that record into the same trace.

use std::sync::Arc;

use crate::RecordOptions;
use tracebuf_ipc::{PerfettoSocket, ProducerSocket, SocketFile, SocketKind, perfetto_socket};
use tracebuf_session::{Session, SessionError};

/// Sockets that programs connect to, if any. They are made before the session starts, which empties the file of a long
/// trace.
pub(super) struct ListenSockets {
    own: Option<SocketFile>,
    perfetto: Option<SocketFile>,
}

impl ListenSockets {
    pub(super) fn of(options: &RecordOptions) -> Result<Self, SessionError> {
        let bind =
            |path: &Option<_>, kind| path.as_deref().map(|path| SocketFile::bind(path, kind)).transpose();
        let own = bind(&options.socket, SocketKind::Messages)?;
        let perfetto = options.perfetto.clone().map(|path| path.unwrap_or_else(perfetto_socket));
        Ok(Self { own, perfetto: bind(&perfetto, SocketKind::Stream)? })
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

/// Programs that connect.
pub(super) struct Programs {
    own: Option<ProducerSocket>,
    perfetto: Option<PerfettoSocket>,
}

impl Programs {
    /// Programs that have connected; `None` without sockets.
    pub(super) fn seen(&self) -> Option<u64> {
        let own = self.own.as_ref().map(ProducerSocket::producers_seen);
        let perfetto = self.perfetto.as_ref().map(PerfettoSocket::producers_seen);
        own.into_iter().chain(perfetto).reduce(u64::saturating_add)
    }
}
