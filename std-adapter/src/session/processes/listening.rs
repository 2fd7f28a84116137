//! Who comes to a socket: taken one after the other, numbered and attached, no more than there are places for.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracebuf::service::ProducerIdentity;

use super::link::{Kind, Link};
use super::peer::Peer;
use super::socket_file::SocketFile;
use crate::figures::Count;
use crate::limits::SHARED_MEMORY;
use crate::session::waits::join;
use crate::session::{Session, SessionError, Transport, Waker};

/// How those who come are spoken to.
pub(super) trait Host: Send + Sync + 'static {
    type Producer: Transport + 'static;

    /// Those for whom there is no place wait for one, and are not told.
    const WAITS: bool;

    /// Says why this one is not taken.
    fn refuse(&self, link: &Link, why: &str);

    /// Makes a producer of one who has come, or says why the service cannot. Nothing is said to it before it is attached:
    /// what it records as soon as it may would not be in a session that ends just then.
    fn take(&self, newcomer: Newcomer) -> io::Result<Self::Producer>;
}

/// One who has come.
pub(super) struct Newcomer {
    pub(super) link: Arc<Link>,
    pub(super) identity: ProducerIdentity,
    /// Of how many buffers the session is.
    pub(super) buffers: u16,
    pub(super) waker: Waker,
    /// One of the places, for as long as it is there.
    pub(super) place: Arc<()>,
    /// Where it has come in.
    pub(super) door: Weak<Door>,
}

/// A socket of a session, at which each who comes has so many bytes of shared memory.
pub(super) fn bind(
    session: &Session,
    path: &Path,
    kind: Kind,
    shared_memory: usize,
) -> Result<SocketFile, SessionError> {
    if !SHARED_MEMORY.contains(&shared_memory) {
        return Err(SessionError::SharedMemory { bytes: shared_memory });
    }
    if !session.shared.switch.is_here() {
        return Err(SessionError::Forked);
    }
    SocketFile::bind(path, kind)
}

/// Where they come in, until it is closed.
pub(super) struct Door {
    socket: SocketFile,
    is_closed: AtomicBool,
}

impl Door {
    /// Nobody comes any more. Before those who have come are sent away at a session's end: they would come again at once,
    /// and in vain.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.socket.link.shut();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// A socket with a thread that takes those who come, until it is dropped.
pub(super) struct Listening<H> {
    shared: Arc<Shared<H>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<H> {
    host: H,
    door: Arc<Door>,
    session: Weak<Session>,
    buffers: u16,
    /// How many may be there at a time.
    producers: usize,
    /// Each of them has it too.
    places: Arc<()>,
    seen: AtomicU64,
}

/// How long until it looks again whether there is a place, or a connection to be had.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Whether others may come after this one.
enum Next {
    Goes,
    Ends,
}

impl<H: Host> Listening<H> {
    pub(super) fn start(
        host: H,
        session: &Arc<Session>,
        socket: SocketFile,
        producers: usize,
    ) -> Result<Self, SessionError> {
        let shared = Arc::new(Shared {
            host,
            door: Arc::new(Door { socket, is_closed: AtomicBool::new(false) }),
            session: Arc::downgrade(session),
            buffers: session.shared.state_every.len() as u16,
            producers,
            places: Arc::default(),
            seen: AtomicU64::new(0),
        });
        let of_thread = shared.clone();
        let thread = thread::Builder::new().name("tracebuf-listen".into()).spawn(move || of_thread.serve());
        let thread = thread.map_err(|error| SessionError::io("starting a thread", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<H> Listening<H> {
    /// How many have come until now, those among them that have gone again.
    pub(super) fn seen(&self) -> u64 {
        self.shared.seen.load(Ordering::Relaxed)
    }
}

impl<H: Host> Shared<H> {
    fn serve(&self) {
        while !self.door.is_closed() {
            if H::WAITS && self.taken() >= self.producers {
                thread::sleep(LOOK_AGAIN);
                continue;
            }
            match self.door.socket.link.accept() {
                Ok(link) => {
                    let Some(session) = self.session.upgrade() else { break };
                    if let Next::Ends = self.attach(&session, link) {
                        break;
                    }
                }
                // Too many open files, or one that has gone again.
                Err(_) if !self.door.is_closed() => thread::sleep(LOOK_AGAIN),
                Err(_) => {}
            }
        }
        self.door.close();
        // Those who have come and were not taken hear that they never will be: else they would wait as long as there is
        // the socket.
        while self.door.socket.link.accept().is_ok() {}
    }

    /// Places that are taken. More are only by the thread that takes them.
    fn taken(&self) -> usize {
        Arc::strong_count(&self.places) - 1
    }

    fn attach(&self, session: &Session, link: Link) -> Next {
        let link = Arc::new(link);
        let refuse = |why: &str| {
            self.host.refuse(&link, why);
            Next::Goes
        };
        if self.taken() >= self.producers {
            let producers = Count(self.producers as u64, "producer");
            return refuse(&format!("the service has {producers}, as many as it takes"));
        }
        let producer_id = match session.new_producer_id() {
            Ok(id) => id,
            Err(SessionError::Stopped | SessionError::Forked) => return Next::Ends,
            Err(error) => return refuse(&error.to_string()),
        };
        let Peer { uid, pid } = link.peer();
        let newcomer = Newcomer {
            link: link.clone(),
            identity: ProducerIdentity { producer_id, uid, pid },
            buffers: self.buffers,
            waker: session.waker(),
            place: self.places.clone(),
            door: Arc::downgrade(&self.door),
        };
        let producer = match self.host.take(newcomer) {
            Ok(producer) => producer,
            Err(error) => return refuse(&format!("the service has no room: {error}")),
        };
        self.seen.fetch_add(1, Ordering::Relaxed);
        match session.attach(producer) {
            Ok(()) | Err(SessionError::Timeout) => Next::Goes,
            Err(_) => Next::Ends,
        }
    }
}

impl<H> Drop for Listening<H> {
    fn drop(&mut self) {
        let door = &self.shared.door;
        if !door.socket.link.is_here() {
            // Nor is the thread in this process.
            return;
        }
        door.close();
        // It drops a session that nobody else has any more, and what that owns.
        self.thread.take().into_iter().for_each(join);
    }
}
