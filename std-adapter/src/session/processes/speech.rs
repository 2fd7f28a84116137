//! How a producer and its service speak: what both kinds of service, and their protocols, have in common.

use std::io;

use tracebuf::producer::Request;

use super::link::Link;
use crate::session::waits::Wait;

/// What a producer says, in either protocol. It is kept until it is sent.
pub(super) trait Speaking: Send {
    /// The program knows of the connection, and records from here on.
    fn begin(&mut self) {}

    /// A request about shared memory, in the order in which they are to be carried out.
    fn request(&mut self, request: Request);

    /// This many packets for a buffer were given up since the last call, and nothing in shared memory tells of them.
    fn dropped(&mut self, buffer: u32, packets: u64);

    /// This many chunks were sent in all, and threads want to know when they were taken.
    fn sent(&mut self, chunks: u64);

    /// Answers a [question](Heard::Question): everything that was complete then has come once this flush was carried
    /// out.
    fn answer(&mut self, question: u64, flush: u32);

    /// Also asks for what is in incomplete chunks, once this flush was carried out.
    fn scrape(&mut self, flush: u32);

    /// Sends what was said; false if the other end does not take all of it now, and this is not to wait.
    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool>;

    /// Nothing more will be said: ends the connection, as far as this side does.
    fn end(&mut self, link: &Link);
}

/// What a service says, in either protocol.
pub(super) trait Hearing: Send {
    /// Waits for a message, and passes on what it says. `None` once the connection has ended, or for something that is
    /// no message.
    fn hear(&mut self, link: &Link, act: &mut dyn FnMut(Heard)) -> Option<()>;
}

/// What a service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
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
    /// Something that the speaking side knows how to answer.
    ToAnswer,
}
