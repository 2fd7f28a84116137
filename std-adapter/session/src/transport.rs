//! Transports: the ways by which producers' chunks reach a session.

use tracebuf::buffer::TraceBuffer;
use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};

use crate::region_file::BufferMemory;

/// A central buffer of a session.
pub type CentralBuffer = TraceBuffer<BufferMemory>;

/// The session's end of one producer, wherever the producer runs. A
/// [`ProducerEndpoint`](tracebuf::service::ProducerEndpoint) does most of the work; `examples/transport.rs` is a whole
/// transport, over a line of bytes.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader};
/// use tracebuf::service::{EndpointStats, FlushTracker};
/// use tracebuf_session::{CentralBuffer, Session, Transport};
///
/// /// A producer that says one thing.
/// struct Once(bool);
/// impl Transport for Once {
///     fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
///         flushes.answer_all();
///         if std::mem::replace(&mut self.0, true) {
///             return;
///         }
///         let header = ChunkHeader { producer_id: 2, writer_id: 1, fragments: 1, ..Default::default() };
///         buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" }); // timestamp 5
///     }
///     fn ask_flush(&mut self, _: u64) {}
///     fn scrape(&mut self, _: &mut [CentralBuffer]) {}
///     fn stats(&self) -> EndpointStats { EndpointStats::default() }
/// }
///
/// let session = Session::builder().start()?;
/// session.attach(Once(false))?;
/// session.flush(std::time::Duration::from_secs(1))?;
/// assert_eq!(session.summary()?.sequences[0].producer_id, Session::OWN_PRODUCER_ID + 1);
/// session.stop()?;
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// All calls come from the session's drain thread, one at a time, and must not block. A panic ends the session.
///
/// # The producer's number
/// Each transport needs a number of its own, from [`Session::new_producer_id`](crate::Session::new_producer_id). Chunks
/// of two producers that share one are taken for each other's, even if the first has gone: it is free again when no
/// buffer has a sequence of it in its [table](crate::BufferConfig::sequences).
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
/// 2. In the producer's process the thread that listens calls [`Producer::flush`](tracebuf::producer::Producer::flush).
///    Its request comes after those for all that was complete. Then that thread answers with both numbers, the question's
///    and the flush's.
/// 3. [`drain`](Self::drain) tells the [`FlushTracker`] of the answer, and of each flush that was [carried
///    out](tracebuf::service::ProducerEndpoint::carry_out_one), in whichever order they come.
/// 4. As after every flush, the service sends its number back for
///    [`Producer::flushed`](tracebuf::producer::Producer::flushed).
///
/// Chunks that threads still write are scraped after the answer. So are those of a producer that does not answer:
/// snapshots and the session's end wait 5 s for it each time.
///
/// # Memory that others can cut short
/// Truncating shared memory in a file that the producer has too, such as a memfd, **ends this process**, by SIGBUS.
/// Let the service make it, and seal it against that (`F_SEAL_SHRINK`) before a producer gets it.
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

    /// Returns who the producer is, for [`Summary::producers`](crate::Summary::producers), and so that no other gets
    /// its number.
    fn identity(&self) -> Option<ProducerIdentity> {
        None
    }

    /// Makes the producer's writers repeat their state (names, clocks, tracks), by
    /// [`Producer::clear_incremental_state`](tracebuf::producer::Producer::clear_incremental_state) there. Called with
    /// each quarter of a ring that several producers have filled: what lies before a writer's oldest state in the ring
    /// cannot be read.
    fn clear_incremental_state(&mut self) {}

    /// Returns how many packets for this buffer were given up without a trace in shared memory.
    fn packets_dropped(&self, _buffer: usize) -> u64 {
        0
    }

    /// Called when the producer is gone: carries out the requests that have come since, copies what the producer has
    /// left, and ends it in the buffers, so that unfinished sequences free their places. By default this only scrapes.
    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        self.scrape(buffers);
    }

    /// Called when the session has ended and takes nothing more. Tell the producer, or its threads go on for nothing,
    /// and wait.
    fn end(&mut self) {}

    /// Returns false once the producer is gone: it is then [disconnected](Self::disconnect), and forgotten.
    fn is_connected(&self) -> bool {
        true
    }
}
