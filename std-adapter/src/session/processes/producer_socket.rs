//! The service's side: [`ProducerSocket`].

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracebuf::service::ProducerIdentity;

use super::link::Link;
use super::other_process::{OtherProcess, Place};
use super::peer::Peer;
use super::shared_words::SharedWords;
use super::welcome::Welcome;
use crate::file_lock::is_same;
use crate::session::producer_cell::SHARED_MEMORY;
use crate::session::{Session, SessionError};

/// What a [`ProducerSocket`] is to be. Made by [`ProducerSocket::builder`].
#[derive(Clone, Debug)]
pub struct ProducerSocketBuilder {
    shared_memory: usize,
    producers: usize,
}

/// The socket at which other programs of this machine come to record into a session: each with a [`Connection`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tracebuf_std::session::{Connection, ProducerSocket, Session};
///
/// let path = std::env::temp_dir().join(format!("doc-socket-{}", std::process::id()));
/// // In the service:
/// let session = Arc::new(Session::builder().ring(16 << 20).start()?);
/// let socket = ProducerSocket::builder().bind(&session, &path)?;
///
/// // In each of the others, another process as a rule:
/// let service = Connection::builder().open(&path)?;
/// let recorder = service.recorder();
/// recorder.instant("hello from elsewhere");
/// service.flush(Duration::from_secs(5))?;
///
/// let summary = session.summary()?;
/// assert_ne!(summary.sequences[0].producer_id, Session::OWN_PRODUCER_ID);
/// # Ok::<(), tracebuf_std::session::SessionError>(())
/// ```
///
/// Who may write to the socket's file may record; it is made as the process's umask says, in a folder that may keep
/// others out too. Producers may write to all buffers of the session, with whatever times, names and tracks they like,
/// but not in the name of another: whose packets are whose is told by their process and user, as the system says. Else
/// they are not trusted: whatever they do to shared memory or say, they can neither harm the session nor make it wait
/// for longer than a [flush](Session::flush) does for one that does not answer.
///
/// When it is dropped nobody comes any more, and the socket's file goes; those that have come record on until the
/// session stops. Like a [`FlightRecorder`](crate::session::FlightRecorder) it does not keep the session alive.
///
/// Cost: a thread, and for each producer another one, which waits for messages, and the shared memory. Linux only.
///
/// [`Connection`]: super::Connection
pub struct ProducerSocket {
    listening: Arc<Listening>,
    thread: Option<JoinHandle<()>>,
    /// The socket's file, to be removed.
    path: PathBuf,
    file: Metadata,
}

struct Listening {
    link: Link,
    session: Weak<Session>,
    taken: Arc<AtomicUsize>,
    is_over: AtomicBool,
    config: ProducerSocketBuilder,
    /// What each is told.
    welcome: Vec<u8>,
    buffers: u16,
}

impl ProducerSocket {
    /// For up to 64 producers at a time, each with 1 MiB of shared memory, unless told otherwise.
    pub fn builder() -> ProducerSocketBuilder {
        ProducerSocketBuilder { shared_memory: 1 << 20, producers: 64 }
    }
}

impl ProducerSocketBuilder {
    /// Bytes of shared memory with each producer, from 4 KiB to 64 MiB, which [`bind`](Self::bind) checks; of what
    /// [`SessionBuilder::shared_memory`](crate::session::SessionBuilder::shared_memory) says the same holds. They cost
    /// memory when the producer comes.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = bytes;
        self
    }

    /// How many producers may be there at a time; more are refused, and told so. All of them share the places for
    /// sequences that each buffer has, see [`BufferConfig::sequences`](crate::session::BufferConfig::sequences).
    #[must_use]
    pub fn producers(mut self, count: usize) -> Self {
        self.producers = count;
        self
    }

    /// Makes the socket at this path, of 107 bytes at most, and takes producers from now on. What a service that has
    /// ended without removing it has left there is replaced.
    ///
    /// # Errors
    /// A size of shared memory that cannot be; what the system says of the path, as that somebody is listening there;
    /// no thread; names of data sources of more than some 60,000 bytes; [`SessionError::Forked`] in a child after a fork.
    pub fn bind(
        self,
        session: &Arc<Session>,
        path: impl AsRef<Path>,
    ) -> Result<ProducerSocket, SessionError> {
        let path = path.as_ref();
        if !session.shared.switch.is_here() {
            return Err(SessionError::Forked);
        }
        let bytes = self.shared_memory;
        if !SHARED_MEMORY.contains(&bytes) {
            return Err(SessionError::SharedMemory { bytes });
        }
        let failed = |error| SessionError::io(format!("the socket {}", path.display()), error);
        let welcome = Welcome {
            shared_memory: bytes,
            state_every: session.shared.state_every.clone(),
            sources: session.sources.clone(),
        };
        let too_long = |_| io::Error::new(ErrorKind::InvalidInput, "names of data sources are too long");
        let welcome = welcome.to_bytes().map_err(too_long).map_err(failed)?;
        let link = listen(path).map_err(failed)?;
        let file = path.symlink_metadata().map_err(failed)?;
        let listening = Arc::new(Listening {
            link,
            session: Arc::downgrade(session),
            taken: Arc::default(),
            is_over: AtomicBool::new(false),
            config: self,
            welcome,
            buffers: session.shared.state_every.len() as u16,
        });
        // Programs that go into the background leave the folder that they were started in.
        let path = std::path::absolute(path).map_err(failed)?;
        let of_thread = listening.clone();
        let mut socket = ProducerSocket { listening, thread: None, path, file };
        let thread = thread::Builder::new().name("tracebuf-listen".into()).spawn(move || of_thread.serve());
        socket.thread = Some(thread.map_err(|error| SessionError::io("starting a thread", error))?);
        Ok(socket)
    }
}

/// Listens at a path where nobody else does.
fn listen(path: &Path) -> io::Result<Link> {
    match Link::listening(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            // An ordinary file refuses connections too.
            let is_socket = path.symlink_metadata()?.file_type().is_socket();
            let is_refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
            let is_left = is_socket && Link::connected(path).is_err_and(is_refused);
            if !is_left {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            Link::listening(path)
        }
        other => other,
    }
}

/// Whether others may come after this one.
enum Next {
    Goes,
    Ends,
}

impl Listening {
    fn serve(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            match self.link.accept() {
                Ok(link) => {
                    let Some(session) = self.session.upgrade() else { break };
                    if let Next::Ends = self.welcome(&session, &Arc::new(link)) {
                        break;
                    }
                }
                // Too many open files, or one that has gone again.
                Err(_) if !self.is_over.load(Ordering::Relaxed) => thread::sleep(Duration::from_millis(100)),
                Err(_) => break,
            }
        }
        self.link.shut();
    }

    fn welcome(&self, session: &Session, link: &Arc<Link>) -> Next {
        let refuse = |why: &str| {
            let _ = link.try_send(&Welcome::refusal(why));
            Next::Goes
        };
        let Some(place) = Place::take(&self.taken, self.config.producers) else {
            return refuse(&format!(
                "the service has {} producers, as many as it takes",
                self.config.producers
            ));
        };
        let producer_id = match session.new_producer_id() {
            Ok(id) => id,
            Err(SessionError::Stopped | SessionError::Forked) => return Next::Ends,
            Err(error) => return refuse(&error.to_string()),
        };
        let made = SharedWords::new(self.config.shared_memory).and_then(|(words, file)| {
            let Peer { uid, pid } = link.peer();
            let identity = ProducerIdentity { producer_id, uid, pid };
            let waker = session.waker();
            OtherProcess::start(link, words, identity, self.buffers, place, waker).map(|made| (made, file))
        });
        let (transport, file) = match made {
            Ok(made) => made,
            Err(error) => return refuse(&format!("the service has no room: {error}")),
        };
        // Before anything that the session asks it. If it has gone again, the thread that waits for its messages hears of
        // it.
        let _ = link.try_send_with(&self.welcome, &file);
        match session.attach(transport) {
            Ok(()) | Err(SessionError::Timeout) => Next::Goes,
            Err(_) => Next::Ends,
        }
    }
}

impl Drop for ProducerSocket {
    fn drop(&mut self) {
        if !self.listening.link.is_here() {
            // The thread is not in this process, and the socket is another one's.
            return;
        }
        self.listening.is_over.store(true, Ordering::Relaxed);
        self.listening.link.shut();
        if self.path.symlink_metadata().is_ok_and(|there| is_same(&there, &self.file)) {
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}
