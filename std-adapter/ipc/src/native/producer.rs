//! The transport of a producer with this crate: it carries out its records, and answers them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tracebuf::producer::Request;
use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};
use tracebuf::wrapping::is_reached;

use crate::acceptor::NewProducer;
use crate::link::Link;
use crate::native::records::{MAX_MESSAGE, ProducerRecord, RECORD, records, service_record};
use crate::remote_producer::DrainTurn;
use crate::remote_producer::RemoteProducer;
use crate::service_link::ServiceMessage;
use crate::shared_memory::SharedWords;
use tracebuf_session::limits::BUFFERS_MAX;
use tracebuf_session::{CentralBuffer, Transport};

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

/// The drain thread's end.
pub(crate) struct NativeProducer {
    remote: RemoteProducer<ProducerRecord>,
    /// The flush after which to scrape, once that was carried out.
    scrape: Option<u32>,
    unsent: UnsentReplies,
    /// Whether it was looked up in `/proc`. Only then is it welcomed: one that records and ends at once would be gone.
    is_seen: bool,
    dropped: [u64; BUFFERS_MAX],
}

impl NativeProducer {
    /// Starts a thread that takes what comes.
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
        message: ProducerRecord,
        buffers: &mut [CentralBuffer],
        flushes: &mut FlushTracker,
    ) {
        match message {
            ProducerRecord::Request(request) => {
                let flush = self.remote.endpoint.with(|endpoint| endpoint.carry_out_one(&request, buffers));
                if let Some(flush) = flush {
                    flushes.carried_out(flush);
                    self.unsent.flushed = Some(flush);
                }
            }
            ProducerRecord::Answer { question, flush } => {
                // The lower half of one of the last questions.
                let asked = flushes.asked();
                let since = (asked as u32).wrapping_sub(question);
                flushes.answer(asked.saturating_sub(since.into()), Some(flush));
            }
            ProducerRecord::Dropped { buffer, packets } => {
                if let Some(dropped) = self.dropped.get_mut(buffer as usize) {
                    *dropped = dropped.saturating_add(packets);
                }
            }
            ProducerRecord::Sent(chunks) => self.unsent.taken = Some(chunks),
            // The later one, if threads did not wait for each other.
            ProducerRecord::Scrape(flush) => {
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
            remote: RemoteProducer { link, .. },
            unsent: UnsentReplies { welcome, question, flushed, taken, scraped, clear_state },
            ..
        } = self;
        // The thread that waits for what comes hears of an end of the connection.
        welcome.take_if(|(message, file)| !matches!(link.try_send_with(message, file), Ok(false)));
        if welcome.is_some() {
            return;
        }
        let send = |message| {
            service_record(message).is_none_or(|record| !matches!(link.try_send(&record), Ok(false)))
        };
        question.take_if(|number| send(ServiceMessage::Question(*number)));
        flushed.take_if(|flush| send(ServiceMessage::Flushed(*flush)));
        taken.take_if(|chunks| send(ServiceMessage::Taken(*chunks)));
        scraped.take_if(|flush| send(ServiceMessage::Scraped(*flush)));
        clear_state.take_if(|()| send(ServiceMessage::ClearState));
    }
}

fn is_of_new_writer(message: &ProducerRecord) -> bool {
    matches!(message, ProducerRecord::Request(Request::Register { .. }))
}

/// Takes the messages of a connection apart, until something comes that is none.
fn receive() -> impl FnMut(&Link) -> Option<Vec<ProducerRecord>> {
    let mut message = [0; MAX_MESSAGE];
    move |link| {
        let len = link.receive(&mut message).ok().filter(|len| *len != 0)?;
        let records: &[[u8; RECORD]] = records(message.get(..len)?)?;
        records.iter().map(|record| ProducerRecord::from_bytes(*record)).collect()
    }
}

impl Transport for NativeProducer {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        let mut turn = DrainTurn::begin();
        while let Some(message) = self.remote.incoming.take(&mut turn) {
            self.is_seen = true;
            message.into_iter().for_each(|message| self.carry_out(message, buffers, flushes));
        }
        // Once, however often it is wanted.
        if let Some(flush) = self.scrape.take_if(|flush| flushes.is_carried_out(*flush)) {
            self.scrape(buffers);
            self.unsent.scraped = Some(flush);
        }
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

    fn stats(&self) -> EndpointStats {
        self.remote.endpoint.get().stats()
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        Some(self.remote.endpoint.get().identity())
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
