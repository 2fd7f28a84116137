//! What comes from a producer: a thread waits for it, the drain thread carries it out.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::link::Link;
use tracebuf_session::Waker;

/// Most messages that have come and were not carried out. With as many there the producer has to wait: what it sends
/// takes no more memory than that.
const WAITING: usize = 16;

/// How long messages of one producer are carried out before it is the next one's turn; one message always is.
const TURN: Duration = Duration::from_millis(1);

/// The drain thread's end.
pub(super) struct Incoming<M> {
    messages: Receiver<M>,
    waker: Waker,
    /// Whether more may come.
    is_open: bool,
}

/// What the drain thread takes at a time from one producer: no more messages than may wait, or one that sends without
/// end would keep all others from their turn; and for no longer than a turn lasts, for one that sends what takes long,
/// such as patches of chunks that are far behind.
pub(super) struct Turn {
    begin: Instant,
    taken: usize,
}

impl Turn {
    pub(super) fn begin() -> Self {
        Self { begin: Instant::now(), taken: 0 }
    }

    fn is_over(&self) -> bool {
        self.taken > 0 && (self.taken == WAITING || self.begin.elapsed() >= TURN)
    }
}

impl<M: Send + 'static> Incoming<M> {
    /// Starts a thread that takes what comes, by `next`: that gives `None` once the connection has ended, or something
    /// has come that is no message. Then the thread ends the connection.
    pub(super) fn start(
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
    pub(super) fn take(&mut self, turn: &mut Turn) -> Option<M> {
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
    pub(super) const fn is_open(&self) -> bool {
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
