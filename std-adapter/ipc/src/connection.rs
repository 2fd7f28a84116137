//! A producer that records into another process's session, in either protocol: [`Connection`].

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracebuf::producer::{Exhaustion, MemoryError};

use crate::link::{Link, spawn};
use crate::service_link::{MessageReceiver, MessageSender, ServiceLink};
use crate::time_namespace::ahead_of;
use crate::trust::TrustedUsers;
use tracebuf_session::parts::{FOR_EVER, PATIENCE, ProducerCell, RecorderContext, RecordingGate, made_by};
use tracebuf_session::{Recorder, SessionClock, SessionError, Waker};
use tracebuf_sockets::SharedWords;
use tracebuf_std::process::named;

/// Sets up a [`Connection`]. Made by [`Connection::builder`].
#[derive(Clone, Debug, Default)]
pub struct ConnectionBuilder {
    exhaustion: Exhaustion,
    process_name: Option<String>,
    fast_clock: bool,
    pub(crate) trusted: TrustedUsers,
    pub(crate) data_source: Option<String>,
    pub(crate) categories: Vec<String>,
}

/// A connection to a service with a [`ProducerSocket`](super::ProducerSocket), whose session this program's threads
/// record into.
///
/// ```no_run
/// use tracebuf_ipc::Connection;
///
/// let service = Connection::builder().open("/run/camera/trace")?;
/// let recorder = service.recorder(); // cheap to clone, for any thread
/// let _slice = recorder.enter("load");
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Recorders cost what those of a session of your own do, plus a system call with a thread's first event.
///
/// - **This process ends**, or is killed: the service has all events, except packets of over some 4 KB (three chunks)
///   that had just ended. Their loss is reported.
/// - **The service stops**, or is killed: recorders are off from then on. To go on with the next service, or to start
///   before there is one, [follow](ConnectionBuilder::follow) them.
/// - **A fork**: recorders are off in the child, which may have a connection of its own. In the child, a thread that
///   forked within an event's or packet's closure must not return from it: that would end its parent's packet.
/// - **Dropping it** sends what there is, for which the service has 5 s. If it is a `static`, call
///   [`flush`](Self::flush) at the program's end.
///
/// Cost: two threads, one of which wakes once a second, 340 KB, the shared memory, and 4 KB for each thread that
/// records.
pub struct Connection {
    context: Arc<RecorderContext>,
    sources: Vec<(String, u16)>,
    wants: Wants,
    service: Arc<ServiceLink>,
    threads: Vec<JoinHandle<()>>,
}

/// What a producer and its service have agreed on before anything is recorded.
pub(crate) struct Agreement {
    pub(crate) link: Link,
    pub(crate) words: SharedWords,
    pub(crate) sender: Box<dyn MessageSender>,
    pub(crate) receiver: Box<dyn MessageReceiver>,
    /// For each of the service's buffers, after how many bytes a writer repeats its state.
    pub(crate) state_every: Vec<u32>,
    /// Data sources, with the buffers that they go to.
    pub(crate) sources: Vec<(String, u16)>,
    pub(crate) wants: Wants,
}

/// Says whether events of a category are wanted.
pub(crate) type Wants = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl ConnectionBuilder {
    /// Sets what a thread does when shared memory is full; otherwise it drops. Threads that wait drop once the service
    /// is gone, and if more of them record than [its shared memory](super::ProducerSocketBuilder::shared_memory) has
    /// chunks for, 512 unless set otherwise.
    #[must_use]
    pub fn exhaustion(mut self, exhaustion: Exhaustion) -> Self {
        self.exhaustion = exhaustion;
        self
    }

    /// Names this process's track; without it, the track has the program's name.
    #[must_use]
    pub fn process_name(mut self, name: impl Into<String>) -> Self {
        self.process_name = Some(name.into());
        self
    }

    /// Takes an event's time from the processor's counter: see
    /// [`SessionBuilder::fast_clock`](tracebuf_session::SessionBuilder::fast_clock).
    #[must_use]
    pub fn fast_clock(mut self) -> Self {
        self.fast_clock = true;
        self
    }

    /// Takes this user's service too, wherever its socket lies. Otherwise, in a folder where everybody may make files, such
    /// as `/tmp`, a program takes a service of its own user, of root or of the folder's owner: another one may have been
    /// there first. Everywhere else whoever may make files in the folder has been chosen by its owner.
    #[must_use]
    pub fn service_user(mut self, uid: u32) -> Self {
        self.trusted.named = Some(uid);
        self
    }

    /// Names the data source that this program offers to [Perfetto's service](Self::follow_perfetto), in place of
    /// `track_event`: a configuration can then give it a buffer of its own. Services of this crate ignore it.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>) -> Self {
        self.data_source = Some(name.into());
        self
    }

    /// Adds categories that [Perfetto's service](Self::follow_perfetto) lists for anyone who asks what can be recorded.
    /// [`Connection::wants`] also answers for categories not named here. Services of this crate ignore them.
    #[must_use]
    pub fn categories<'c>(mut self, names: impl IntoIterator<Item = &'c str>) -> Self {
        self.categories.extend(names.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn name_of_process(&self) -> String {
        named(self.process_name.as_deref())
    }

    /// Makes a producer, with its threads, from what was agreed with a service.
    pub(crate) fn start(self, agreed: Agreement) -> Result<Connection, SessionError> {
        self.start_within(2 * PATIENCE, agreed)
    }

    /// The same, with this much time for the thread to begin.
    fn start_within(self, patience: Duration, agreed: Agreement) -> Result<Connection, SessionError> {
        let Agreement { link, words, sender, receiver, state_every, sources, wants } = agreed;
        let (switch, waker) = (Arc::new(RecordingGate::new()), Waker::default());
        let clock = SessionClock::new(self.fast_clock).behind(ahead_of(link.peer().pid));
        let name = self.name_of_process();
        let bytes = 4 * words.as_ref().len();
        // A rendezvous: otherwise it could be on its way when nothing waits for it any more.
        let (made, of_thread) = sync_channel::<Result<Arc<ServiceLink>, MemoryError>>(0);
        let (in_thread, its_waker) = (switch.clone(), waker.clone());
        let waits = self.exhaustion != Exhaustion::Drop;
        let sender = spawn("tracebuf-send", move || {
            // Made here, because it first lies on the stack, and the caller's thread may have little of that.
            let producer =
                ProducerCell::in_memory(Box::new(words), in_thread.clone(), its_waker.clone(), name);
            let service = producer.map(|producer| {
                Arc::new(ServiceLink::new(link, Arc::new(producer), in_thread, its_waker, waits, sender))
            });
            let own = service.as_ref().ok().cloned();
            // A caller that has given up waiting has said so, and has no connection: the service must not keep one that
            // never answers either. It hears of the end when the service is gone.
            if made.send(service).is_ok() {
                own.into_iter().for_each(|service| service.pass_on(clock));
            }
        })?;
        waker.set(sender.thread().clone());
        let service = made_by(&of_thread, patience)?.map_err(|_| SessionError::SharedMemory { bytes })?;
        let in_thread = service.clone();
        let hears = spawn("tracebuf-hear", move || in_thread.receive(receiver));
        // Without it, nothing else would tell the other thread to end.
        let hears = hears.inspect_err(|_| service.ask_end())?;
        let of_recorders = service.clone();
        let context = RecorderContext {
            gate: switch,
            producer: service.producer.clone(),
            exhaustion: self.exhaustion,
            clock,
            state_every,
            announce: Some(Box::new(move || of_recorders.announce())),
        };
        let (context, threads) = (Arc::new(context), vec![sender, hears]);
        Ok(Connection { context, sources, wants, service, threads })
    }
}

impl Connection {
    /// A connection whose threads drop when shared memory is full, and read the system's clock, unless set otherwise.
    pub fn builder() -> ConnectionBuilder {
        ConnectionBuilder::default()
    }

    /// Tells the service that the program records from here on.
    pub(crate) fn begin(&self) {
        self.service.begin();
    }

    /// A recorder into the first buffer of the service's session, or the one that Perfetto's configuration names.
    pub fn recorder(&self) -> Recorder {
        self.recorder_into(0)
    }

    /// A recorder into the buffer of this number.
    pub(crate) fn recorder_into(&self, buffer: u16) -> Recorder {
        Recorder::new(self.context.clone(), buffer)
    }

    /// The way to the service.
    pub(crate) fn link(&self) -> &ServiceLink {
        &self.service
    }

    /// A recorder into the buffer that the service has mapped a data source to; `None` if it has not mapped it.
    pub fn recorder_of(&self, data_source: &str) -> Option<Recorder> {
        Recorder::of_source(&self.context, &self.sources, data_source)
    }

    /// Whether the service wants events of this category: see
    /// [`follow_perfetto`](ConnectionBuilder::follow_perfetto). What is recorded anyway is in the trace.
    ///
    /// The lists in the data source's `track_event_config` decide, in this order: the category's name in
    /// `enabled_categories`, its name in `disabled_categories`, a pattern for it in `enabled_categories`, a pattern for
    /// it in `disabled_categories`. In a pattern each `*` stands for any text, or none. What no list has is wanted.
    /// Lists of tags are ignored. Without lists, or with malformed ones, all are wanted, as they are by services of
    /// this crate.
    ///
    /// Cost: it reads the lists up to four times; meant to be called once with each connection.
    #[must_use]
    pub fn wants(&self, category: &str) -> bool {
        (self.wants)(category)
    }

    /// Whether the service is there, as far as is known, and this is the process that connected to it.
    pub fn is_connected(&self) -> bool {
        self.context.gate.is_on()
    }

    /// Gets all that was recorded until now into the service's buffers; with Perfetto's service, complete chunks only.
    /// The service does so by itself for its snapshots, and when this process ends.
    ///
    /// # Errors
    /// [`SessionError::Timeout`] when the service has not answered in time; [`SessionError::Stopped`] when it is gone,
    /// [`SessionError::Forked`] in a child after a fork.
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        if !self.context.gate.is_here() {
            return Err(SessionError::Forked);
        }
        let deadline = Instant::now() + timeout.min(FOR_EVER);
        self.service.flush(deadline)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.context.gate.is_here() {
            // The threads are not in this process, and by now others may have their places.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        // What the flush asks for is in the queue when the thread sees that it is to end.
        self.context.producer.producer().flush();
        self.service.end(Instant::now() + PATIENCE);
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
    use crate::link::SocketKind;
    use crate::native::records::{RecordReceiver, RecordSender};

    #[test]
    fn a_service_does_not_keep_one_who_gave_up_waiting_for_the_thread() {
        let path = std::env::temp_dir().join(format!("tracebuf-late-{}", std::process::id()));
        let listening = Link::listening(&path, SocketKind::Messages).expect("a socket");
        let deadline = Instant::now() + 12 * PATIENCE;
        // A thread may begin at once and be accepted even so; then the next one is to be late.
        let service = loop {
            let link = Link::connected(&path, SocketKind::Messages, deadline).expect("it listens");
            let service = listening.accept(None).expect("it has come");
            let (words, _) = SharedWords::new(8192).expect("memory");
            let started = Connection::builder().start_within(
                Duration::ZERO,
                Agreement {
                    link,
                    words,
                    sender: Box::new(RecordSender::default()),
                    receiver: Box::new(RecordReceiver::new()),
                    state_every: vec![0],
                    sources: Vec::new(),
                    wants: Box::new(|_| true),
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
