//! Records of 16 bytes, many to a message, in which producer and service speak to each other.

use std::io;

use tracebuf::producer::Request;

use crate::link::Link;
use crate::service_link::{MessageReceiver, MessageSender, ProducerMessage, ServiceMessage};
use tracebuf_session::parts::Wait;

pub(crate) const RECORD: usize = Request::BYTES;
/// Bytes of the longest message: 256 records.
pub(crate) const MAX_MESSAGE: usize = 256 * RECORD;

// The tags of requests are 1 to 5.
const ANSWER: u8 = 0x10;
const DROPPED: u8 = 0x11;
const SENT: u8 = 0x12;
const SCRAPE: u8 = 0x13;
const QUESTION: u8 = 0x20;
const FLUSHED: u8 = 0x21;
const TAKEN: u8 = 0x22;
const SCRAPED: u8 = 0x23;
const CLEAR_STATE: u8 = 0x24;

/// A record that is no request: what it is, and two numbers.
fn join(tag: u8, short: u32, long: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[0] = tag;
    record[4..8].copy_from_slice(&short.to_le_bytes());
    record[8..].copy_from_slice(&long.to_le_bytes());
    record
}

fn split(record: [u8; RECORD]) -> (u8, u32, u64) {
    let [tag, _, _, _, a, b, c, d, long @ ..] = record;
    (tag, u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(long))
}

/// Encodes a producer's message, with the lower half of a question's number.
fn producer_record(message: ProducerMessage) -> [u8; RECORD] {
    match message {
        ProducerMessage::Request(request) => request.to_bytes(),
        ProducerMessage::Answer { question, flush } => join(ANSWER, question as u32, flush.into()),
        ProducerMessage::Dropped { buffer, packets } => join(DROPPED, buffer, packets),
        ProducerMessage::Sent(chunks) => join(SENT, 0, chunks),
        ProducerMessage::Scrape(flush) => join(SCRAPE, flush, 0),
    }
}

/// Decodes it; `None` for anything else.
pub(crate) fn producer_message(record: [u8; RECORD]) -> Option<ProducerMessage> {
    let message = match split(record) {
        (ANSWER, question, flush) => {
            ProducerMessage::Answer { question: question.into(), flush: flush as u32 }
        }
        (DROPPED, buffer, packets) => ProducerMessage::Dropped { buffer, packets },
        (SENT, _, chunks) => ProducerMessage::Sent(chunks),
        (SCRAPE, flush, _) => ProducerMessage::Scrape(flush),
        _ => ProducerMessage::Request(Request::from_bytes(record)?),
    };
    (producer_record(message) == record).then_some(message)
}

/// Encodes a service's message, whose question is a number of 32 bits; `None` for what this protocol does not say.
pub(crate) fn service_record(message: ServiceMessage) -> Option<[u8; RECORD]> {
    Some(match message {
        ServiceMessage::Question(question) => join(QUESTION, question as u32, 0),
        ServiceMessage::Flushed(flush) => join(FLUSHED, flush, 0),
        ServiceMessage::Taken(chunks) => join(TAKEN, 0, chunks),
        ServiceMessage::Scraped(flush) => join(SCRAPED, flush, 0),
        ServiceMessage::ClearState => join(CLEAR_STATE, 0, 0),
        ServiceMessage::Stop | ServiceMessage::ToAnswer => return None,
    })
}

/// Decodes it; `None` for anything else. The question is not 0.
fn service_message(record: [u8; RECORD]) -> Option<ServiceMessage> {
    /// Added to a question's number.
    const ASKED: u64 = 1 << 32;
    let message = match split(record) {
        (QUESTION, number, _) => ServiceMessage::Question(ASKED | u64::from(number)),
        (FLUSHED, flush, _) => ServiceMessage::Flushed(flush),
        (TAKEN, _, chunks) => ServiceMessage::Taken(chunks),
        (SCRAPED, flush, _) => ServiceMessage::Scraped(flush),
        (CLEAR_STATE, ..) => ServiceMessage::ClearState,
        _ => return None,
    };
    (service_record(message)? == record).then_some(message)
}

/// Waits for a message, and returns its records; `None` once the connection has ended, or for something else.
pub(crate) fn receive<'m>(link: &Link, message: &'m mut [u8; MAX_MESSAGE]) -> Option<&'m [[u8; RECORD]]> {
    let len = link.receive(message).ok().filter(|len| *len != 0)?;
    records(message.get(..len)?)
}

/// `None` for a message that is not a whole number of them.
fn records(message: &[u8]) -> Option<&[[u8; RECORD]]> {
    let (records, rest) = message.as_chunks();
    rest.is_empty().then_some(records)
}

#[derive(Default)]
pub(crate) struct RecordSender(Vec<u8>);

impl RecordSender {
    /// One that first says that it is there: a service [does not wait](crate::remote_producer) for long to hear
    /// something. Nothing was lost so far, which changes nothing.
    pub(crate) fn greeting() -> Self {
        let mut sender = Self::default();
        sender.push(ProducerMessage::Dropped { buffer: 0, packets: 0 });
        sender
    }
}

impl MessageSender for RecordSender {
    fn push(&mut self, message: ProducerMessage) {
        self.0.extend(producer_record(message));
    }

    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool> {
        let send = |message: &[u8]| match wait {
            Wait::UntilDone => link.send_some(message).map(|_| true),
            Wait::Now => link.try_send(message, None),
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

pub(crate) struct RecordReceiver([u8; MAX_MESSAGE]);

impl RecordReceiver {
    pub(crate) const fn new() -> Self {
        Self([0; MAX_MESSAGE])
    }
}

impl MessageReceiver for RecordReceiver {
    fn receive(&mut self, link: &Link, act: &mut dyn FnMut(ServiceMessage)) -> Option<()> {
        receive(link, &mut self.0)?.iter().try_for_each(|record| {
            act(service_message(*record)?);
            Some(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        let from_producer = [
            ProducerMessage::Request(Request::Unregister { writer_id: 7 }),
            ProducerMessage::Answer { question: u32::MAX.into(), flush: u32::MAX - 1 },
            ProducerMessage::Dropped { buffer: 31, packets: u64::MAX },
            ProducerMessage::Sent(1 << 40),
            ProducerMessage::Scrape(9),
        ];
        for message in from_producer {
            let mut bytes = producer_record(message);
            assert_eq!(producer_message(bytes), Some(message));
            assert_eq!(service_message(bytes), None);
            bytes[1] = 9;
            assert_eq!(producer_message(bytes), None);
        }
        let from_service = [
            ServiceMessage::Question(1 << 32 | 7),
            ServiceMessage::Flushed(3),
            ServiceMessage::Taken(1 << 40),
            ServiceMessage::Scraped(9),
            ServiceMessage::ClearState,
        ];
        for message in from_service {
            let mut bytes = service_record(message).expect("one of this protocol");
            assert_eq!(service_message(bytes), Some(message));
            assert_eq!(producer_message(bytes), None);
            bytes[3] = 9;
            assert_eq!(service_message(bytes), None);
        }
        assert_eq!(producer_message([0; RECORD]), None);
    }

    #[test]
    fn a_message_is_whole_records() {
        assert_eq!(records(&[0; 2 * RECORD]).map(<[_]>::len), Some(2));
        assert_eq!(records(&[0; RECORD - 1]), None);
    }
}
