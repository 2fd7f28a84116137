//! The socket for those who want what a session has: [`ConsumerSocket`].

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::consumer::{Consumer, OfferedSession};
use crate::link::{Link, SocketKind, spawn};
use crate::socket_file::SocketFile;
use tracebuf_session::parts::{PATIENCE, join};
use tracebuf_session::{Session, SessionError};
use tracebuf_std::process::name;
use tracebuf_std::system::user_id;

/// Most consumers at a time.
const CONSUMERS: usize = 8;

/// How long until a connection is looked for again that could not be had.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Sets up a [`ConsumerSocket`]. Made by [`ConsumerSocket::builder`].
#[derive(Clone, Debug, Default)]
pub struct ConsumerSocketBuilder {
    name: Option<String>,
}

/// A socket at which Perfetto's consumers take snapshots of a session from outside, while that goes on.
///
/// ```
/// use std::sync::Arc;
/// use tracebuf_ipc::ConsumerSocket;
/// use tracebuf_session::Session;
///
/// let path = std::env::temp_dir().join(format!("doc-consumers-{}", std::process::id()));
/// let session = Arc::new(Session::builder().ring(16 << 20).start()?);
/// let _socket = ConsumerSocket::builder().name("camera").bind(&session, &path)?;
/// // From now on: PERFETTO_CONSUMER_SOCK_NAME=/…/doc-consumers-1234 perfetto --clone-by-name camera -o trace.pftrace
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// To consumers the program is a service with one session, with number 1, that has been started. `perfetto --query`
/// shows it; `--clone` and `--clone-by-name` get what [`Session::snapshot`] has at that moment,
/// and so does `CloneTrace` of Perfetto's SDK. Traces begin with an identifier of their own, as each clone's.
/// Consumers begin and end no sessions: that is refused, with a text that says so.
///
/// - **Who may connect**: processes of this user, and of root; also only those that may write to the file. Others are
///   sent away without a word.
/// - **Limits**: 8 consumers at a time; more are sent away. One that takes nothing for 5 to 10 s while it reads is, too.
/// - **The session ends**: consumers hear so when they ask for a clone. What was cloned before can still be read.
/// - **A fork**: the socket is the parent's.
///
/// Cost: a thread, one more for each consumer, and for each clone that was not read the memory of a snapshot.
#[derive(Debug)]
pub struct ConsumerSocket {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    socket: SocketFile,
    is_closed: AtomicBool,
    consumers: Mutex<Vec<(Arc<Link>, JoinHandle<()>)>>,
}

impl ConsumerSocket {
    /// A socket of a session that is named like this process.
    #[must_use]
    pub fn builder() -> ConsumerSocketBuilder {
        ConsumerSocketBuilder::default()
    }
}

impl ConsumerSocketBuilder {
    /// Names the session, for `--clone-by-name`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Creates the socket at this path, and answers consumers from now on, until it is dropped. A socket that a killed
    /// process has left there is replaced. The session does not end later because of it, unless a
    /// consumer clones it just then: a clone takes up to ten seconds.
    ///
    /// # Errors
    /// Something listens there already, or what the system says; [`SessionError::Forked`] in a child after a fork.
    pub fn bind(
        self,
        session: &Arc<Session>,
        path: impl AsRef<Path>,
    ) -> Result<ConsumerSocket, SessionError> {
        if !session.is_here() {
            return Err(SessionError::Forked);
        }
        let socket = SocketFile::bind(path, SocketKind::Stream)?;
        let name = self.name.unwrap_or_else(|| name().into());
        let offered = OfferedSession { session: Arc::downgrade(session), name, since: SystemTime::now() };
        let shared =
            Arc::new(Shared { socket, is_closed: AtomicBool::new(false), consumers: Mutex::default() });
        let of_thread = shared.clone();
        let thread = spawn("tracebuf-consume", move || of_thread.accept(&Arc::new(offered)))?;
        Ok(ConsumerSocket { shared, thread: Some(thread) })
    }
}

impl Shared {
    fn accept(&self, offered: &Arc<OfferedSession>) {
        while !self.is_closed.load(Ordering::Relaxed) {
            match self.socket.link.accept(None) {
                Ok(link) => self.admit(link, offered),
                // Too many open files, or one that has already gone.
                Err(_) if !self.is_closed.load(Ordering::Relaxed) => thread::sleep(RETRY_INTERVAL),
                Err(_) => {}
            }
        }
    }

    /// Begins a conversation, if this is one who may have it.
    fn admit(&self, link: Link, offered: &Arc<OfferedSession>) {
        let mut consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner);
        consumers.retain(|(_, thread)| !thread.is_finished());
        let may_come = [0, user_id()].contains(&link.peer().uid);
        if !may_come || consumers.len() >= CONSUMERS || link.give_up_sending_after(PATIENCE).is_err() {
            return;
        }
        let link = Arc::new(link);
        let (own, consumer) = (link.clone(), Consumer::new(link.clone(), offered.clone()));
        let serve = move || {
            // It has hung up, or takes nothing: there is nobody to tell.
            let _ = consumer.serve();
            own.shut();
        };
        consumers.extend(spawn("tracebuf-consumer", serve).ok().map(|thread| (link, thread)));
    }
}

impl Drop for ConsumerSocket {
    fn drop(&mut self) {
        if !self.shared.socket.link.is_here() {
            // Nor are the threads in this process.
            return;
        }
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.socket.link.shut();
        self.thread.take().into_iter().for_each(join);
        let consumers =
            std::mem::take(&mut *self.shared.consumers.lock().unwrap_or_else(PoisonError::into_inner));
        consumers.iter().for_each(|(link, _)| link.shut());
        consumers.into_iter().for_each(|(_, thread)| join(thread));
    }
}
