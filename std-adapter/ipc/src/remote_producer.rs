//! The service's end of a producer in another process, in either protocol: a thread waits for its messages, the drain
//! thread carries them out.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::acceptor::{Listener, NewProducer};
use crate::link::Link;
use crate::pid_namespace::{NamespacedProcess, PROC};
use crate::shared_memory::{SharedEndpoint, SharedWords};
use tracebuf_session::Waker;

/// What a producer sends, and the endpoint that carries it out. The connection ends when this is dropped.
pub(crate) struct RemoteProducer<T> {
    pub(crate) link: Arc<Link>,
    pub(crate) incoming: MessageQueue<Vec<T>>,
    pub(crate) endpoint: SharedEndpoint,
    listener: Weak<Listener>,
    /// Its place at the service, held as long as this exists.
    _place: Arc<()>,
}

impl<T: Send + 'static> RemoteProducer<T> {
    /// Starts a thread that receives, as [`MessageQueue::start`] does, and reports the process if it is in a container.
    /// The first message is empty: it says that the process was looked up.
    pub(crate) fn start(
        newcomer: NewProducer,
        words: SharedWords,
        mut next: impl FnMut(&Link) -> Option<Vec<T>> + Send + 'static,
        is_of_new_writer: fn(&T) -> bool,
    ) -> io::Result<Self> {
        let NewProducer { link, identity, buffers, waker, time, process_tree, place, listener } = newcomer;
        let endpoint = SharedEndpoint::over(words, identity, buffers)?;
        let mut looked_at = None;
        let next = move |link: &Link| {
            let Some(contained) = &mut looked_at else {
                looked_at = Some(NamespacedProcess::of(Path::new(PROC), identity.pid, time, &process_tree));
                return Some(Vec::new());
            };
            let message = next(link)?;
            // Before what the thread has recorded can be in a trace.
            if let Some(contained) = contained {
                if message.iter().any(is_of_new_writer) {
                    contained.has_new_writer();
                }
                contained.look_if_due();
            }
            Some(message)
        };
        let incoming = MessageQueue::start(&link, waker, next)?;
        Ok(Self { link, incoming, endpoint, listener, _place: place })
    }
}

impl<T> RemoteProducer<T> {
    /// The session has ended.
    pub(crate) fn end(&self) {
        if let Some(listener) = self.listener.upgrade() {
            listener.close();
        }
        self.link.shut();
    }
}

impl<T> Drop for RemoteProducer<T> {
    fn drop(&mut self) {
        self.link.shut();
    }
}

/// Most messages in a queue. The producer then waits: what it sends takes no more memory than that.
const WAITING: usize = 16;

/// How long the messages of one producer are carried out at a time; at least one message is.
const TURN: Duration = Duration::from_millis(1);

/// Messages that a thread has received for the drain thread.
pub(crate) struct MessageQueue<M> {
    messages: Receiver<M>,
    waker: Waker,
    /// Whether more may come.
    is_open: bool,
}

/// A limit on what the drain thread takes from one producer at a time: messages, because one that sends without end
/// would starve all others, and time, because some messages take long, such as patches of chunks that are far behind.
pub(crate) struct DrainTurn {
    begin: Instant,
    taken: usize,
}

impl DrainTurn {
    pub(crate) fn begin() -> Self {
        Self { begin: Instant::now(), taken: 0 }
    }

    fn is_over(&self) -> bool {
        self.taken > 0 && (self.taken == WAITING || self.begin.elapsed() >= TURN)
    }
}

impl<M: Send + 'static> MessageQueue<M> {
    /// Starts a thread that calls `next` for each message: `None` once the connection has ended, or something has come
    /// that is no message. Then the thread ends the connection.
    pub(crate) fn start(
        link: &Arc<Link>,
        waker: Waker,
        next: impl FnMut(&Link) -> Option<M> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, messages) = sync_channel(WAITING);
        let (of_thread, its_waker) = (link.clone(), waker.clone());
        thread::Builder::new().name("tracebuf-take".into()).spawn(move || {
            receive(&of_thread, &sender, &its_waker, next);
            // Nothing that is sent to the producer from here on would reach it.
            of_thread.shut();
            drop(sender);
            its_waker.wake();
        })?;
        Ok(Self { messages, waker, is_open: true })
    }

    /// The next message, if there is one and the turn is not over.
    pub(crate) fn take(&mut self, turn: &mut DrainTurn) -> Option<M> {
        if turn.is_over() {
            // Soon again: nothing else may wake this thread for what is left, or for the end after it.
            self.waker.wake();
            return None;
        }
        match self.messages.try_recv() {
            Ok(message) => {
                turn.taken += 1;
                Some(message)
            }
            Err(error) => {
                self.is_open = error == TryRecvError::Empty;
                None
            }
        }
    }

    /// False once the connection has ended and everything that had come was taken.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }
}

fn receive<M>(link: &Link, sender: &SyncSender<M>, waker: &Waker, mut next: impl FnMut(&Link) -> Option<M>) {
    while let Some(message) = next(link) {
        if sender.send(message).is_err() {
            return;
        }
        waker.wake();
    }
}
