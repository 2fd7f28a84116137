//! How a producer and its service speak: what both kinds of service, and their protocols, have in common.

use std::io;

use tracebuf::producer::Request;

use super::link::Link;
use crate::session::waits::Wait;

/// What a producer says, in words of the protocol. They wait until they are sent.
pub(super) trait Speaking: Send {
    /// The program knows of the connection, and records from here on.
    fn begin(&mut self) {}

    /// Something for shared memory, in the order in which it is to be done.
    fn request(&mut self, request: Request);

    /// So many packets for a buffer were given up since this was said last, of which nothing in shared memory tells.
    fn dropped(&mut self, buffer: u32, packets: u64);

    /// So many chunks were sent ever, and somebody wants to know when they were taken.
    fn sent(&mut self, chunks: u64);

    /// To a [question](Heard::Question): all that was complete then has come once this flush was carried out.
    fn answer(&mut self, question: u64, flush: u32);

    /// What is in chunks that are not complete is wanted too, once this flush was carried out.
    fn scrape(&mut self, flush: u32);

    /// Sends what was said; false if the other end does not take all of it now, and this is not to wait.
    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool>;

    /// Nothing will be said any more: ends the connection, as far as this side does.
    fn end(&mut self, link: &Link);
}

/// What a service says, taken from words of the protocol.
pub(super) trait Hearing: Send {
    /// Waits for a message, and passes on what it says. None once the connection has ended, or what comes is none.
    fn hear(&mut self, link: &Link, act: &mut dyn FnMut(Heard)) -> Option<()>;
}

/// What a service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Wants all that is complete, and this to be answered. Not 0.
    Question(u64),
    /// Has carried out all up to this flush.
    Flushed(u32),
    /// Has what was to be got into its buffers with this flush.
    Scraped(u32),
    /// Has taken so many chunks.
    Taken(u64),
    /// Wants writers to say their state again.
    ClearState,
    /// Wants no more. What there is, is still to be sent.
    Stop,
    /// Something that the side which speaks knows how to answer.
    ToAnswer,
}
