//! The side of a program that records into another one's session: [`Connection`].

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tracebuf::producer::{Exhaustion, MemoryError};

use super::line::Line;
use super::link::{Kind, Link};
use super::perfetto::Categories;
use super::records::{ToHear, ToSay};
use super::shared_words::SharedWords;
use super::speech::{Hearing, Speaking};
use super::welcome::{self, Welcome};
use crate::figures::Name;
use crate::limits::SHARED_MEMORY;
use crate::session::producer_cell::ProducerCell;
use crate::session::session_clock::SessionClock;
use crate::session::shared::Shared;
use crate::session::switch::Switch;
use crate::session::waits::{FOR_EVER, PATIENCE, made_by};
use crate::session::waker::Waker;
use crate::session::{Recorder, SessionError};
use crate::this_process::named;

/// What a [`Connection`] is to be. Made by [`Connection::builder`].
#[derive(Clone, Debug)]
pub struct ConnectionBuilder {
    exhaustion: Exhaustion,
    process_name: Option<String>,
    fast_clock: bool,
    data_source: Option<String>,
    categories: Vec<String>,
}

/// This program's connection to a service that listens at a [`ProducerSocket`](super::ProducerSocket), whose session
/// its threads record into.
///
/// ```no_run
/// use tracebuf_std::session::Connection;
///
/// let service = Connection::builder().open("/run/camera/trace")?;
/// let recorder = service.recorder(); // cheap to clone, for any thread
/// let _slice = recorder.enter("load");
/// # Ok::<(), tracebuf_std::session::SessionError>(())
/// ```
///
/// Recorders, the layer for `tracing` and packet writers are those of a session of one's own, and cost the same, but for
/// a system call with a thread's first event, by which the service hears of its writer: events go into memory that both
/// processes have. What is there when this process ends, or is killed, the service has; but for packets over three
/// chunks and more, of some 4 KB, that have just ended: their sizes go by a message, which the process may not have got
/// to send, and then they are lost, and the loss is told.
///
/// When the service stops, or is killed, recorders are off, and record nothing from then on. A program that is to go on
/// with the next service, or to start before there is one, [follows](ConnectionBuilder::follow) them. In a child after a
/// fork recorders are off too; it may have a connection of its own. (A thread that forks within an event's details or a
/// packet's closure must not come out of them in the child: that would end the packet for its parent.)
///
/// It costs two threads, of which one wakes once a second, 340 KB, the shared memory, whose size the service has said, and
/// 4 KB for each thread that records.
///
/// Dropping it sends what there is, for which the service has 5 s. Chunks that threads have begun the service takes as
/// they are. A program that ends without dropping it, because it is a `static`, calls [`flush`](Self::flush) before.
pub struct Connection {
    shared: Arc<Shared>,
    sources: Vec<(String, u16)>,
    categories: Categories,
    line: Arc<Line>,
    threads: Vec<JoinHandle<()>>,
}

/// What a producer and its service have said to each other before anything is recorded.
pub(super) struct Agreed {
    pub(super) link: Link,
    pub(super) words: SharedWords,
    pub(super) speaking: Box<dyn Speaking>,
    pub(super) hearing: Box<dyn Hearing>,
    /// For each of the service's buffers, after how many bytes a writer says its state again.
    pub(super) state_every: Vec<u32>,
    /// Data sources, with the buffers that they go to.
    pub(super) sources: Vec<(String, u16)>,
    pub(super) categories: Categories,
}

impl ConnectionBuilder {
    /// What a thread does when shared memory is full: drop, unless said otherwise; see
    /// [`SessionBuilder::exhaustion`](crate::session::SessionBuilder::exhaustion), whose drain thread is the service's
    /// here. Threads that wait do so as long as the service stands still, and drop once it is gone.
    ///
    /// Threads wait in vain, and then drop, where more of them record than
    /// [the service's shared memory](super::ProducerSocketBuilder::shared_memory) has chunks for: 512 unless told otherwise.
    #[must_use]
    pub fn exhaustion(mut self, exhaustion: Exhaustion) -> Self {
        self.exhaustion = exhaustion;
        self
    }

    /// The name of this process's track; else that of its program.
    #[must_use]
    pub fn process_name(mut self, name: impl Into<String>) -> Self {
        self.process_name = Some(name.into());
        self
    }

    /// Reads the processor's counter for the time of an event; see
    /// [`SessionBuilder::fast_clock`](crate::session::SessionBuilder::fast_clock). That of the service's own threads may
    /// be another one.
    #[must_use]
    pub fn fast_clock(mut self) -> Self {
        self.fast_clock = true;
        self
    }

    /// The name of what this program has to offer to [Perfetto's service](Self::follow_perfetto), if it is not
    /// `track_event`: so that configurations can want it, and a buffer of its own for it, without others' events. Nothing
    /// to services of this crate.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>) -> Self {
        self.data_source = Some(name.into());
        self
    }

    /// Tells [Perfetto's service](Self::follow_perfetto) that there are these categories, beside those named before,
    /// for whoever asks it what can be recorded. Whether one is wanted [`Connection::wants`] says, also of others.
    /// Nothing to services of this crate.
    #[must_use]
    pub fn categories<'c>(mut self, names: impl IntoIterator<Item = &'c str>) -> Self {
        self.categories.extend(names.into_iter().map(str::to_owned));
        self
    }

    pub(super) fn name_of_process(&self) -> String {
        named(self.process_name.as_deref())
    }

    pub(super) fn name_of_data_source(&self) -> Option<&str> {
        self.data_source.as_deref()
    }

    pub(super) fn names_of_categories(&self) -> &[String] {
        &self.categories
    }

    /// Connects to the service that listens at this path.
    ///
    /// # Errors
    /// Nobody listens there, or not a service of this version; it has as many producers as it takes; it does not answer
    /// in 5 s; no memory, or no thread.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Connection, SessionError> {
        let path = path.as_ref();
        let failed = |error| SessionError::io(format!("the tracing service at {}", path.display()), error);
        let deadline = Instant::now() + PATIENCE;
        let link = Link::connected(path, Kind::Messages, deadline).map_err(failed)?;
        let (welcome, words) = hear(&link, deadline).map_err(failed)?;
        self.start(Agreed {
            link,
            words,
            speaking: Box::new(ToSay::default()),
            hearing: Box::new(ToHear::new()),
            state_every: welcome.state_every,
            sources: welcome.sources,
            categories: Categories::default(),
        })
    }

    /// Makes a producer, with its threads, of what was agreed with a service.
    pub(super) fn start(self, agreed: Agreed) -> Result<Connection, SessionError> {
        self.start_within(2 * PATIENCE, agreed)
    }

    /// The same, with a thread that has so long to begin.
    fn start_within(self, patience: Duration, agreed: Agreed) -> Result<Connection, SessionError> {
        let Agreed { link, words, speaking, hearing, state_every, sources, categories } = agreed;
        let (switch, waker) = (Arc::new(Switch::new()), Waker::default());
        let clock = SessionClock::new(self.fast_clock);
        let name = self.name_of_process();
        let bytes = 4 * words.as_ref().len();
        // Handed over from hand to hand: else it could be on its way when nobody waits for it any more.
        let (made, of_thread) = sync_channel::<Result<Arc<Line>, MemoryError>>(0);
        let (in_thread, its_waker) = (switch.clone(), waker.clone());
        let waits = self.exhaustion != Exhaustion::Drop;
        let sender = thread::Builder::new().name("tracebuf-send".into()).spawn(move || {
            // Made here, for it lies on the stack first, of which the caller's thread may have little.
            let producer =
                ProducerCell::in_memory(Box::new(words), in_thread.clone(), its_waker.clone(), name);
            let line = producer.map(|producer| {
                Arc::new(Line::new(link, Arc::new(producer), in_thread, its_waker, waits, speaking))
            });
            let own = line.as_ref().ok().cloned();
            // Who has given up waiting has told so, and has no connection: the service is not to have one that never
            // answers either. It hears of the end when the line is gone.
            if made.send(line).is_ok() {
                own.into_iter().for_each(|line| line.pass_on(clock));
            }
        });
        let sender = sender.map_err(|error| SessionError::io("starting a thread", error))?;
        waker.set(sender.thread().clone());
        let line = made_by(&of_thread, patience)?.map_err(|_| SessionError::SharedMemory { bytes })?;
        let in_thread = line.clone();
        let hears =
            thread::Builder::new().name("tracebuf-hear".into()).spawn(move || in_thread.hear(hearing));
        let hears = hears.map_err(|error| {
            // Nobody else would tell the other thread that it is to end.
            line.ask_end();
            SessionError::io("starting a thread", error)
        })?;
        let of_recorders = line.clone();
        let shared = Shared {
            switch,
            producer: line.producer().clone(),
            exhaustion: self.exhaustion,
            clock,
            state_every,
            announce: Some(Box::new(move || of_recorders.announce())),
        };
        let (shared, threads) = (Arc::new(shared), vec![sender, hears]);
        Ok(Connection { shared, sources, categories, line, threads })
    }
}

/// What the service says first, and the memory that comes with it.
fn hear(link: &Link, deadline: Instant) -> io::Result<(Welcome, SharedWords)> {
    let refused = |why: String| io::Error::new(io::ErrorKind::ConnectionRefused, why);
    let mut message = vec![0; welcome::LONGEST];
    let (len, file) = link.receive_with(&mut message, deadline)?;
    if len == 0 {
        return Err(refused("it has ended the connection".to_owned()));
    }
    message.truncate(len);
    // Why not is said by whoever listens there.
    let welcome = Welcome::from_bytes(&message).map_err(|why| refused(Name(why).to_string()))?;
    let has_memory = file.filter(|_| SHARED_MEMORY.contains(&welcome.shared_memory));
    let file = has_memory.ok_or_else(|| refused("it has sent no shared memory".to_owned()))?;
    let words = SharedWords::of(&file, welcome.shared_memory)?;
    Ok((welcome, words))
}

impl Connection {
    /// Where a thread drops when shared memory is full, and the system's clock is read, unless told otherwise.
    pub fn builder() -> ConnectionBuilder {
        ConnectionBuilder {
            exhaustion: Exhaustion::Drop,
            process_name: None,
            fast_clock: false,
            data_source: None,
            categories: Vec::new(),
        }
    }

    /// The program knows of it, and records from here on.
    pub(super) fn begin(&self) {
        self.line.begin();
    }

    /// A recorder into the first buffer of the service's session; at Perfetto's service into the buffer that a tracing
    /// session's configuration says.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.shared.clone(), 0)
    }

    /// A recorder into the buffer that the service has mapped a data source to; `None` for one that it has not.
    pub fn recorder_of(&self, data_source: &str) -> Option<Recorder> {
        Recorder::of_source(&self.shared, &self.sources, data_source)
    }

    /// Whether the service wants events of this category, so that a program with a [`Relay`](crate::session::Relay) for
    /// each may leave out those of others: see [`follow_perfetto`](ConnectionBuilder::follow_perfetto). What is
    /// recorded all the same is in the trace.
    ///
    /// The lists in the data source's `track_event_config` say so. What the first of these finds there holds:
    ///
    /// 1. the category's name, in `enabled_categories`;
    /// 2. its name, in `disabled_categories`;
    /// 3. a pattern for it, in `enabled_categories`;
    /// 4. a pattern for it, in `disabled_categories`.
    ///
    /// In a pattern each `*` stands for whatever there is in its place, also for nothing. What none of them finds is
    /// wanted: a configuration that wants few disables `*`. The lists of tags are not looked at, for categories here
    /// have none. Without lists, or with malformed ones, all are wanted; so they are by services of this crate, with a
    /// [`ProducerSocket`](super::ProducerSocket), which know nothing of categories.
    ///
    /// Cost: it reads the lists, up to four times; meant for the function that is called with each connection.
    #[must_use]
    pub fn wants(&self, category: &str) -> bool {
        self.categories.wants(category)
    }

    /// Whether the service is there, as far as is known, and this is the process that has connected.
    pub fn is_connected(&self) -> bool {
        self.shared.switch.is_on()
    }

    /// Gets all that was recorded until now into the service's buffers, which is what it does by itself for each of its
    /// snapshots, and when this process ends. At Perfetto's service that is what lies in chunks that are complete.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the service has not answered in time; [`SessionError::Stopped`] when it is gone,
    /// [`SessionError::Forked`] in a child after a fork.
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        if !self.shared.switch.is_here() {
            return Err(SessionError::Forked);
        }
        let deadline = Instant::now() + timeout.min(FOR_EVER);
        self.line.flush(deadline)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.shared.switch.is_here() {
            // The threads are not in this process, but others may be in their places by now.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        // What it asks for is in the queue when the thread sees that it is to end.
        self.shared.producer.borrow_dependent().producer.flush();
        self.line.end(Instant::now() + PATIENCE);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_connected", &self.is_connected()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_does_not_keep_one_who_gave_up_waiting_for_the_thread() {
        let path = std::env::temp_dir().join(format!("tracebuf-late-{}", std::process::id()));
        let listening = Link::listening(&path, Kind::Messages).expect("a socket");
        let deadline = Instant::now() + 12 * PATIENCE;
        // A thread that is there at once is waited for all the same; then the next is to be late.
        let service = loop {
            let link = Link::connected(&path, Kind::Messages, deadline).expect("it listens");
            let service = listening.accept().expect("it has come");
            let (words, _) = SharedWords::new(8192).expect("memory");
            let started = Connection::builder().start_within(
                Duration::ZERO,
                Agreed {
                    link,
                    words,
                    speaking: Box::new(ToSay::default()),
                    hearing: Box::new(ToHear::new()),
                    state_every: vec![0],
                    sources: Vec::new(),
                    categories: Categories::default(),
                },
            );
            if let Err(error) = started {
                assert!(matches!(error, SessionError::Timeout), "{error}");
                break service;
            }
            service.shut();
        };
        std::fs::remove_file(path).expect("it is there");
        let (len, _) = service.receive_with(&mut [0; 64], deadline).expect("it hears of the end");
        assert_eq!(len, 0);
    }
}
