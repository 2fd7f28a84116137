//! The socket for producers with this crate: [`ProducerSocket`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::acceptor::{self, Admission, ListenThread, NewProducer};
use crate::link::{Link, SocketKind, too_long};
use crate::native::producer::NativeProducer;
use crate::native::welcome::Welcome;
use crate::socket_file::SocketFile;
use tracebuf_session::{Session, SessionError};
use tracebuf_sockets::SharedWords;

/// Sets up a [`ProducerSocket`]. Made by [`ProducerSocket::builder`].
#[derive(Clone, Debug)]
pub struct ProducerSocketBuilder {
    shared_memory: usize,
    producers: usize,
}

/// A socket through which other programs on this machine record into a session, each with a [`Connection`]. The
/// [crate's example](crate) has both.
///
/// # Trust
/// Anyone who may write to the socket's file, which has the process's umask, may record: into all buffers, with any
/// times, names and tracks. Packets are attributed to the process and user that the system reports. Nothing that
/// producers do harms the session; only a [flush](Session::flush), a snapshot and the session's stop wait for one that
/// does not answer, for a limited time. One that says nothing within 5 s is sent away, because it has a place: who was
/// sent away, and why, is in [`Summary::refused`](tracebuf_session::Summary::refused). So put the socket into a folder of
/// the service's own, such as `$XDG_RUNTIME_DIR` or one in `/run`: in `/tmp`, another user may make one of that name
/// first, and programs of other users [refuse yours](crate::ConnectionBuilder::service_user).
///
/// Packets are [checked](tracebuf::proto::PacketValidator) as far as their own fields go, and not what is nested in them:
/// a message within one may be malformed. `trace_processor` then leaves out that packet, but readers that parse a whole
/// trace as one message, such as Perfetto's Python package, refuse all of it.
///
/// # End
/// Dropping the socket removes its file; producers that have come go on recording until the session stops. Like a
/// [`FlightRecorder`](tracebuf_session::FlightRecorder) it does not keep the session alive.
/// [`Summary::producers`](tracebuf_session::Summary::producers) says who is there, and whether they answer.
///
/// Cost: a thread, and for each producer a thread, 25 KB and the shared memory.
///
/// [`Connection`]: crate::Connection
#[derive(Debug)]
pub struct ProducerSocket(ListenThread<NativeAdmission>);

/// The programs that come are [`Connection`](crate::Connection)s.
struct NativeAdmission {
    shared_memory: usize,
    welcome: Arc<[u8]>,
}

impl ProducerSocket {
    /// A socket for up to 64 producers at a time, each with 1 MiB of shared memory, unless set otherwise.
    pub fn builder() -> ProducerSocketBuilder {
        ProducerSocketBuilder { shared_memory: 1 << 20, producers: 64 }
    }

    /// How many producers have come, including those that have gone.
    pub fn producers_seen(&self) -> u64 {
        self.0.seen()
    }
}

impl ProducerSocketBuilder {
    /// Sets the bytes of shared memory with each producer, from 4 KiB to 64 MiB.
    ///
    /// Each thread that records holds 2 KiB of it for each buffer; threads that are idle give theirs back when others
    /// need it, unless the program's system forbids `membarrier`.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = bytes;
        self
    }

    /// Limits how many producers may be there at a time; more are refused, and told so. All share the places for
    /// sequences in each buffer: see [`BufferConfig::sequences`](tracebuf_session::BufferConfig::sequences).
    ///
    /// Children after a fork close the sockets of some 4,000 producers. Any more do not hear that the service was killed
    /// while such a child lives.
    #[must_use]
    pub fn producers(mut self, count: usize) -> Self {
        self.producers = count;
        self
    }

    /// Creates the socket at this path, of at most 108 bytes, and accepts producers from now on. What a service that
    /// ended without removing it has left there is replaced.
    ///
    /// # Errors
    /// An impossible size of shared memory; an error of the system, such as that somebody listens there; no thread;
    /// names of data sources of more than some 60,000 bytes; [`SessionError::Forked`] in a child after a fork.
    pub fn bind(
        self,
        session: &Arc<Session>,
        path: impl AsRef<Path>,
    ) -> Result<ProducerSocket, SessionError> {
        let socket = acceptor::bind(session, path.as_ref(), SocketKind::Messages, self.shared_memory)?;
        self.serve(session, socket)
    }

    /// Accepts producers at a socket from now on.
    ///
    /// # Errors
    /// No thread, or names of data sources that are too long.
    pub fn serve(self, session: &Arc<Session>, socket: SocketFile) -> Result<ProducerSocket, SessionError> {
        let welcome = Welcome {
            shared_memory: self.shared_memory,
            state_every: session.state_every().to_vec(),
            sources: session.data_sources().to_vec(),
        };
        let welcome = welcome.to_bytes().ok_or_else(|| too_long("names of data sources"))?;
        let admission = NativeAdmission { shared_memory: self.shared_memory, welcome: welcome.into() };
        ListenThread::start(admission, session, socket, self.producers).map(ProducerSocket)
    }
}

impl Admission for NativeAdmission {
    type Producer = NativeProducer;
    const WAITS: bool = false;
    // It is told why.
    const HELD: Duration = Duration::ZERO;

    fn refuse(&self, link: &Link, why: &str) {
        let _ = link.try_send(&Welcome::refusal(why), None);
    }

    fn admit(&self, newcomer: NewProducer) -> io::Result<NativeProducer> {
        let (words, file) = SharedWords::new(self.shared_memory)?;
        NativeProducer::start(newcomer, words, (self.welcome.clone(), file))
    }
}
