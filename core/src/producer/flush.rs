//! Flushes: asked for, sent, acknowledged.

use super::arbiter::Producer;
use super::atomics::Ordering;
use crate::wrapping::{is_after, is_reached};

impl Producer<'_> {
    /// Sends all there is to send, as [`commit`](Self::commit) does, followed by a flush: for when the service has
    /// asked for what there is, or before the program goes on without a word to it.
    ///
    /// The service acknowledges the number: [`is_flushed`](Self::is_flushed). Never waits: if a writer is sending just
    /// then, that one sends this too. Chunks that are still being written are not completed: a service takes what is
    /// whole in them by [scraping](crate::service::ProducerEndpoint::scrape), and a writer sends its own by
    /// [`TraceWriter::flush`](super::TraceWriter::flush).
    pub fn flush(&self) -> u32 {
        let flush = self.ask_flush();
        self.commit();
        flush
    }

    /// Notes that the service has done all that was asked up to this flush.
    pub fn flushed(&self, flush: u32) {
        let mut seen = self.flush_done.load(Ordering::Relaxed);
        while is_after(flush, seen) {
            match self.flush_done.compare_exchange_weak(seen, flush, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the service has acknowledged a [`TraceWriter::flush`](super::TraceWriter::flush), or a
    /// [`flush`](Self::flush).
    pub fn is_flushed(&self, flush: u32) -> bool {
        is_reached(self.flush_done.load(Ordering::Acquire), flush)
    }

    /// Asks that a flush go out with the next request, and returns its number, never 0.
    pub(crate) fn ask_flush(&self) -> u32 {
        self.next_flush.fetch_add(2, Ordering::Release)
    }
}
