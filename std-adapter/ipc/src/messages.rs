//! What producer and service send each other: records of 16 bytes, many to a message.

use tracebuf::producer::Request;

/// Bytes of a record.
pub(super) const RECORD: usize = Request::BYTES;
/// Bytes of the longest message: 256 records.
pub(super) const MAX_MESSAGE: usize = 256 * RECORD;

/// A record from a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FromProducer {
    Request(Request),
    /// To a question of the service: everything that was complete then has come once this flush was carried out.
    Answer {
        question: u32,
        flush: u32,
    },
    /// This many packets for a buffer were given up since the last such record, and nothing in shared memory tells of
    /// them.
    Dropped {
        buffer: u32,
        packets: u64,
    },
    /// This many chunks were sent in all; the service is to repeat the number once they were taken.
    Sent(u64),
    /// Also wants what is in incomplete chunks, once this flush was carried out; the service is to say when that is
    /// done.
    Scrape(u32),
}

/// A record from a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FromService {
    /// Wants everything that is complete, and the question answered.
    Question(u32),
    /// Has carried out everything up to this flush.
    Flushed(u32),
    /// Has taken this many chunks.
    Taken(u64),
    /// Has scraped after this flush.
    Scraped(u32),
    /// Wants writers to repeat their state.
    ClearState,
}

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

impl FromProducer {
    pub(super) fn to_bytes(self) -> [u8; RECORD] {
        match self {
            Self::Request(request) => request.to_bytes(),
            Self::Answer { question, flush } => join(ANSWER, question, flush.into()),
            Self::Dropped { buffer, packets } => join(DROPPED, buffer, packets),
            Self::Sent(chunks) => join(SENT, 0, chunks),
            Self::Scrape(flush) => join(SCRAPE, flush, 0),
        }
    }

    /// `None` for anything else.
    pub(super) fn from_bytes(record: [u8; RECORD]) -> Option<Self> {
        let message = match split(record) {
            (ANSWER, question, flush) => Self::Answer { question, flush: flush as u32 },
            (DROPPED, buffer, packets) => Self::Dropped { buffer, packets },
            (SENT, _, chunks) => Self::Sent(chunks),
            (SCRAPE, flush, _) => Self::Scrape(flush),
            _ => Self::Request(Request::from_bytes(record)?),
        };
        (message.to_bytes() == record).then_some(message)
    }
}

impl FromService {
    pub(super) fn to_bytes(self) -> [u8; RECORD] {
        match self {
            Self::Question(number) => join(QUESTION, number, 0),
            Self::Flushed(flush) => join(FLUSHED, flush, 0),
            Self::Taken(chunks) => join(TAKEN, 0, chunks),
            Self::Scraped(flush) => join(SCRAPED, flush, 0),
            Self::ClearState => join(CLEAR_STATE, 0, 0),
        }
    }

    pub(super) fn from_bytes(record: [u8; RECORD]) -> Option<Self> {
        let message = match split(record) {
            (QUESTION, number, _) => Self::Question(number),
            (FLUSHED, flush, _) => Self::Flushed(flush),
            (TAKEN, _, chunks) => Self::Taken(chunks),
            (SCRAPED, flush, _) => Self::Scraped(flush),
            (CLEAR_STATE, ..) => Self::ClearState,
            _ => return None,
        };
        (message.to_bytes() == record).then_some(message)
    }
}

/// Whether `flushed` is this flush or a later one: their numbers wrap around.
pub(super) fn is_reached(flushed: u32, flush: u32) -> bool {
    (flushed.wrapping_sub(flush) as i32) >= 0
}

/// The records of a message; `None` for one that is not a whole number of them.
pub(super) fn records(message: &[u8]) -> Option<&[[u8; RECORD]]> {
    let (records, rest) = message.as_chunks();
    rest.is_empty().then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        let from_producer = [
            FromProducer::Request(Request::Unregister { writer_id: 7 }),
            FromProducer::Answer { question: u32::MAX, flush: u32::MAX - 1 },
            FromProducer::Dropped { buffer: 31, packets: u64::MAX },
            FromProducer::Sent(1 << 40),
            FromProducer::Scrape(9),
        ];
        for message in from_producer {
            let mut bytes = message.to_bytes();
            assert_eq!(FromProducer::from_bytes(bytes), Some(message));
            assert_eq!(FromService::from_bytes(bytes), None);
            bytes[1] = 9;
            assert_eq!(FromProducer::from_bytes(bytes), None);
        }
        let from_service = [
            FromService::Question(u32::MAX),
            FromService::Flushed(3),
            FromService::Taken(1 << 40),
            FromService::Scraped(9),
            FromService::ClearState,
        ];
        for message in from_service {
            let mut bytes = message.to_bytes();
            assert_eq!(FromService::from_bytes(bytes), Some(message));
            assert_eq!(FromProducer::from_bytes(bytes), None);
            bytes[3] = 9;
            assert_eq!(FromService::from_bytes(bytes), None);
        }
        assert_eq!(FromProducer::from_bytes([0; RECORD]), None);
    }

    #[test]
    fn a_message_is_whole_records() {
        assert_eq!(records(&[0; 2 * RECORD]).map(<[_]>::len), Some(2));
        assert_eq!(records(&[0; RECORD - 1]), None);
    }
}
