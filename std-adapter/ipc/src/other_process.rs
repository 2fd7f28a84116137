//! The transport of another process: memory shared with it, requests in messages.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tracebuf::producer::Request;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use super::incoming::Turn;
use super::link::Link;
use super::listening::Newcomer;
use super::messages::{FromProducer, FromService, MAX_MESSAGE, RECORD, is_reached, records};
use super::remote::Remote;
use super::shared_words::SharedWords;
use tracebuf_session::limits::BUFFERS_MAX;
use tracebuf_session::{CentralBuffer, Transport};

/// A [welcome](super::welcome), and a file of the shared memory that goes with it.
type Welcome = (Arc<[u8]>, OwnedFd);

/// Messages to the producer that are not sent yet: first the welcome, then the newest of each kind, which also covers
/// those before it.
#[derive(Default)]
struct Unsent {
    welcome: Option<Welcome>,
    question: Option<u32>,
    flushed: Option<u32>,
    taken: Option<u64>,
    scraped: Option<u32>,
    clear_state: Option<()>,
}

/// The drain thread's end.
pub(super) struct OtherProcess {
    remote: Remote<FromProducer>,
    /// The number of the last question, and the last answer: to which question it is, and after which flush it holds.
    question: u32,
    answer: (u32, u32),
    /// The last flush that was carried out.
    flushed: u32,
    /// The flush after which to scrape, once that was carried out.
    scrape: Option<u32>,
    unsent: Unsent,
    /// Whether it was looked at, in `/proc`. Only then is it welcomed: otherwise one that records and
    /// ends at once would be gone.
    is_seen: bool,
    dropped: [u64; BUFFERS_MAX],
}

impl OtherProcess {
    /// Starts a thread that takes what comes.
    pub(super) fn start(newcomer: Newcomer, words: SharedWords, welcome: Welcome) -> io::Result<Self> {
        Ok(Self {
            remote: Remote::start(newcomer, words, receive(), is_of_new_writer)?,
            question: 0,
            answer: (0, 0),
            flushed: 0,
            scrape: None,
            unsent: Unsent { welcome: Some(welcome), ..Unsent::default() },
            is_seen: false,
            dropped: [0; BUFFERS_MAX],
        })
    }

    fn carry_out(&mut self, message: FromProducer, buffers: &mut [CentralBuffer]) {
        match message {
            FromProducer::Request(request) => {
                let flush = self.remote.endpoint.with(|endpoint| endpoint.carry_out_one(&request, buffers));
                if let Some(flush) = flush {
                    self.flushed = flush;
                    self.unsent.flushed = Some(flush);
                }
            }
            FromProducer::Answer { question, flush } => self.answer = (question, flush),
            FromProducer::Dropped { buffer, packets } => {
                if let Some(dropped) = self.dropped.get_mut(buffer as usize) {
                    *dropped = dropped.saturating_add(packets);
                }
            }
            FromProducer::Sent(chunks) => self.unsent.taken = Some(chunks),
            // The later one, if threads did not wait for each other.
            FromProducer::Scrape(flush) => {
                self.scrape = self.scrape.filter(|later| is_reached(*later, flush)).or(Some(flush));
            }
        }
    }

    /// Sends what the producer takes now, and the rest when this is called again.
    fn send(&mut self) {
        if !self.is_seen {
            return;
        }
        let Self {
            remote: Remote { link, .. },
            unsent: Unsent { welcome, question, flushed, taken, scraped, clear_state },
            ..
        } = self;
        // The thread that waits for what comes hears of an end of the connection.
        welcome.take_if(|(message, file)| !matches!(link.try_send_with(message, file), Ok(false)));
        if welcome.is_some() {
            return;
        }
        let send = |message: FromService| !matches!(link.try_send(&message.to_bytes()), Ok(false));
        question.take_if(|number| send(FromService::Question(*number)));
        flushed.take_if(|flush| send(FromService::Flushed(*flush)));
        taken.take_if(|chunks| send(FromService::Taken(*chunks)));
        scraped.take_if(|flush| send(FromService::Scraped(*flush)));
        clear_state.take_if(|()| send(FromService::ClearState));
    }
}

fn is_of_new_writer(message: &FromProducer) -> bool {
    matches!(message, FromProducer::Request(Request::Register { .. }))
}

/// Takes the messages of a connection apart, until something comes that is none.
fn receive() -> impl FnMut(&Link) -> Option<Vec<FromProducer>> {
    let mut message = [0; MAX_MESSAGE];
    move |link| {
        let len = link.receive(&mut message).ok().filter(|len| *len != 0)?;
        let records: &[[u8; RECORD]] = records(message.get(..len)?)?;
        records.iter().map(|record| FromProducer::from_bytes(*record)).collect()
    }
}

impl Transport for OtherProcess {
    fn drain(&mut self, buffers: &mut [CentralBuffer]) {
        let mut turn = Turn::begin();
        while let Some(message) = self.remote.incoming.take(&mut turn) {
            self.is_seen = true;
            message.into_iter().for_each(|message| self.carry_out(message, buffers));
        }
        // Once, however often it is wanted.
        let flushed = self.flushed;
        if let Some(flush) = self.scrape.take_if(|flush| is_reached(flushed, *flush)) {
            self.scrape(buffers);
            self.unsent.scraped = Some(flush);
        }
        self.send();
    }

    fn ask_flush(&mut self) {
        self.question = self.question.wrapping_add(1);
        self.unsent.question = Some(self.question);
        self.send();
    }

    fn clear_incremental_state(&mut self) {
        self.unsent.clear_state = Some(());
        self.send();
    }

    fn is_flushed(&self) -> bool {
        let (question, flush) = self.answer;
        question == self.question && is_reached(self.flushed, flush)
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.remote.endpoint.with(|endpoint| endpoint.scrape(buffers));
    }

    fn stats(&self) -> EndpointStats {
        self.remote.endpoint.stats()
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        Some(self.remote.endpoint.identity())
    }

    fn packets_dropped(&self, buffer: usize) -> u64 {
        self.dropped.get(buffer).copied().unwrap_or(0)
    }

    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        self.remote.endpoint.with(|endpoint| endpoint.disconnect(buffers));
    }

    fn is_connected(&self) -> bool {
        self.remote.incoming.is_open()
    }

    fn end(&mut self) {
        self.remote.end();
    }
}
