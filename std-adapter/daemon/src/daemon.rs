//! The loop: what happens goes to the service, and what the service wants is done.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracebuf_service::{Action, Event, FileToken, Host, Peer, Port, Service};

use crate::host::LinuxHost;
use crate::listening::{Listener, SocketNames, listeners};
use crate::output::{Done, Outputs};
use crate::pace::Pace;
use crate::stream::{Came, Stream};

/// What the loop hears of that is no connection; then come listeners, and then connections.
const BELL: u64 = 0;
const SIGNAL: u64 = 1;
const LISTENERS: u64 = 2;
const CONNECTIONS: u64 = 1 << 16;

/// Bytes of a stream that are taken at once.
const RECEIVE: usize = 64 << 10;
/// How often that is done before others have their turn, unless what came takes longer than this.
const TURNS: usize = 16;
const LONGEST: Duration = Duration::from_millis(10);
/// Connections that are accepted before others have their turn.
const ACCEPTS: usize = 64;
/// How long it is not said again that clients cannot be accepted.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// How long files may take to be complete when the daemon ends.
const LAST: Duration = Duration::from_secs(10);

/// A tracing service with its sockets.
#[derive(Debug)]
pub struct Daemon {
    service: Service<LinuxHost>,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    streams: HashMap<u64, Stream>,
    last_connection: u64,
    outputs: Outputs,
    /// Readable once a signal has come.
    signals: Option<(UnixStream, UnixStream)>,
    ends_at: Option<Instant>,
    /// What came last of a stream, and how much since the last wait.
    room: Box<[u8]>,
    received: usize,
    pace: Pace,
    /// When it was last said that clients cannot be accepted.
    said_full: Option<Instant>,
    /// Says what the service has to say to whoever runs it.
    log: fn(&str),
}

impl Daemon {
    /// Listens at sockets of these names, or at those with which this process was started.
    ///
    /// # Errors
    /// Another service listens there, or what the system says.
    pub fn bind(names: &SocketNames) -> io::Result<Self> {
        allow_many_files();
        let listeners = listeners(names)?;
        let outputs = Outputs::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, outputs.bell(), EventData::new_u64(BELL), EventFlags::IN)?;
        for (listener, at) in listeners.iter().zip(LISTENERS..) {
            rustix::io::ioctl_fionbio(&listener.socket, true)?;
            epoll::add(&epoll, &listener.socket, EventData::new_u64(at), EventFlags::IN)?;
        }
        Ok(Self {
            service: Service::new(LinuxHost::new()),
            epoll,
            listeners,
            streams: HashMap::new(),
            last_connection: CONNECTIONS,
            outputs,
            signals: None,
            ends_at: None,
            room: vec![0; RECEIVE].into(),
            received: 0,
            pace: Pace::new(),
            said_full: None,
            log: |line| eprintln!("{line}"),
        })
    }

    /// Everybody may have traces written below this folder; else only root and the service's own user.
    pub fn allow_files_below(&mut self, folder: impl Into<PathBuf>) {
        self.service.host().set_folder(folder.into());
    }

    /// Calls this with each line that the service has to say; else they go to standard error.
    pub fn log_with(&mut self, log: fn(&str)) {
        self.log = log;
    }

    /// A connection of a producer in this process, which is served once the daemon [runs](Self::run).
    ///
    /// # Errors
    /// The system's.
    pub fn connect_producer(&mut self) -> io::Result<UnixStream> {
        let (here, there) = UnixStream::pair()?;
        here.set_nonblocking(true)?;
        self.connected(here.into(), Port::Producers)?;
        Ok(there)
    }

    /// Ends on SIGTERM and SIGINT, after traces are complete.
    ///
    /// # Errors
    /// The system's.
    pub fn stop_on_signals(&mut self) -> io::Result<()> {
        let (heard, said) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, said.try_clone()?)?;
        }
        epoll::add(&self.epoll, &heard, EventData::new_u64(SIGNAL), EventFlags::IN)?;
        self.signals = Some((heard, said));
        Ok(())
    }

    /// Serves, until a signal ends it.
    ///
    /// # Errors
    /// The system's, of the loop itself; none of a client or a file ends it.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            let has_more = self.service.turn();
            self.act();
            if self.service.has_ended() || self.ends_at.is_some_and(|ends| ends <= Instant::now()) {
                return Ok(());
            }
            let wait = self.wait(has_more);
            self.pause(has_more);
            let mut room = [const { std::mem::MaybeUninit::uninit() }; 64];
            let events = match epoll::wait(&self.epoll, &mut room, Some(&wait)) {
                Ok((events, _)) => events,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let events: Vec<(u64, EventFlags)> =
                events.iter().map(|event| (event.data.u64(), event.flags)).collect();
            for (about, flags) in events {
                self.hear(about, flags);
                self.act();
            }
            self.service.handle(Event::Woken);
            self.act();
        }
    }

    /// Lets more come, if what came is little and more will soon be there.
    fn pause(&mut self, has_more: bool) {
        let received = std::mem::take(&mut self.received);
        if received > 0
            && let Some(pause) = self.pace.pause(Instant::now(), received)
            && !has_more
        {
            std::thread::sleep(pause);
        }
    }

    /// How long nothing is to be done unless something happens.
    fn wait(&mut self, has_more: bool) -> Timespec {
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        if has_more {
            return nothing;
        }
        let now = self.service.host().now();
        let most = if self.ends_at.is_some() { 100_000_000 } else { 3600 * 1_000_000_000 };
        let wait = self.service.wake_at().map_or(most, |at| at.saturating_sub(now).min(most));
        Timespec { tv_sec: (wait / 1_000_000_000) as i64, tv_nsec: (wait % 1_000_000_000) as i64 }
    }

    fn hear(&mut self, about: u64, flags: EventFlags) {
        match about {
            BELL => self.hear_files(),
            SIGNAL => self.hear_signal(),
            LISTENERS..CONNECTIONS => self.accept((about - LISTENERS) as usize),
            connection => {
                if flags.contains(EventFlags::OUT) {
                    self.send(connection);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(connection);
                }
            }
        }
    }

    fn hear_files(&mut self) {
        for (file, done) in self.outputs.heard() {
            self.service.handle(match done {
                Done::Written(bytes) => Event::Written { file, bytes },
                Done::Failed(error) => Event::Failed { file, error },
                Done::Finished => Event::Finished { file },
            });
        }
    }

    fn hear_signal(&mut self) {
        let mut bytes = [0; 64];
        if let Some((heard, _)) = &self.signals {
            while rustix::io::read(heard, &mut bytes).is_ok_and(|len| len > 0) {}
        }
        // Another signal does not wait for files.
        let ends = if self.ends_at.is_some() { Instant::now() } else { Instant::now() + LAST };
        self.ends_at = Some(ends);
        self.service.handle(Event::End);
    }

    fn accept(&mut self, at: usize) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(at) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&listener.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                // About this process, such as too many open files: those who wait go on waiting.
                Err(error) => {
                    if self.said_full.is_none_or(|said| said.elapsed() > SAID_AGAIN) {
                        (self.log)(&format!("clients cannot be accepted: {error}"));
                        self.said_full = Some(Instant::now());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            let port = listener.port;
            // One for which there is no room is closed, and may come again.
            let _ = self.connected(socket, port);
        }
    }

    fn connected(&mut self, socket: OwnedFd, port: Port) -> io::Result<()> {
        self.last_connection += 1;
        let connection = self.last_connection;
        let tracebuf_sockets::Peer { uid, pid } =
            tracebuf_sockets::Peer::of(&socket).unwrap_or(tracebuf_sockets::Peer::UNKNOWN);
        epoll::add(&self.epoll, &socket, EventData::new_u64(connection), EventFlags::IN)?;
        self.streams.insert(connection, Stream::new(socket));
        self.service.handle(Event::Connected { connection, port, peer: Peer { uid, pid } });
        Ok(())
    }

    fn receive(&mut self, connection: u64) {
        let mut room = std::mem::take(&mut self.room);
        self.receive_into(&mut room, connection);
        self.room = room;
    }

    fn receive_into(&mut self, room: &mut [u8], connection: u64) {
        let begun = Instant::now();
        for _ in 0..TURNS {
            let Some(stream) = self.streams.get(&connection) else { return };
            match stream.receive(room) {
                Came::Bytes(len, file) => {
                    let file = file.map(|file| self.service.host().keep(file));
                    let bytes = room.get(..len).unwrap_or_default();
                    self.received += len;
                    self.service.handle(Event::Received { connection, bytes, file });
                    self.act();
                    if len < RECEIVE && file.is_none() || begun.elapsed() > LONGEST {
                        return;
                    }
                }
                Came::Nothing => return,
                Came::End => {
                    self.streams.remove(&connection);
                    return self.service.handle(Event::Closed { connection });
                }
            }
        }
    }

    /// Sends what the other end takes now, and has the loop say when it takes more.
    fn send(&mut self, connection: u64) {
        let Some(stream) = self.streams.get_mut(&connection) else { return };
        match stream.send() {
            Ok(bytes) => {
                let watches = stream.has_unsent();
                if watches != stream.is_watched {
                    stream.is_watched = watches;
                    let flags = if watches { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                    // It is there, because the stream is.
                    let _ =
                        epoll::modify(&self.epoll, stream.socket(), EventData::new_u64(connection), flags);
                }
                self.service.handle(Event::Sent { connection, bytes });
            }
            // What it had sent before its end is still taken: the loop says so.
            Err(_) => {
                let _ = rustix::net::shutdown(stream.socket(), rustix::net::Shutdown::Write);
                stream.forget_unsent();
            }
        }
    }

    /// Does what the service wants.
    fn act(&mut self) {
        loop {
            let actions: Vec<Action> = self.service.actions().collect();
            if actions.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.do_one(action));
        }
    }

    fn do_one(&mut self, action: Action) {
        match action {
            Action::Send { connection, bytes, file } => {
                let file = file.and_then(|file| self.service.host().take(file));
                if let Some(stream) = self.streams.get_mut(&connection) {
                    let waits = stream.has_unsent();
                    stream.push(bytes, file);
                    if !waits {
                        self.send(connection);
                    }
                }
            }
            Action::Close { connection } => {
                if let Some(mut stream) = self.streams.remove(&connection) {
                    // The other end may be gone, or slow: it is told no more.
                    let _ = stream.send();
                }
            }
            Action::Discard(file) => drop(self.service.host().take(file)),
            Action::Write { file, bytes } => {
                if self.open(file) {
                    self.outputs.write(file, bytes);
                }
            }
            Action::Copy { from, to } => {
                if self.open(from) && self.open(to) {
                    self.outputs.copy(from, to);
                }
            }
            Action::Sync(file) => {
                if self.open(file) {
                    self.outputs.sync(file);
                }
            }
            Action::Finish(file) => match self.open(file) {
                true => self.outputs.finish(file),
                false => self.service.handle(Event::Finished { file }),
            },
            Action::Log(line) => (self.log)(&line),
        }
    }

    /// Starts the thread of a file, unless it has one; false if there is no such file.
    fn open(&mut self, file: FileToken) -> bool {
        if !self.outputs.has(file) {
            let Some(open) = self.service.host().take(file) else { return false };
            self.outputs.add(file, open);
        }
        true
    }
}

/// Each client is an open file: this process gets as many as it may have.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Fewer do too.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
