//! The service: what happens to it goes in, and what it wants done comes out.
//!
//! It owns everything: connections, producers, sessions, buffers. Each module here is what it does about one of these.
//!
//! | module | what it is about |
//! |---|---|
//! | `connections` | streams, and the messages in them |
//! | `producer_calls`, `consumer_calls` | what the two ports' clients say |
//! | `enable` | how a session comes about |
//! | `instances` | data sources that producers run for sessions |
//! | `running` | how a session starts, stops and goes |
//! | `flushes` | what producers have not sent yet |
//! | `reading` | packets for consumers and files |
//! | `files` | traces that the service writes |
//! | `clones`, `copies` | what a session has by now, for whoever asks |
//! | `triggers` | what producers fire |
//! | `timers` | what is to happen later |
//! | `queries`, `observing` | what consumers ask, and what they hear unasked |

mod clones;
mod connections;
mod consumer_calls;
mod copies;
mod enable;
mod files;
mod flushes;
mod instances;
mod observing;
mod producer_calls;
mod queries;
mod reading;
mod running;
mod timers;
mod triggers;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::buffers::BufferSlab;
use crate::config::cut;
use crate::host::{Action, ConnectionId, Event, Host};
use crate::producers::Producer;
use crate::sessions::Session;
use connections::Connection;
use copies::PendingClone;
use flushes::PendingFlush;
use timers::Timer;

/// Most lines of the log in so many nanoseconds, and bytes of one.
const MOST_LINES: u32 = 100;
const LOGGED: u64 = 10_000 * timers::MS;
const LONGEST_LINE: usize = 1024;

/// A tracing service, as Perfetto's producers and consumers know it, without input and output.
///
/// Tell it what [happens](Self::handle), do what it [wants](Self::actions), let it [work](Self::turn) until there is
/// nothing more to do, and wake it [in time](Self::wake_at). Nothing that producers or consumers say can do harm.
///
/// ```
/// use tracebuf_service::wire::frames::{bind, push_frame};
/// use tracebuf_service::{Action, Event, Host, Peer, Port, Service};
///
/// fn hear(service: &mut Service<impl Host>) {
///     let (connection, peer) = (1, Peer { uid: 1000, pid: 42 });
///     service.handle(Event::Connected { connection, port: Port::Consumers, peer });
///     let mut bytes = Vec::new();
///     push_frame(&mut bytes, &bind(7, "ConsumerPort"));
///     service.handle(Event::Received { connection, bytes: &bytes, file: None });
///     while service.turn() {}
///     for action in service.actions() {
///         if let Action::Send { connection, bytes, .. } = action {
///             println!("{} bytes to {connection}", bytes.len());
///         }
///     }
/// }
/// ```
pub struct Service<H: Host> {
    host: H,
    actions: Vec<Action>,
    connections: BTreeMap<ConnectionId, Connection>,
    producers: BTreeMap<u16, Producer<H::Shared>>,
    sessions: BTreeMap<u64, Session>,
    buffers: BufferSlab<H::Memory>,
    flushes: BTreeMap<u64, PendingFlush>,
    /// What consumers wait for that clone a session.
    clones: BTreeMap<ConnectionId, PendingClone<H::Memory>>,
    timers: BTreeSet<(u64, Timer)>,
    /// Consumers that wait for packets, or to hear what there is, and sessions with something to write.
    readers: BTreeSet<ConnectionId>,
    askers: BTreeSet<ConnectionId>,
    writers: BTreeSet<u64>,
    /// Consumers that are to hear of something.
    to_tell: BTreeSet<ConnectionId>,
    /// When sessions with guardrails began, by name.
    guarded: BTreeMap<String, u64>,
    /// Triggers of the last day, by name, with the boot times of each.
    fired: BTreeMap<String, VecDeque<u64>>,
    last: LastNumbers,
    /// Since when lines of the log are counted, and how many there were.
    logged: (u64, u32),
    /// The steady clock, as of the last event.
    now: u64,
    is_ending: bool,
    /// Producers of other users than the service's are kept out.
    is_locked: bool,
}

/// The numbers given last.
#[derive(Default)]
struct LastNumbers {
    producer: u16,
    session: u64,
    instance: u64,
    flush: u64,
    clone: u64,
    producers_seen: u64,
}

impl<H: Host> fmt::Debug for Service<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("connections", &self.connections.len())
            .field("producers", &self.producers.len())
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

/// Forgets the oldest name if there are so many, and no place for another.
fn make_room<V>(names: &mut BTreeMap<String, V>, name: &str, most: usize, time: fn(&V) -> Option<u64>) {
    if names.len() >= most && !names.contains_key(name) {
        let oldest = names.iter().min_by_key(|(_, of)| time(of)).map(|(name, _)| name.clone());
        oldest.into_iter().for_each(|name| _ = names.remove(&name));
    }
}

impl<H: Host> Service<H> {
    /// A service to which nobody has connected.
    pub fn new(host: H) -> Self {
        Self {
            host,
            actions: Vec::new(),
            connections: BTreeMap::new(),
            producers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            buffers: BufferSlab::new(),
            flushes: BTreeMap::new(),
            clones: BTreeMap::new(),
            timers: BTreeSet::new(),
            readers: BTreeSet::new(),
            askers: BTreeSet::new(),
            writers: BTreeSet::new(),
            to_tell: BTreeSet::new(),
            guarded: BTreeMap::new(),
            fired: BTreeMap::new(),
            last: LastNumbers::default(),
            logged: (0, 0),
            now: 0,
            is_ending: false,
            is_locked: false,
        }
    }

    /// Hears of something that has happened, and of what is due by now. Takes time for what that is, not for packets
    /// to be read: those come in [turns](Self::turn).
    pub fn handle(&mut self, event: Event<'_>) {
        self.now = self.host.now();
        match event {
            Event::Connected { connection, port, peer } => self.connected(connection, port, peer),
            Event::Received { connection, bytes, file } => self.received(connection, bytes, file),
            Event::Sent { connection, bytes } => self.sent(connection, bytes),
            Event::Closed { connection } => self.closed(connection),
            Event::Written { file, bytes } => self.written(file, bytes),
            Event::Failed { file, error } => self.file_failed(file, error),
            Event::Finished { file } => self.file_finished(file),
            Event::Woken => {}
            Event::End => self.end(),
        }
        self.do_what_is_due();
        self.look_at_files();
        self.tell_events();
    }

    /// Does a piece of what takes longer: some 128 KiB for a consumer that reads, 1 MiB for each file. Returns whether
    /// there is more to do at once.
    pub fn turn(&mut self) -> bool {
        self.now = self.host.now();
        let read = self.readers.iter().copied().collect::<Vec<_>>();
        let has_read = read.into_iter().filter(|connection| self.read_turn(*connection)).count() > 0;
        let ask = self.askers.iter().copied().collect::<Vec<_>>();
        let has_told = ask.into_iter().filter(|connection| self.query_turn(*connection)).count() > 0;
        let write = self.writers.iter().copied().collect::<Vec<_>>();
        let has_written = write.into_iter().filter(|session| self.write_turn(*session)).count() > 0;
        self.tell_events();
        has_read || has_told || has_written
    }

    /// What is to be done now, in this order. It is not told again.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> + use<H> {
        core::mem::take(&mut self.actions).into_iter()
    }

    /// When it is to be [woken](Event::Woken), if nothing happens before, in nanoseconds of the steady clock.
    pub fn wake_at(&self) -> Option<u64> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Whether it was told to [end](Event::End), and all files are complete.
    pub fn has_ended(&self) -> bool {
        self.is_ending && self.sessions.values().all(|session| session.file.is_none())
    }

    /// The host.
    pub const fn host(&mut self) -> &mut H {
        &mut self.host
    }

    /// Whether lockdown keeps a user's producers out.
    fn keeps_out(&self, uid: u32) -> bool {
        self.is_locked && uid != self.host.machine().uid
    }

    /// Says something to whoever runs the service, unless much was said of late: clients could fill a disk.
    fn log(&mut self, mut line: String) {
        let (since, lines) = &mut self.logged;
        if self.now.saturating_sub(*since) >= LOGGED {
            (*since, *lines) = (self.now, 0);
        }
        *lines = lines.saturating_add(1);
        if *lines > MOST_LINES {
            return;
        }
        cut(&mut line, LONGEST_LINE);
        self.actions.push(Action::Log(line));
        if *lines == MOST_LINES {
            self.actions.push(Action::Log("more than that is not said for some seconds".into()));
        }
    }
}
