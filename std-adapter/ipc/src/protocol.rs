//! Messages between a producer and its service: what both kinds of service, and their protocols, have in common.

use std::io;

use tracebuf::producer::Request;

use super::link::Link;
use tracebuf_session::parts::Wait;

/// Encodes a producer's messages in one of the protocols, and keeps them until they are sent.
pub(super) trait MessageSender: Send {
    /// The program knows of the connection, and records from here on.
    fn begin(&mut self) {}

    /// A request about shared memory, in the order in which they are to be carried out.
    fn request(&mut self, request: Request);

    /// This many packets for a buffer were given up since the last call, and nothing in shared memory tells of them.
    fn dropped(&mut self, buffer: u32, packets: u64);

    /// This many chunks were sent in all, and threads want to know when they were taken.
    fn sent(&mut self, chunks: u64);

    /// Answers a [question](ServiceMessage::Question): everything that was complete then has come once this flush was carried
    /// out.
    fn answer(&mut self, question: u64, flush: u32);

    /// Also asks for what is in incomplete chunks, once this flush was carried out.
    fn scrape(&mut self, flush: u32);

    /// Sends what is kept; false if the other end does not take all of it now, and this is not to wait.
    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool>;

    /// There will be no more messages: ends the connection, as far as this side does.
    fn end(&mut self, link: &Link);
}

/// Decodes a service's messages in one of the protocols.
pub(super) trait MessageReceiver: Send {
    /// Waits for a message, and passes on what is in it. `None` once the connection has ended, or for something that is
    /// no message.
    fn receive(&mut self, link: &Link, act: &mut dyn FnMut(ServiceMessage)) -> Option<()>;
}

/// A service's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceMessage {
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
