//! Who comes to a socket: taken one after the other, numbered and attached, no more than there are places for.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;
use tracebuf::service::ProducerIdentity;

use super::link::{Kind, Link};
use super::peer::Peer;
use super::socket_file::SocketFile;
use crate::figures::Count;
use crate::limits::SHARED_MEMORY;
use crate::session::process_tree::ProcessTree;
use crate::session::waits::join;
use crate::session::{BootClock, Session, SessionError, Transport, Waker};

/// How those who come are spoken to.
pub(super) trait Host: Send + Sync + 'static {
    type Producer: Transport + 'static;

    /// Those for whom there is no place wait for one, and are not told.
    const WAITS: bool;

    /// For how long the connection is kept of one who is not taken.
    const HELD: Duration;

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
    /// It records no sooner than at this boot time.
    pub(super) time: u64,
    /// Where it is told of if it is in a container.
    pub(super) process_tree: ProcessTree,
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

/// How many that were refused are kept at a time: with each an open file.
const MOST_HELD: usize = 64;

/// Whether others may come after this one.
enum Next {
    Goes,
    /// It is not taken.
    Refused(Arc<Link>),
    Ends,
}

/// Those who were refused, until their time has come: whoever comes meanwhile does not wait for that.
#[derive(Default)]
struct Held(VecDeque<(Instant, Arc<Link>)>);

impl Held {
    fn push(&mut self, link: Arc<Link>, until: Instant) {
        self.0.push_back((until, link));
        if self.0.len() > MOST_HELD {
            self.let_one_go();
        }
    }

    /// When the next is to go. Each is kept for as long as the others.
    fn next(&self) -> Option<Instant> {
        self.0.front().map(|(until, _)| *until)
    }

    fn let_go(&mut self, now: Instant) {
        while self.next().is_some_and(|until| until <= now) {
            self.let_one_go();
        }
    }

    fn let_one_go(&mut self) {
        if let Some((_, link)) = self.0.pop_front() {
            // A thread of what could not be made of it may have it too.
            link.shut();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            self.let_one_go();
        }
    }
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
        let mut held = Held::default();
        while !self.door.is_closed() {
            held.let_go(Instant::now());
            if H::WAITS && self.taken() >= self.producers {
                thread::sleep(LOOK_AGAIN);
                continue;
            }
            let socket = &self.door.socket.link;
            match held.next().map_or_else(|| socket.accept(), |until| socket.accept_until(until)) {
                Ok(link) => {
                    let Some(session) = self.session.upgrade() else { break };
                    match self.attach(&session, link) {
                        Next::Goes => {}
                        Next::Refused(link) => held.push(link, Instant::now() + H::HELD),
                        Next::Ends => break,
                    }
                }
                // One that was refused is to go.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
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
            Next::Refused(link.clone())
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
            time: BootClock.now(),
            process_tree: session.process_tree.clone(),
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::session::processes::other_process::OtherProcess;

    const LONG: Duration = Duration::from_secs(60);

    /// Has no room for anybody, tells that one has come, and keeps it for so many seconds.
    struct Full<const HELD: u64>(Sender<()>);

    impl<const HELD: u64> Host for Full<HELD> {
        type Producer = OtherProcess;
        const WAITS: bool = true;
        const HELD: Duration = Duration::from_secs(HELD);

        fn refuse(&self, _: &Link, _: &str) {}

        fn take(&self, _: Newcomer) -> io::Result<OtherProcess> {
            let _ = self.0.send(());
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }

    fn full<const HELD: u64>(path: &Path) -> (Listening<Full<HELD>>, Receiver<()>, Arc<Session>) {
        let session = Arc::new(Session::builder().start().expect("a session"));
        let socket = bind(&session, path, Kind::Stream, 8192).expect("a socket");
        let (tell, came) = channel();
        (Listening::start(Full(tell), &session, socket, 64).expect("a thread"), came, session)
    }

    fn come(path: &Path) -> Link {
        Link::connected(path, Kind::Stream, Instant::now() + LONG).expect("it listens")
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
        // No more are kept than so many.
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
