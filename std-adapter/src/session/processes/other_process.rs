//! The transport of another process: shared memory that it has too, requests in messages.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use self_cell::self_cell;
use tracebuf::producer::MemoryError;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use super::link::Link;
use super::messages::{FromProducer, FromService, LONGEST, RECORD, is_reached, records};
use super::shared_words::SharedWords;
use crate::session::producer_cell::{Endpoint, endpoint, shared_memory};
use crate::session::transport::{BUFFERS_MAX, CentralBuffer, Transport};
use crate::session::waker::Waker;

self_cell!(
    struct EndpointCell {
        owner: SharedWords,
        #[covariant]
        dependent: Endpoint,
    }
);

/// Messages that have come and were not carried out, at most. With as many there its producer has to wait: what one
/// sends takes no more memory than that.
const WAITING: usize = 16;

/// How long messages of one producer are carried out before it is the next one's turn; one message always is.
const TURN: Duration = Duration::from_millis(1);

/// What is to be said to the producer, the newest of each kind: what is said later holds for what was said before.
#[derive(Default)]
struct ToSay {
    question: Option<u32>,
    flushed: Option<u32>,
    taken: Option<u64>,
    scraped: Option<u32>,
    clear_state: Option<()>,
}

/// The drain thread's end.
pub(super) struct OtherProcess {
    endpoint: EndpointCell,
    link: Arc<Link>,
    waker: Waker,
    incoming: Receiver<Vec<FromProducer>>,
    is_connected: bool,
    /// The number of the last question, and the last answer: to which question, and after which flush it holds.
    question: u32,
    answer: (u32, u32),
    /// The last flush that was carried out.
    flushed: u32,
    /// To scrape once this one was.
    scrape: Option<u32>,
    to_say: ToSay,
    dropped: [u64; BUFFERS_MAX],
    /// It has one of the service's places as long as it has this.
    _place: Arc<()>,
}

impl OtherProcess {
    /// With a thread that takes what comes.
    pub(super) fn start(
        link: &Arc<Link>,
        words: SharedWords,
        identity: ProducerIdentity,
        buffers: u16,
        place: Arc<()>,
        waker: Waker,
    ) -> io::Result<Self> {
        let endpoint = EndpointCell::try_new(words, |words| {
            Ok::<_, MemoryError>(endpoint(shared_memory(words.as_ref())?, identity, buffers))
        });
        let endpoint = endpoint.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (sender, incoming) = sync_channel(WAITING);
        let (of_thread, its_waker) = (link.clone(), waker.clone());
        thread::Builder::new().name("tracebuf-take".into()).spawn(move || {
            hear(&of_thread, &sender, &its_waker);
            // What it is told from here on would be told to nobody.
            of_thread.shut();
            drop(sender);
            its_waker.wake();
        })?;
        Ok(Self {
            endpoint,
            link: link.clone(),
            waker,
            incoming,
            is_connected: true,
            question: 0,
            answer: (0, 0),
            flushed: 0,
            scrape: None,
            to_say: ToSay::default(),
            dropped: [0; BUFFERS_MAX],
            _place: place,
        })
    }

    fn carry_out(&mut self, said: FromProducer, buffers: &mut [CentralBuffer]) {
        match said {
            FromProducer::Request(request) => {
                let flush =
                    self.endpoint.with_dependent_mut(|_, endpoint| endpoint.carry_out_one(&request, buffers));
                if let Some(flush) = flush {
                    self.flushed = flush;
                    self.to_say.flushed = Some(flush);
                }
            }
            FromProducer::Answer { question, flush } => self.answer = (question, flush),
            FromProducer::Dropped { buffer, packets } => {
                if let Some(dropped) = self.dropped.get_mut(buffer as usize) {
                    *dropped = dropped.saturating_add(packets);
                }
            }
            FromProducer::Sent(chunks) => self.to_say.taken = Some(chunks),
            // The later one, of threads that did not wait for each other.
            FromProducer::Scrape(flush) => {
                self.scrape = self.scrape.filter(|later| is_reached(*later, flush)).or(Some(flush));
            }
        }
    }

    /// Carries out what has come, and says whether there may be more. No more than were there, or one who sends without
    /// end would keep all others from their turn; nor for longer than a turn lasts, for one who sends what takes long, as
    /// patches of chunks that are far behind.
    fn take_turn(&mut self, buffers: &mut [CentralBuffer]) -> bool {
        let begin = Instant::now();
        for taken in 0..WAITING {
            if taken > 0 && begin.elapsed() >= TURN {
                return true;
            }
            match self.incoming.try_recv() {
                Ok(message) => message.into_iter().for_each(|said| self.carry_out(said, buffers)),
                Err(error) => {
                    self.is_connected = error == TryRecvError::Empty;
                    return false;
                }
            }
        }
        true
    }

    /// Says what there is to say, as far as the producer takes it now; the rest, when this is called again.
    fn say(&mut self) {
        let Self { link, to_say: ToSay { question, flushed, taken, scraped, clear_state }, .. } = self;
        // An end of the connection is heard of by the thread that waits for what comes.
        let say = |said: FromService| !matches!(link.try_send(&said.to_bytes()), Ok(false));
        question.take_if(|number| say(FromService::Question(*number)));
        flushed.take_if(|flush| say(FromService::Flushed(*flush)));
        taken.take_if(|chunks| say(FromService::Taken(*chunks)));
        scraped.take_if(|flush| say(FromService::Scraped(*flush)));
        clear_state.take_if(|()| say(FromService::ClearState));
    }
}

/// Takes what comes until the connection ends, or something comes that is no message.
fn hear(link: &Link, sender: &SyncSender<Vec<FromProducer>>, waker: &Waker) {
    let mut message = [0; LONGEST];
    while let Ok(len @ 1..) = link.receive(&mut message) {
        let records: Option<&[[u8; RECORD]]> = message.get(..len).and_then(records);
        let said: Option<Vec<_>> = records
            .and_then(|records| records.iter().map(|record| FromProducer::from_bytes(*record)).collect());
        let Some(said) = said else { return };
        if sender.send(said).is_err() {
            return;
        }
        waker.wake();
    }
}

impl Transport for OtherProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer]) {
        if self.take_turn(buffers) {
            // Soon again: nobody else may wake this thread for what is left, or for the end behind it.
            self.waker.wake();
        }
        // Once, however often it is wanted.
        let flushed = self.flushed;
        if let Some(flush) = self.scrape.take_if(|flush| is_reached(flushed, *flush)) {
            self.scrape(buffers);
            self.to_say.scraped = Some(flush);
        }
        self.say();
    }

    fn ask_flush(&mut self) {
        self.question = self.question.wrapping_add(1);
        self.to_say.question = Some(self.question);
        self.say();
    }

    fn clear_incremental_state(&mut self) {
        self.to_say.clear_state = Some(());
        self.say();
    }

    fn is_flushed(&self) -> bool {
        let (question, flush) = self.answer;
        question == self.question && is_reached(self.flushed, flush)
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.scrape(buffers));
    }

    fn stats(&self) -> EndpointStats {
        self.endpoint.borrow_dependent().stats()
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        Some(self.endpoint.borrow_dependent().identity())
    }

    fn packets_dropped(&self, buffer: usize) -> u64 {
        self.dropped.get(buffer).copied().unwrap_or(0)
    }

    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.with_dependent_mut(|_, endpoint| endpoint.disconnect(buffers));
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn end(&mut self) {
        self.link.shut();
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        self.link.shut();
    }
}
