//! A producer's way to its service, in either protocol: [`ServiceLink`], on which one thread sends and one receives.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf::producer::Request;
use tracebuf::wrapping::is_reached;

use crate::link::Link;
use tracebuf_session::limits::BUFFERS_MAX;
use tracebuf_session::parts::{MAX_SLEEP, ProducerCell, RecordingGate, Wait};
use tracebuf_session::{SessionClock, SessionError, Waker};

/// How long to wait for the sending thread: it takes far less to send, unless it waits for the service.
const SENDER_PATIENCE: Duration = Duration::from_millis(5);

pub(crate) struct ServiceLink {
    link: Link,
    pub(crate) producer: Arc<ProducerCell>,
    switch: Arc<RecordingGate>,
    waker: Waker,
    /// Whether threads wait for chunks, and so want to know what the service has taken.
    waits: bool,
    /// The question to be answered; 0 if there is none.
    question: AtomicU64,
    outgoing: Mutex<Outgoing>,
    /// Whether the service is still to be told that the program records from here on.
    begins: AtomicBool,
    /// The flush after which the service is to be asked to scrape; 0 if there is none.
    to_scrape: AtomicU32,
    flushes: Mutex<OwnFlushes>,
    /// Notified when a flush is done, and at the end.
    changed: Condvar,
}

/// What is on its way to the service, in order, and what the service was told before.
struct Outgoing {
    sender: Box<dyn MessageSender>,
    requests: Vec<Request>,
    dropped: [u64; BUFFERS_MAX],
    chunks: u64,
}

/// What this process flushes by itself. No code that may ask for memory holds its lock: an allocator that records may
/// come here again.
#[derive(Default)]
struct OwnFlushes {
    /// The last flush after which the service has scraped.
    done: u32,
    /// Whether the connection has ended: nothing is received any more.
    is_over: bool,
}

impl ServiceLink {
    pub(crate) fn new(
        link: Link,
        producer: Arc<ProducerCell>,
        switch: Arc<RecordingGate>,
        waker: Waker,
        waits: bool,
        sender: Box<dyn MessageSender>,
    ) -> Self {
        let outgoing = Outgoing { sender, requests: Vec::new(), dropped: [0; BUFFERS_MAX], chunks: 0 };
        Self {
            link,
            producer,
            switch,
            waker,
            waits,
            question: AtomicU64::new(0),
            outgoing: Mutex::new(outgoing),
            begins: AtomicBool::new(false),
            to_scrape: AtomicU32::new(0),
            flushes: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The program knows of the connection, and records from here on.
    pub(crate) fn begin(&self) {
        // Said by the thread that sends, because that may have to wait.
        self.begins.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Makes the sending thread end once it has sent what there is.
    pub(crate) fn ask_end(&self) {
        self.switch.off();
        self.waker.wake();
    }

    /// The same, and waits for that end, and for the service to have it all where that can be known.
    pub(crate) fn end(&self, deadline: Instant) {
        self.ask_end();
        let _ = self.wait(self.flushes(), deadline, |flushes| flushes.is_over);
        self.link.shut();
    }

    /// Waits until the condition holds; false if it does not by the deadline.
    fn wait(
        &self,
        mut flushes: MutexGuard<'_, OwnFlushes>,
        deadline: Instant,
        is_so: impl Fn(&OwnFlushes) -> bool,
    ) -> bool {
        while !is_so(&flushes) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            flushes = self.changed.wait_timeout(flushes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Sends what threads ask for until either side ends.
    pub(crate) fn pass_on(&self, clock: SessionClock) {
        let _ = self.send_all(clock);
        self.switch.off();
        self.outgoing().sender.end(&self.link);
    }

    fn send_all(&self, clock: SessionClock) -> io::Result<()> {
        loop {
            // Looked at first: what is in the queue when the switch goes off is still sent.
            let is_on = self.switch.is_on();
            let mut outgoing = self.outgoing();
            self.collect(&mut outgoing);
            outgoing.sender.send(&self.link, Wait::UntilDone)?;
            drop(outgoing);
            if !is_on {
                return Ok(());
            }
            clock.steer();
            thread::park_timeout(MAX_SLEEP);
        }
    }

    /// Sends what there is from the calling thread: the service must know of a new writer before that writes. If this
    /// process were killed before the sending thread had its turn, nothing that the writer has recorded would be
    /// scraped.
    pub(crate) fn announce(&self) {
        self.announce_within(SENDER_PATIENCE);
    }

    fn announce_within(&self, most: Duration) {
        let sent = self.outgoing_within(most).is_some_and(|mut outgoing| {
            self.collect(&mut outgoing);
            outgoing.sender.send(&self.link, Wait::Now).unwrap_or(false)
        });
        if !sent {
            // The sending thread is at it, and looks again, or has to begin.
            self.waker.wake();
        }
    }

    /// Waits for the sending thread no longer than this: that thread may be waiting for the service, and may itself be
    /// the caller, from an allocator that records.
    fn outgoing_within(&self, most: Duration) -> Option<MutexGuard<'_, Outgoing>> {
        let begun = Instant::now();
        loop {
            match self.outgoing.try_lock() {
                Ok(outgoing) => return Some(outgoing),
                Err(TryLockError::WouldBlock) if begun.elapsed() < most => thread::yield_now(),
                Err(_) => return None,
            }
        }
    }

    fn collect(&self, outgoing: &mut Outgoing) {
        if self.begins.swap(false, Ordering::Relaxed) {
            outgoing.sender.begin();
        }
        // Flushed here, and once for all questions that came meanwhile: a service that asks without end and takes
        // nothing would otherwise fill the queue.
        let question = self.question.swap(0, Ordering::Relaxed);
        let flush = (question != 0).then(|| self.producer.producer().flush());
        let queue = self.producer.queue();
        let mut requests = std::mem::take(&mut outgoing.requests);
        let chunks = queue.take(&mut requests);
        requests.drain(..).for_each(|request| outgoing.sender.push(ProducerMessage::Request(request)));
        outgoing.requests = requests;
        for buffer in 0..BUFFERS_MAX {
            let (dropped, told) = (queue.dropped(buffer), outgoing.dropped[buffer]);
            if dropped != told {
                outgoing.dropped[buffer] = dropped;
                let (buffer, packets) = (buffer as u32, dropped - told);
                outgoing.sender.push(ProducerMessage::Dropped { buffer, packets });
            }
        }
        if self.waits && chunks != outgoing.chunks {
            outgoing.chunks = chunks;
            outgoing.sender.push(ProducerMessage::Sent(chunks));
        }
        if let Some(flush) = flush {
            outgoing.sender.push(ProducerMessage::Answer { question, flush });
        }
        let to_scrape = self.to_scrape.swap(0, Ordering::Relaxed);
        if to_scrape != 0 {
            outgoing.sender.push(ProducerMessage::Scrape(to_scrape));
        }
    }

    /// Does what the service asks for, until it is gone.
    pub(crate) fn receive(&self, mut receiver: Box<dyn MessageReceiver>) {
        while receiver.receive(&self.link, &mut |message| self.act(message)).is_some() {}
        self.switch.off();
        self.link.shut();
        self.waker.wake();
        self.flushes().is_over = true;
        self.changed.notify_all();
    }

    pub(crate) fn act(&self, message: ServiceMessage) {
        let producer = self.producer.producer();
        match message {
            ServiceMessage::Question(question) => {
                self.question.store(question, Ordering::Relaxed);
                self.waker.wake();
            }
            ServiceMessage::Flushed(flush) => producer.flushed(flush),
            ServiceMessage::Scraped(flush) => {
                let done = &mut self.flushes().done;
                // A thread may ask late for an earlier one: who waits for the later may not have looked yet.
                if !is_reached(*done, flush) {
                    *done = flush;
                }
                self.changed.notify_all();
            }
            ServiceMessage::Taken(chunks) => self.producer.queue().taken(chunks),
            ServiceMessage::ClearState => producer.clear_incremental_state(),
            ServiceMessage::Stop => self.ask_end(),
            ServiceMessage::ToAnswer => self.waker.wake(),
        }
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flushes(&self) -> MutexGuard<'_, OwnFlushes> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is complete, and waits until the service has that and everything else there is.
    pub(crate) fn flush(&self, deadline: Instant) -> Result<(), SessionError> {
        if !self.switch.is_on() {
            // Nothing takes what is asked for.
            return Err(SessionError::Stopped);
        }
        let flush = self.producer.producer().flush();
        // The last of all that are asked for: what is done for it is done for the earlier ones too.
        let later = |other: u32| (other == 0 || !is_reached(other, flush)).then_some(flush);
        let _ = self.to_scrape.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        self.waker.wake();
        let is_done = |flushes: &OwnFlushes| is_reached(flushes.done, flush);
        match self.wait(self.flushes(), deadline, |flushes| flushes.is_over || is_done(flushes)) {
            false => Err(SessionError::Timeout),
            true if is_done(&self.flushes()) => Ok(()),
            true => Err(SessionError::Stopped),
        }
    }
}

/// Encodes a producer's messages in one of the protocols, and keeps them until they are sent.
pub(crate) trait MessageSender: Send {
    /// The program knows of the connection, and records from here on.
    fn begin(&mut self) {}

    /// Messages about shared memory are carried out in the order in which they come.
    fn push(&mut self, message: ProducerMessage);

    /// Sends what is kept; false if the other end does not take all of it now, and this is not to wait.
    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool>;

    /// There will be no more messages: ends the connection, as far as this side does.
    fn end(&mut self, link: &Link);
}

/// Decodes a service's messages in one of the protocols.
pub(crate) trait MessageReceiver: Send {
    /// Waits for a message, and passes on what is in it. `None` once the connection has ended, or for something that is
    /// no message.
    fn receive(&mut self, link: &Link, act: &mut dyn FnMut(ServiceMessage)) -> Option<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProducerMessage {
    /// In the order in which they are to be carried out.
    Request(Request),
    /// To a [question](ServiceMessage::Question): everything that was complete then has come once this flush was
    /// carried out.
    Answer { question: u64, flush: u32 },
    /// This many packets for a buffer were given up since the last such message, and nothing in shared memory tells of
    /// them.
    Dropped { buffer: u32, packets: u64 },
    /// This many chunks were sent in all; the service is to repeat the number once they were taken.
    Sent(u64),
    /// Also wants what is in incomplete chunks, once this flush was carried out; the service is to say when that is
    /// done.
    Scrape(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceMessage {
    /// Wants everything that is complete, and this to be answered. Not 0.
    Question(u64),
    /// Has carried out everything up to this flush.
    Flushed(u32),
    /// Has got what was wanted with this flush into its buffers.
    Scraped(u32),
    Taken(u64),
    ClearState,
    /// Wants nothing more. What there is must still be sent.
    Stop,
    /// Something that the [`MessageSender`] knows how to answer.
    ToAnswer,
}

#[cfg(test)]
mod tests;
