//! The thread that accepts producers at a socket: it numbers and attaches them, no more than there are places for.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tracebuf::producer::track_event::Clock;
use tracebuf::service::ProducerIdentity;

use crate::link::{Link, SocketKind, spawn};
use crate::socket_file::SocketFile;
use tracebuf_session::limits::SHARED_MEMORY;
use tracebuf_session::parts::{ProcessTree, Refusals, join};
use tracebuf_session::{BootClock, Session, SessionError, Transport, Waker};
use tracebuf_sockets::Peer;
use tracebuf_std::display::Count;

/// What a protocol does with producers that come.
pub(crate) trait Admission: Send + Sync + 'static {
    type Producer: Transport + 'static;

    /// Whether producers for which there is no place wait for one, without being told.
    const WAITS: bool;

    /// How long the connection of a refused producer is kept.
    const HELD: Duration;

    fn refuse(&self, link: &Link, why: &str);

    /// Makes the transport of a producer, or says why the service cannot. It sends nothing before it is attached:
    /// otherwise what the producer records at once would not be in a session that ends just then.
    fn admit(&self, newcomer: NewProducer) -> io::Result<Self::Producer>;
}

/// A producer that was accepted.
pub(crate) struct NewProducer {
    pub(crate) link: Arc<Link>,
    pub(crate) identity: ProducerIdentity,
    pub(crate) buffers: u16,
    pub(crate) waker: Waker,
    /// It records nothing before this boot time.
    pub(crate) time: u64,
    /// Where it is reported if it is sent away.
    pub(crate) refusals: Refusals,
    /// Where it is reported if it is in a container.
    pub(crate) process_tree: ProcessTree,
    /// Its place, held for as long as it is there.
    pub(crate) place: Arc<()>,
    pub(crate) listener: Weak<Listener>,
}

/// A socket of a session, where each program that comes gets this many bytes of shared memory.
pub(crate) fn bind(
    session: &Session,
    path: &Path,
    kind: SocketKind,
    shared_memory: usize,
) -> Result<SocketFile, SessionError> {
    if !SHARED_MEMORY.contains(&shared_memory) {
        return Err(SessionError::SharedMemory { bytes: shared_memory });
    }
    if !session.is_here() {
        return Err(SessionError::Forked);
    }
    SocketFile::bind(path, kind)
}

pub(crate) struct Listener {
    socket: SocketFile,
    is_closed: AtomicBool,
}

impl Listener {
    /// Accepts nobody any more. Called before a session's end disconnects the producers, which would come again at
    /// once.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.socket.link.shut();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// A thread that accepts producers at a socket until this is dropped.
pub(crate) struct ListenThread<H> {
    acceptor: Arc<Acceptor<H>>,
    thread: Option<JoinHandle<()>>,
}

struct Acceptor<H> {
    admission: H,
    listener: Arc<Listener>,
    session: Weak<Session>,
    buffers: u16,
    producers: usize,
    /// Each producer holds a clone.
    places: Arc<()>,
    seen: AtomicU64,
}

/// How long until the thread looks again whether there is a place, or a connection to be had.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Most refused connections that are kept at a time: each takes an open file.
const MOST_HELD: usize = 64;

enum Admitted {
    Attached,
    Refused(Arc<Link>),
    SessionEnded,
}

/// A refused connection, which ends when this is dropped.
struct RefusedLink {
    link: Arc<Link>,
    until: Instant,
}

impl Drop for RefusedLink {
    fn drop(&mut self) {
        // A thread of the producer that could not be made from it may have it too.
        self.link.shut();
    }
}

impl<H: Admission> ListenThread<H> {
    pub(crate) fn start(
        admission: H,
        session: &Arc<Session>,
        socket: SocketFile,
        producers: usize,
    ) -> Result<Self, SessionError> {
        let acceptor = Arc::new(Acceptor {
            admission,
            listener: Arc::new(Listener { socket, is_closed: AtomicBool::new(false) }),
            session: Arc::downgrade(session),
            buffers: session.state_every().len() as u16,
            producers,
            places: Arc::default(),
            seen: AtomicU64::new(0),
        });
        let of_thread = acceptor.clone();
        let thread = spawn("tracebuf-listen", move || of_thread.serve())?;
        Ok(Self { acceptor, thread: Some(thread) })
    }
}

impl<H> ListenThread<H> {
    /// How many have come until now, including those that have gone again.
    pub(crate) fn seen(&self) -> u64 {
        self.acceptor.seen.load(Ordering::Relaxed)
    }
}

impl<H: Admission> Acceptor<H> {
    fn serve(&self) {
        // All are kept for the same time.
        let mut held = VecDeque::<RefusedLink>::new();
        while !self.listener.is_closed() {
            let now = Instant::now();
            while held.front().is_some_and(|refused| refused.until <= now) {
                held.pop_front();
            }
            if H::WAITS && self.taken() >= self.producers {
                thread::sleep(RETRY_INTERVAL);
                continue;
            }
            match self.listener.socket.link.accept(held.front().map(|refused| refused.until)) {
                Ok(link) => {
                    let Some(session) = self.session.upgrade() else { break };
                    match self.attach(&session, link) {
                        Admitted::Attached => {}
                        Admitted::Refused(link) => {
                            held.push_back(RefusedLink { link, until: Instant::now() + H::HELD });
                            if held.len() > MOST_HELD {
                                held.pop_front();
                            }
                        }
                        Admitted::SessionEnded => break,
                    }
                }
                // A refused one is due to go.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                // Too many open files, or a newcomer that has already gone.
                Err(_) if !self.listener.is_closed() => thread::sleep(RETRY_INTERVAL),
                Err(_) => {}
            }
        }
        self.listener.close();
        // Those that have come and were not accepted hear that they never will be: otherwise they would wait as long as
        // the socket exists.
        let waited = H::WAITS && self.taken() >= self.producers;
        while let Ok(link) = self.listener.socket.link.accept(None) {
            if waited && let Some(session) = self.session.upgrade() {
                let Peer { uid, pid } = link.peer();
                session.refusals().note(uid, pid, &self.no_place());
            }
        }
    }

    fn no_place(&self) -> String {
        format!("the service has {}, as many as it takes", Count(self.producers as u64, "producer"))
    }

    /// Places that are taken. Only the thread that asks takes more.
    fn taken(&self) -> usize {
        Arc::strong_count(&self.places) - 1
    }

    fn attach(&self, session: &Session, link: Link) -> Admitted {
        let link = Arc::new(link);
        let refuse = |why: &str| {
            let Peer { uid, pid } = link.peer();
            session.refusals().note(uid, pid, why);
            self.admission.refuse(&link, why);
            Admitted::Refused(link.clone())
        };
        if self.taken() >= self.producers {
            return refuse(&self.no_place());
        }
        let producer_id = match session.new_producer_id() {
            Ok(id) => id,
            Err(SessionError::Stopped | SessionError::Forked) => return Admitted::SessionEnded,
            Err(error) => return refuse(&error.to_string()),
        };
        let Peer { uid, pid } = link.peer();
        let newcomer = NewProducer {
            link: link.clone(),
            identity: ProducerIdentity { producer_id, uid, pid },
            buffers: self.buffers,
            waker: session.waker(),
            time: BootClock.now(),
            refusals: session.refusals(),
            process_tree: session.process_tree(),
            place: self.places.clone(),
            listener: Arc::downgrade(&self.listener),
        };
        let producer = match self.admission.admit(newcomer) {
            Ok(producer) => producer,
            Err(error) => return refuse(&format!("the service has no room: {error}")),
        };
        self.seen.fetch_add(1, Ordering::Relaxed);
        match session.attach(producer) {
            Ok(()) | Err(SessionError::Timeout) => Admitted::Attached,
            Err(_) => Admitted::SessionEnded,
        }
    }
}

impl<H> fmt::Debug for ListenThread<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenThread").field("producers_seen", &self.seen()).finish_non_exhaustive()
    }
}

impl<H> Drop for ListenThread<H> {
    fn drop(&mut self) {
        let listener = &self.acceptor.listener;
        if !listener.socket.link.is_here() {
            // Nor is the thread in this process.
            return;
        }
        listener.close();
        // The thread drops a session that nothing else has any more, and what that owns.
        self.thread.take().into_iter().for_each(join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tracebuf_session::CentralBuffer;
    use tracebuf_testing::transport::Does;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Has no room for any newcomer, tells that one has come, and keeps it for this many seconds.
    struct Full<const HELD: u64>(Sender<()>);

    impl<const HELD: u64> Admission for Full<HELD> {
        type Producer = Does<fn(&mut [CentralBuffer]) -> bool>;
        const WAITS: bool = true;
        const HELD: Duration = Duration::from_secs(HELD);

        fn refuse(&self, _: &Link, _: &str) {}

        fn admit(&self, _: NewProducer) -> io::Result<Self::Producer> {
            let _ = self.0.send(());
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }

    fn full<const HELD: u64>(path: &Path) -> (ListenThread<Full<HELD>>, Receiver<()>, Arc<Session>) {
        let session = Arc::new(Session::builder().start().expect("a session"));
        let socket = bind(&session, path, SocketKind::Stream, 8192).expect("a socket");
        let (tell, came) = channel();
        (ListenThread::start(Full(tell), &session, socket, 64).expect("a thread"), came, session)
    }

    fn come(path: &Path) -> Link {
        Link::connected(path, SocketKind::Stream, Instant::now() + LONG).expect("it listens")
    }

    fn hears_of_the_end(link: &Link) -> bool {
        link.receive_with(&mut [0; 8], Instant::now() + LONG).is_ok_and(|(len, _)| len == 0)
    }

    #[test]
    fn nobody_waits_until_one_that_was_refused_may_go() {
        let path = std::env::temp_dir().join(format!("tracebuf-held-{}", std::process::id()));
        let (listening, came, _session) = full::<3600>(&path);
        let all = [(); MOST_HELD + 2].map(|()| {
            let link = come(&path);
            came.recv_timeout(LONG).expect("it is its turn");
            link
        });
        // No more than that are kept.
        assert!(hears_of_the_end(&all[0]));
        // Nor does the end wait.
        drop(listening);
        assert!(all.iter().all(hears_of_the_end));
    }

    #[test]
    fn who_was_refused_goes_when_its_time_has_come_though_nobody_else_comes() {
        let path = std::env::temp_dir().join(format!("tracebuf-let-go-{}", std::process::id()));
        let (_listening, came, _session) = full::<1>(&path);
        let (begun, link) = (Instant::now(), come(&path));
        came.recv_timeout(LONG).expect("it has come");
        assert!(hears_of_the_end(&link) && begun.elapsed() >= Duration::from_secs(1));
    }
}
