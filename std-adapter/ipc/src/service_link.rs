//! A producer's way to its service, in either protocol: [`ServiceLink`], on which one thread sends and one receives.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf::producer::Request;
use tracebuf::wrapping::is_reached;

use crate::link::Link;
use tracebuf_session::Waker;
use tracebuf_session::limits::BUFFERS_MAX;
use tracebuf_session::parts::ProducerCell;
use tracebuf_session::parts::RecordingGate;
use tracebuf_session::parts::{MAX_SLEEP, Wait};
use tracebuf_session::{SessionClock, SessionError};

/// How long to wait for the sending thread: it takes far less to send, unless it waits for the service.
const SENDER_PATIENCE: Duration = Duration::from_millis(5);

/// The way to a service in another process.
pub(crate) struct ServiceLink {
    link: Link,
    producer: Arc<ProducerCell>,
    switch: Arc<RecordingGate>,
    /// Wakes the thread that sends.
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
    /// The queue's other vector.
    requests: Vec<Request>,
    /// Packets dropped, by buffer.
    dropped: [u64; BUFFERS_MAX],
    /// Chunks sent.
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

    pub(crate) fn producer(&self) -> &Arc<ProducerCell> {
        &self.producer
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

    /// Collects what there is to send.
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
        requests.drain(..).for_each(|request| outgoing.sender.request(request));
        outgoing.requests = requests;
        for buffer in 0..BUFFERS_MAX {
            let (dropped, told) = (queue.dropped(buffer), outgoing.dropped[buffer]);
            if dropped != told {
                outgoing.dropped[buffer] = dropped;
                outgoing.sender.dropped(buffer as u32, dropped - told);
            }
        }
        if self.waits && chunks != outgoing.chunks {
            outgoing.chunks = chunks;
            outgoing.sender.sent(chunks);
        }
        if let Some(flush) = flush {
            outgoing.sender.answer(question, flush);
        }
        let to_scrape = self.to_scrape.swap(0, Ordering::Relaxed);
        if to_scrape != 0 {
            outgoing.sender.scrape(to_scrape);
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

    fn act(&self, message: ServiceMessage) {
        let producer = self.producer.producer();
        match message {
            ServiceMessage::Question(question) => {
                self.question.store(question, Ordering::Relaxed);
                self.waker.wake();
            }
            ServiceMessage::Flushed(flush) => producer.flushed(flush),
            ServiceMessage::Scraped(flush) => {
                self.flushes().done = flush;
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

    /// A request about shared memory, in the order in which they are to be carried out.
    fn request(&mut self, request: Request);

    /// This many packets for a buffer were given up since the last call, and nothing in shared memory tells of them.
    fn dropped(&mut self, buffer: u32, packets: u64);

    /// This many chunks were sent in all, and threads want to know when they were taken.
    fn sent(&mut self, chunks: u64);

    /// Answers a [question](ServiceMessage::Question): everything that was complete then has come once this flush was
    /// carried out.
    fn answer(&mut self, question: u64, flush: u32);

    /// Also asks for what is in incomplete chunks, once this flush was carried out.
    fn scrape(&mut self, flush: u32);

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

/// A service's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceMessage {
    /// Wants everything that is complete, and this to be answered. Not 0.
    Question(u64),
    /// Has carried out everything up to this flush.
    Flushed(u32),
    /// Has got what was wanted with this flush into its buffers.
    Scraped(u32),
    /// Has taken this many chunks.
    Taken(u64),
    /// Wants writers to repeat their state.
    ClearState,
    /// Wants nothing more. What there is must still be sent.
    Stop,
    /// Something that the [`MessageSender`] knows how to answer.
    ToAnswer,
}

#[cfg(test)]
mod tests {
    use tracebuf::producer::Exhaustion;

    use super::*;
    use crate::link::SocketKind;
    use crate::native::records::RecordSender;
    use tracebuf_session::parts::words;

    /// A service with a socket that nothing else is connected to.
    fn service(test: &str) -> ServiceLink {
        let path = std::env::temp_dir().join(format!("tracebuf-line-{test}-{}", std::process::id()));
        let link = Link::listening(&path, SocketKind::Messages).expect("a socket");
        std::fs::remove_file(path).expect("it is there");
        let (switch, waker) = (Arc::new(RecordingGate::new()), Waker::default());
        let producer = ProducerCell::in_memory(words(8192), switch.clone(), waker.clone(), String::new())
            .expect("memory");
        ServiceLink::new(link, Arc::new(producer), switch, waker, false, Box::new(RecordSender::default()))
    }

    #[test]
    fn a_writer_is_announced_also_while_the_sending_thread_is_at_it() {
        let service = service("announced");
        let (held, is_held) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _outgoing = service.outgoing();
                held.send(()).expect("the test waits");
                thread::sleep(Duration::from_millis(20));
            });
            is_held.recv().expect("it is held");
            let writer = service.producer.producer().writer(0, Exhaustion::Drop);
            service.announce_within(Duration::from_secs(30));
            // The request was taken out of the queue, to be sent.
            let mut requests = Vec::new();
            service.producer.queue().take(&mut requests);
            assert_eq!((writer.is_some(), requests.len()), (true, 0));
        });
    }

    #[test]
    fn neither_a_service_that_asks_without_end_nor_flushes_behind_the_end_fill_the_queue() {
        let service = service("endless");
        for number in 1..1000 {
            service.act(ServiceMessage::Question(number));
        }
        service.end(Instant::now());
        for _ in 0..1000 {
            assert!(matches!(service.flush(Instant::now()), Err(SessionError::Stopped)));
        }
        let mut requests = Vec::new();
        service.producer().queue().take(&mut requests);
        assert!(requests.is_empty(), "{}", requests.len());
    }

    #[test]
    fn neither_threads_that_come_and_go_nor_flushes_fill_the_queue_of_a_service_that_takes_nothing() {
        let service = service("stalled");
        // The first of them fill shared memory.
        for _ in 0..1000 {
            let writer = service.producer.producer().writer(0, Exhaustion::Drop);
            writer.expect("a place").packet().varint(8, 1);
            assert!(matches!(service.flush(Instant::now()), Err(SessionError::Timeout)));
        }
        let mut requests = Vec::new();
        service.producer().queue().take(&mut requests);
        let chunks = requests.iter().filter(|request| matches!(request, Request::Move(_))).count();
        assert!(chunks > 0 && requests.len() <= 4 * chunks, "{} for {chunks} chunks", requests.len());
    }
}
