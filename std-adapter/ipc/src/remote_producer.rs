//! The service's end of a producer in another process, in either protocol: a thread waits for its messages, the drain
//! thread carries them out.

use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use tracebuf::service::ProducerIdentity;

use crate::acceptor::{Listener, NewProducer};
use crate::link::Link;
use crate::pid_namespace::{NamespacedProcess, PROC};
use crate::shared_memory::SharedEndpoint;
use tracebuf_session::Waker;
use tracebuf_session::parts::Refusals;
use tracebuf_sockets::SharedWords;

/// Most messages that wait for the drain thread. The producer then waits too: what it sends takes no more memory.
const WAITING: usize = 16;

/// How long the messages of one producer are carried out at a time; at least one message is.
const TURN: Duration = Duration::from_millis(1);

/// How long a producer is given for its first words: each has one of the service's places until then too. Those of this
/// crate and of Perfetto's SDK say something at once.
const FIRST_WORDS: Duration = Duration::from_secs(5);

/// What a producer sends, and the endpoint that carries it out. The connection ends when this is dropped.
pub(crate) struct RemoteProducer<T> {
    pub(crate) link: Arc<Link>,
    pub(crate) endpoint: SharedEndpoint,
    messages: Receiver<Vec<T>>,
    waker: Waker,
    /// False once the connection has ended and everything that had come was taken.
    pub(crate) is_open: bool,
    listener: Weak<Listener>,
    /// When it has come.
    came: Instant,
    /// How many of its threads run at a time. Looked up once: the system takes long to say it.
    cores: u64,
    has_spoken: bool,
    refusals: Refusals,
    /// Its place at the service, held as long as this exists.
    _place: Arc<()>,
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

impl<T: Send + 'static> RemoteProducer<T> {
    /// Starts a thread that calls `next` for each message: `None` once the connection has ended, or something has come
    /// that is no message. Then the thread ends the connection. It also reports the process if it is in a container.
    /// The first message is empty: it says that the process was looked up.
    pub(crate) fn start(
        newcomer: NewProducer,
        words: SharedWords,
        mut next: impl FnMut(&Link) -> Option<Vec<T>> + Send + 'static,
        is_of_new_writer: fn(&T) -> bool,
    ) -> io::Result<Self> {
        let NewProducer { link, identity, buffers, waker, time, refusals, process_tree, place, listener } =
            newcomer;
        let endpoint = SharedEndpoint::over(words, identity, buffers)?;
        let mut looked_at = None;
        let mut next = move |link: &Link| {
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
        let (sender, messages) = sync_channel(WAITING);
        let (of_thread, its_waker) = (link.clone(), waker.clone());
        thread::Builder::new().name("tracebuf-take".into()).spawn(move || {
            while let Some(message) = next(&of_thread)
                && sender.send(message).is_ok()
            {
                its_waker.wake();
            }
            // Nothing that is sent to the producer from here on would reach it.
            of_thread.shut();
            drop(sender);
            its_waker.wake();
        })?;
        let (came, has_spoken) = (Instant::now(), false);
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Ok(Self {
            link,
            endpoint,
            messages,
            waker,
            is_open: true,
            listener,
            came,
            cores,
            has_spoken,
            refusals,
            _place: place,
        })
    }
}

impl<T> RemoteProducer<T> {
    /// The next message, if there is one and the turn is not over.
    pub(crate) fn take(&mut self, turn: &mut DrainTurn) -> Option<Vec<T>> {
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

    /// It has said what programs say that are going to record.
    pub(crate) fn speaks(&mut self) {
        self.has_spoken = true;
    }

    /// Sends away one that has said nothing for too long. Called whenever the session's thread looks at it, once a
    /// second at least.
    pub(crate) fn end_if_silent(&mut self) {
        self.end_if_silent_for(FIRST_WORDS);
    }

    fn end_if_silent_for(&mut self, most: Duration) {
        if !self.has_spoken && self.came.elapsed() >= most {
            let ProducerIdentity { uid, pid, .. } = self.endpoint.borrow_dependent().identity();
            self.refusals.note(uid, pid, &format!("it has said nothing for {} s", most.as_secs()));
            self.has_spoken = true;
            // The thread that waits for what comes hears of the end.
            self.link.shut();
        }
    }

    /// The most packets that a producer can have given up since it has come: a thread that does nothing else takes some
    /// nanoseconds for each.
    pub(crate) fn most_packets(&self) -> u64 {
        u64::try_from(self.came.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.cores)
    }

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

/// The methods of a [`Transport`](tracebuf_session::Transport) that are the same in both protocols.
macro_rules! remote_transport {
    () => {
        fn stats(&self) -> tracebuf::service::EndpointStats {
            self.remote.endpoint.borrow_dependent().stats()
        }

        fn identity(&self) -> Option<tracebuf::service::ProducerIdentity> {
            Some(self.remote.endpoint.borrow_dependent().identity())
        }

        fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
            self.remote.endpoint.with(|endpoint| endpoint.disconnect(buffers));
        }

        fn is_connected(&self) -> bool {
            self.remote.is_open
        }

        fn end(&mut self) {
            self.remote.end();
        }
    };
}
pub(crate) use remote_transport;

#[cfg(test)]
mod tests;
