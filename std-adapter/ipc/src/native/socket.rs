//! The socket for producers with this crate: [`ProducerSocket`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::acceptor::{self, Admission, ListenThread, NewProducer};
use crate::link::{Link, SocketKind};
use crate::native::producer::NativeProducer;
use crate::native::welcome::Welcome;
use crate::shared_memory::SharedWords;
use crate::socket_file::SocketFile;
use tracebuf_session::{Session, SessionError};

/// Sets up a [`ProducerSocket`]. Made by [`ProducerSocket::builder`].
///
/// ```
/// use std::sync::Arc;
/// use tracebuf_ipc::{Connection, ProducerSocket};
/// use tracebuf_session::Session;
///
/// # let path = std::env::temp_dir().join(format!("doc-socket-builder-{}", std::process::id()));
/// let session = Arc::new(Session::builder().start()?);
/// let socket = ProducerSocket::builder().shared_memory(256 << 10).producers(1).bind(&session, &path)?;
/// let first = Connection::builder().open(&path)?;
/// let refused = Connection::builder().open(&path).unwrap_err();
/// println!("{refused}");
/// assert_eq!(socket.producers_seen(), 1);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProducerSocketBuilder {
    shared_memory: usize,
    producers: usize,
}

/// A socket through which other programs on this machine record into a session, each with a [`Connection`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tracebuf_ipc::{Connection, ProducerSocket};
/// use tracebuf_session::Session;
///
/// let path = std::env::temp_dir().join(format!("doc-socket-{}", std::process::id()));
/// // In the service:
/// let session = Arc::new(Session::builder().ring(16 << 20).start()?);
/// let socket = ProducerSocket::builder().bind(&session, &path)?;
///
/// // In each of the others, usually another process:
/// let service = Connection::builder().open(&path)?;
/// let recorder = service.recorder();
/// recorder.instant("hello from elsewhere");
/// service.flush(Duration::from_secs(5))?;
///
/// let summary = session.summary()?;
/// assert_ne!(summary.sequences[0].producer_id, Session::OWN_PRODUCER_ID);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// # Trust
/// Anyone who may write to the socket's file, which is created by the process's umask, may record: into all buffers,
/// with any times, names and tracks. Packets are attributed to the process and user that the system reports. Whatever
/// producers send or write to shared memory cannot harm the session. Only a [flush](Session::flush), a snapshot and the
/// session's stop wait for one that does not answer, for a limited time.
///
/// # End
/// Dropping the socket removes its file; producers that have come go on recording until the session stops. Like a
/// [`FlightRecorder`](tracebuf_session::FlightRecorder) it does not keep the session alive.
/// [`Summary::producers`](tracebuf_session::Summary::producers) says who is there, and whether they answer.
///
/// Cost: a thread, and for each producer a thread, 25 KB and the shared memory.
///
/// [`Connection`]: crate::Connection
pub struct ProducerSocket(ListenThread<NativeAdmission>);

/// The programs that come are [`Connection`](crate::Connection)s.
struct NativeAdmission {
    shared_memory: usize,
    /// What each producer is told.
    welcome: Arc<[u8]>,
}

impl fmt::Debug for ProducerSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerSocket")
            .field("producers_seen", &self.producers_seen())
            .finish_non_exhaustive()
    }
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
    /// Each thread that records holds 2 KiB of it for each buffer. With 1 MiB, 512 threads can record at a time; others
    /// drop their events, even if they are to [wait](crate::ConnectionBuilder::exhaustion). 2 MiB and a page are enough
    /// for all 1,024 that can record.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = bytes;
        self
    }

    /// Limits how many producers may be there at a time; more are refused, and told so. All share the places for
    /// sequences in each buffer: see [`BufferConfig::sequences`](tracebuf_session::BufferConfig::sequences).
    ///
    /// Children after a fork close the sockets of some 4,000 producers. Any others do not hear that the service was
    /// killed as long as such a child lives.
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
    /// No thread, or a session that has ended.
    pub fn serve(self, session: &Arc<Session>, socket: SocketFile) -> Result<ProducerSocket, SessionError> {
        let welcome = Welcome {
            shared_memory: self.shared_memory,
            state_every: session.state_every().to_vec(),
            sources: session.data_sources().to_vec(),
        };
        let welcome = welcome.to_bytes().ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "they are too long");
            SessionError::io("names of data sources", error)
        })?;
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
        let _ = link.try_send(&Welcome::refusal(why));
    }

    fn admit(&self, newcomer: NewProducer) -> io::Result<NativeProducer> {
        let (words, file) = SharedWords::new(self.shared_memory)?;
        NativeProducer::start(newcomer, words, (self.welcome.clone(), file))
    }
}
