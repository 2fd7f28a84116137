//! Transports: the ways by which producers' chunks reach a session.

use tracebuf::buffer::TraceBuffer;
use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};

use crate::carry_over::CarryOver;
use crate::region_file::BufferMemory;

/// A central buffer of a session, which keeps what its overwritten packets mean for the others.
pub type CentralBuffer = TraceBuffer<BufferMemory, CarryOver>;

/// The session's end of one producer, wherever the producer runs. A
/// [`ProducerEndpoint`](tracebuf::service::ProducerEndpoint) does most of the work; `examples/transport.rs` is a whole
/// transport, over a line of bytes.
///
/// Both ends see one shared memory. Over a network they do not: send each chunk's bytes too, and commit them with
/// [`TraceBuffer::commit_with`]. The producer's end implements [`CommitSink`](tracebuf::producer::CommitSink).
///
/// All calls come from the session's drain thread, one at a time, and must not block. A panic ends the session.
///
/// # The producer's number
/// Each transport needs a number of its own, from [`Session::new_producer_id`](crate::Session::new_producer_id). It is
/// free again when no buffer has a sequence of it in its [table](crate::BufferConfig::sequences).
///
/// # What is called when
/// When the thread wakes, and between its tasks: [`drain`](Self::drain), then [`is_connected`](Self::is_connected).
/// Once that is false, [`disconnect`](Self::disconnect), [`stats`](Self::stats) and
/// [`packets_dropped`](Self::packets_dropped) follow, and the transport is dropped. A session that stops flushes and
/// scrapes the others, calls [`end`](Self::end), and drops them with [`Stopped`](crate::Stopped).
///
/// Requests may come after the last `drain`. Carry them out in `disconnect` before anything else. Otherwise patches are
/// lost, with the packets that wait for them, and all chunks of writers whose registration was among the requests.
///
/// # How a producer answers a flush
/// 1. [`ask_flush`](Self::ask_flush) sends a question, which is a number, and does not wait.
/// 2. In the producer's process the thread that listens calls [`Producer::flush`](tracebuf::producer::Producer::flush),
///    whose request comes after those for all that was complete, and answers with both numbers.
/// 3. [`drain`](Self::drain) tells the [`FlushTracker`] of the answer, and of each flush that was [carried
///    out](tracebuf::service::ProducerEndpoint::carry_out_one), in whichever order they come.
/// 4. As after every flush, the service sends its number back for
///    [`Producer::flushed`](tracebuf::producer::Producer::flushed).
///
/// What threads still write is scraped after the answer, or after 5 s in vain.
///
/// Truncating shared memory in a file that the producer has too **ends this process**, by SIGBUS: let the service make
/// it, and seal it (`F_SEAL_SHRINK`) first.
pub trait Transport: Send {
    /// Carries out the requests that have come, and tells `flushes` of the answers and flushes among them. When more
    /// come, wake the drain thread with [`Waker::wake`](crate::Waker::wake); by itself it looks once a second.
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker);

    /// Sends the producer this question: for each flush, and once a second for buffers in files, unless it has yet to
    /// answer. If the line is full, only the newest need be sent later.
    fn ask_flush(&mut self, question: u64);

    /// Copies what lies in shared memory and was not sent.
    fn scrape(&mut self, buffers: &mut [CentralBuffer]);

    /// What happened before the buffers.
    fn stats(&self) -> EndpointStats;

    /// Returns who the producer is, so that no other gets its number.
    fn identity(&self) -> Option<ProducerIdentity> {
        None
    }

    /// Makes the producer's writers repeat their names, clocks and tracks, by
    /// [`Producer::clear_incremental_state`](tracebuf::producer::Producer::clear_incremental_state) there.
    fn clear_incremental_state(&mut self) {}

    /// Returns how many packets for this buffer were given up without a trace in shared memory.
    fn packets_dropped(&self, _buffer: usize) -> u64 {
        0
    }

    /// Called when the producer is gone: carries out the requests that have come since, copies what the producer has
    /// left, and ends it in the buffers. By default this only scrapes.
    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        self.scrape(buffers);
    }

    /// Called when the session has ended. Tell the producer, or its threads go on for nothing, and wait.
    fn end(&mut self) {}

    /// Returns false once the producer is gone: it is then [disconnected](Self::disconnect), and forgotten.
    fn is_connected(&self) -> bool {
        true
    }
}
