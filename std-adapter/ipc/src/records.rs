//! The protocol with a service of this crate: messages of [records](super::messages).

use std::io;

use tracebuf::producer::Request;

use super::link::Link;
use super::messages::{FromProducer, FromService, MAX_MESSAGE, RECORD, records};
use super::protocol::{MessageReceiver, MessageSender, ServiceMessage};
use tracebuf_session::parts::Wait;

/// Added to a question's number.
const ASKED: u64 = 1 << 32;

/// Records that were not sent yet.
#[derive(Default)]
pub(super) struct RecordSender(Vec<u8>);

impl RecordSender {
    fn push(&mut self, message: FromProducer) {
        self.0.extend(message.to_bytes());
    }
}

impl MessageSender for RecordSender {
    fn request(&mut self, request: Request) {
        self.push(FromProducer::Request(request));
    }

    fn dropped(&mut self, buffer: u32, packets: u64) {
        self.push(FromProducer::Dropped { buffer, packets });
    }

    fn sent(&mut self, chunks: u64) {
        self.push(FromProducer::Sent(chunks));
    }

    fn answer(&mut self, question: u64, flush: u32) {
        self.push(FromProducer::Answer { question: question as u32, flush });
    }

    fn scrape(&mut self, flush: u32) {
        self.push(FromProducer::Scrape(flush));
    }

    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool> {
        let send = |message: &[u8]| match wait {
            Wait::UntilDone => link.send(message).map(|()| true),
            Wait::Now => link.try_send(message),
        };
        let mut messages = self.0.chunks(MAX_MESSAGE);
        while let Some(message) = messages.clone().next() {
            if !send(message)? {
                break;
            }
            messages.next();
        }
        let left = messages.map(<[u8]>::len).sum::<usize>();
        self.0.drain(..self.0.len() - left);
        Ok(left == 0)
    }

    fn end(&mut self, link: &Link) {
        link.shut();
    }
}

/// Takes records out of messages.
pub(super) struct RecordReceiver([u8; MAX_MESSAGE]);

impl RecordReceiver {
    pub(super) const fn new() -> Self {
        Self([0; MAX_MESSAGE])
    }
}

impl MessageReceiver for RecordReceiver {
    fn receive(&mut self, link: &Link, act: &mut dyn FnMut(ServiceMessage)) -> Option<()> {
        let len = link.receive(&mut self.0).ok().filter(|len| *len != 0)?;
        let records: &[[u8; RECORD]] = records(self.0.get(..len)?)?;
        records.iter().try_for_each(|record| {
            act(service_message(FromService::from_bytes(*record)?));
            Some(())
        })
    }
}

fn service_message(message: FromService) -> ServiceMessage {
    match message {
        FromService::Question(number) => ServiceMessage::Question(ASKED | u64::from(number)),
        FromService::Flushed(flush) => ServiceMessage::Flushed(flush),
        FromService::Scraped(flush) => ServiceMessage::Scraped(flush),
        FromService::Taken(chunks) => ServiceMessage::Taken(chunks),
        FromService::ClearState => ServiceMessage::ClearState,
    }
}
