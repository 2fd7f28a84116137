//! The transport of a producer with this crate: it carries out its records, and answers them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tracebuf::producer::Request;
use tracebuf::service::FlushTracker;
use tracebuf::wrapping::is_reached;

use crate::acceptor::NewProducer;
use crate::link::Link;
use crate::native::records::{self, MAX_MESSAGE, producer_message, service_record};
use crate::remote_producer::{DrainTurn, RemoteProducer, remote_transport};
use crate::service_link::{ProducerMessage, ServiceMessage};
use tracebuf_session::limits::BUFFERS_MAX;
use tracebuf_session::{CentralBuffer, Transport};
use tracebuf_sockets::SharedWords;

/// An encoded [welcome](super::welcome), and the file of the shared memory that goes with it.
type WelcomeMessage = (Arc<[u8]>, OwnedFd);

/// Messages to the producer that are not sent yet: first the welcome, then the newest of each kind, which also covers
/// those before it.
#[derive(Default)]
struct UnsentReplies {
    welcome: Option<WelcomeMessage>,
    question: Option<u64>,
    flushed: Option<u32>,
    taken: Option<u64>,
    scraped: Option<u32>,
    clear_state: Option<()>,
}

pub(crate) struct NativeProducer {
    remote: RemoteProducer<ProducerMessage>,
    /// The flush after which to scrape, once that was carried out.
    scrape: Option<u32>,
    unsent: UnsentReplies,
    /// Whether it was looked up in `/proc`. Only then is it welcomed: one that records and ends at once would be gone.
    is_seen: bool,
    dropped: [u64; BUFFERS_MAX],
}

impl NativeProducer {
    pub(crate) fn start(
        newcomer: NewProducer,
        words: SharedWords,
        welcome: WelcomeMessage,
    ) -> io::Result<Self> {
        Ok(Self {
            remote: RemoteProducer::start(newcomer, words, receive(), is_of_new_writer)?,
            scrape: None,
            unsent: UnsentReplies { welcome: Some(welcome), ..UnsentReplies::default() },
            is_seen: false,
            dropped: [0; BUFFERS_MAX],
        })
    }

    fn carry_out(
        &mut self,
        message: ProducerMessage,
        buffers: &mut [CentralBuffer],
        flushes: &mut FlushTracker,
    ) {
        match message {
            ProducerMessage::Request(request) => {
                let flush = self.remote.endpoint.with(|endpoint| endpoint.carry_out_one(&request, buffers));
                if let Some(flush) = flush {
                    flushes.carried_out(flush);
                    self.unsent.flushed = Some(flush);
                }
            }
            ProducerMessage::Answer { question, flush } => {
                // The lower half of one of the last questions.
                let asked = flushes.asked();
                let since = (asked as u32).wrapping_sub(question as u32);
                flushes.answer(asked.saturating_sub(since.into()), Some(flush));
            }
            ProducerMessage::Dropped { buffer, packets } => {
                let most = self.remote.most_packets();
                if let Some(dropped) = self.dropped.get_mut(buffer as usize) {
                    *dropped = dropped.saturating_add(packets).min(most);
                }
            }
            ProducerMessage::Sent(chunks) => self.unsent.taken = Some(chunks),
            ProducerMessage::Scrape(flush) => self.scrape = later(self.scrape, flush),
        }
    }

    /// Sends what the producer takes now, and the rest when this is called again.
    fn send(&mut self) {
        if !self.is_seen {
            return;
        }
        let Self {
            remote: RemoteProducer { link, .. },
            unsent: UnsentReplies { welcome, question, flushed, taken, scraped, clear_state },
            ..
        } = self;
        // The thread that waits for what comes hears of an end of the connection.
        welcome.take_if(|(message, file)| !matches!(link.try_send(message, Some(file)), Ok(false)));
        if welcome.is_some() {
            return;
        }
        let send = |message| {
            service_record(message).is_none_or(|record| !matches!(link.try_send(&record, None), Ok(false)))
        };
        question.take_if(|number| send(ServiceMessage::Question(*number)));
        flushed.take_if(|flush| send(ServiceMessage::Flushed(*flush)));
        taken.take_if(|chunks| send(ServiceMessage::Taken(*chunks)));
        scraped.take_if(|flush| send(ServiceMessage::Scraped(*flush)));
        clear_state.take_if(|()| send(ServiceMessage::ClearState));
    }
}

/// The later of two flushes: threads that do not wait for each other may ask for the earlier one last.
fn later(other: Option<u32>, flush: u32) -> Option<u32> {
    other.filter(|other| is_reached(*other, flush)).or(Some(flush))
}

fn is_of_new_writer(message: &ProducerMessage) -> bool {
    matches!(message, ProducerMessage::Request(Request::Register { .. }))
}

fn receive() -> impl FnMut(&Link) -> Option<Vec<ProducerMessage>> {
    let mut message = [0; MAX_MESSAGE];
    move |link| records::receive(link, &mut message)?.iter().map(|record| producer_message(*record)).collect()
}

impl Transport for NativeProducer {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        let mut turn = DrainTurn::begin();
        while let Some(message) = self.remote.take(&mut turn) {
            // The first is empty.
            if std::mem::replace(&mut self.is_seen, true) {
                self.remote.speaks();
            }
            message.into_iter().for_each(|message| self.carry_out(message, buffers, flushes));
        }
        // Once, however often it is wanted.
        if let Some(flush) = self.scrape.take_if(|flush| flushes.is_carried_out(*flush)) {
            self.scrape(buffers);
            self.unsent.scraped = later(self.unsent.scraped, flush);
        }
        self.remote.end_if_silent();
        self.send();
    }

    fn ask_flush(&mut self, question: u64) {
        self.unsent.question = Some(question);
        self.send();
    }

    fn clear_incremental_state(&mut self) {
        self.unsent.clear_state = Some(());
        self.send();
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.remote.endpoint.with(|endpoint| endpoint.scrape(buffers));
    }

    fn scrape_rests(&mut self, buffers: &mut [CentralBuffer]) {
        self.remote.endpoint.with(|endpoint| endpoint.scrape_rests(buffers));
    }

    fn packets_dropped(&self, buffer: usize) -> u64 {
        self.dropped.get(buffer).copied().unwrap_or(0)
    }

    remote_transport!();
}
