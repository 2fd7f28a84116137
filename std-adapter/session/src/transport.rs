//! How chunks of a producer reach a session: [`Transport`].

use tracebuf::buffer::TraceBuffer;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use crate::region_file::BufferMemory;

/// A central buffer of a session.
pub type CentralBuffer = TraceBuffer<BufferMemory>;

/// The session's end of one producer, wherever the producer runs.
///
/// A sequence is a pair of producer and writer, so each transport needs a producer number of its own, whatever its
/// process says of itself: not 0, and not [`OWN_PRODUCER_ID`](super::Session::OWN_PRODUCER_ID), 1, which is that of
/// this process's threads. Chunks of two producers that share a number would be taken for each other's, even if the
/// first has gone long before the second comes: a number may be used again only when no buffer has a sequence of it in
/// its table any more, which is long after all of it was read; [`Summary::sequences`](super::Summary::sequences) lists
/// these. [`Session::new_producer_id`](super::Session::new_producer_id) gives numbers for which that is so.
///
/// All producers together share the sequences of each buffer, 1,024 unless [set
/// otherwise](super::BufferConfig::sequences). If each of those has chunks in a ring, a newcomer's first chunk costs
/// one of them its place, and its chunks: the one that has been silent for the longest
/// ([`make_place`](tracebuf::buffer::TraceBuffer::make_place), which an endpoint calls). In a buffer that discards,
/// chunks of newcomers are refused, and counted as [`chunks_refused`](tracebuf::buffer::BufferStats::chunks_refused).
///
/// A [`ProducerEndpoint`](tracebuf::service::ProducerEndpoint) does most of the work. It borrows the producer's shared
/// memory: the crate `self_cell`, for instance, makes one value of both. For a whole transport, over a line of bytes,
/// see `std-adapter/examples/transport.rs`.
///
/// All calls come from the session's drain thread, one at a time, and must not block. The threads of this process come
/// through one transport, which every session has; programs in other processes on this machine come through those that
/// a `ProducerSocket` or a `PerfettoSocket` makes, where these exist. Give any other one to
/// [`Session::attach`](super::Session::attach). A panic ends the session: recorders record nothing from then on, and
/// calls return [`SessionError::Stopped`](super::SessionError::Stopped).
///
/// # What is called when
/// When the thread wakes, and between everything that it is asked for: [`drain`](Self::drain), and then
/// [`is_connected`](Self::is_connected). Once that is false, [`disconnect`](Self::disconnect), [`stats`](Self::stats)
/// and [`packets_dropped`](Self::packets_dropped) follow at once, and nothing more: the transport is dropped.
///
/// Requests may come after the last `drain`, and the connection may end after them. So carry them out in `disconnect`
/// before anything else, or stay connected until none is left. If they are left out, patches are lost, and with them
/// the packets that wait for these, and all chunks of writers whose registration was among them.
///
/// A session that stops flushes and scrapes the transports that are still connected, and calls [`end`](Self::end). It
/// does not disconnect them: they are dropped with what is left of it, [`Stopped`](super::Stopped).
///
/// # How a producer answers a flush
/// 1. [`ask_flush`](Self::ask_flush) sends a question with a number of the service's own, and does not wait.
/// 2. In the producer's process the thread that listens to the service calls
///    [`Producer::flush`](tracebuf::producer::Producer::flush). Its request comes as all others do, after those for
///    all that was complete. Then that thread answers with both numbers, the question's and the flush's.
/// 3. [`is_flushed`](Self::is_flushed) is true when the last question is answered, and the flush that the answer names,
///    or a later one, was [carried out](tracebuf::service::ProducerEndpoint::carry_out_one).
/// 4. As after every flush, the service sends its number back for
///    [`Producer::flushed`](tracebuf::producer::Producer::flushed).
///
/// A flush that comes without such an answer may be one that a thread had asked for before, and an answer without a
/// flush may overtake chunks and patches that another thread is just sending. Chunks that threads still write are not
/// completed: what is whole in them is scraped after the answer. The same goes for a producer that does not answer:
/// snapshots and the end of a session, and nothing else, wait for it, 5 s each time; the flush counts as failed.
///
/// # Memory that others can cut short
/// Shared memory in a file that the producer has too, such as a memfd, is memory of this process: **truncating it ends
/// the process**, by SIGBUS. So let the service make it, and seal it against that (`F_SEAL_SHRINK`) before a producer
/// gets it; and take none from a producer that is not sealed so.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader};
/// use tracebuf::service::EndpointStats;
/// use tracebuf_session::{CentralBuffer, Session, Transport};
///
/// /// A producer that says one thing.
/// struct Once(bool);
/// impl Transport for Once {
///     fn drain(&mut self, buffers: &mut [CentralBuffer]) {
///         if std::mem::replace(&mut self.0, true) {
///             return;
///         }
///         let header = ChunkHeader { producer_id: 2, writer_id: 1, fragments: 1, ..Default::default() };
///         buffers[0].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" }); // timestamp 5
///     }
///     fn ask_flush(&mut self) {}
///     fn is_flushed(&self) -> bool { true }
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
pub trait Transport: Send {
    /// Carries out the requests that have come. When more come, wake the drain thread with
    /// [`Waker::wake`](super::Waker::wake); by itself it looks once a second.
    fn drain(&mut self, buffers: &mut [CentralBuffer]);

    /// Asks the producer to send what it has: for a flush, and for buffers in files once a second, unless it has yet to
    /// answer. Nor is it asked for a flush while another one waits for its answer, but after that: however many flushes
    /// there are, a slow producer answers them. See [how it answers](Transport#how-a-producer-answers-a-flush) above.
    fn ask_flush(&mut self);

    /// Whether everything that was last asked for has come.
    fn is_flushed(&self) -> bool;

    /// Copies what lies in shared memory and was not sent.
    fn scrape(&mut self, buffers: &mut [CentralBuffer]);

    /// What happened before the buffers.
    fn stats(&self) -> EndpointStats;

    /// Who the producer is, for [`Summary::producers`](super::Summary::producers).
    /// [`Session::new_producer_id`](super::Session::new_producer_id) then gives its number to no other while this one
    /// is attached. Without it, the number of a silent producer may be given again once all others were.
    fn identity(&self) -> Option<ProducerIdentity> {
        None
    }

    /// Makes the producer's writers repeat their state, that is names, clocks and tracks, by
    /// [`Producer::clear_incremental_state`](tracebuf::producer::Producer::clear_incremental_state) there. Called with
    /// each quarter of a ring that several producers have filled: a tracer sees only what its own producer records, and
    /// what lies before the oldest state of a writer in the ring cannot be read.
    fn clear_incremental_state(&mut self) {}

    /// Packets for the buffer of this number that were given up, and that nothing in shared memory tells of; see
    /// [`CommitSink::packet_dropped`](tracebuf::producer::CommitSink::packet_dropped).
    fn packets_dropped(&self, _buffer: usize) -> u64 {
        0
    }

    /// Carries out the requests that have come since the last [`drain`](Self::drain), copies what the producer, which
    /// is gone, has left, and ends it in the buffers: otherwise what it did not finish keeps its sequences' places in
    /// the table from others. A [`ProducerEndpoint`](tracebuf::service::ProducerEndpoint) does the last two. By default
    /// this only scrapes.
    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        self.scrape(buffers);
    }

    /// The session has ended: nothing is taken any more. Tell the producer, or its threads would go on for nothing, and
    /// wait.
    fn end(&mut self) {}

    /// False once the producer is gone: it is then [disconnected](Self::disconnect), and forgotten. Called after each
    /// [`drain`](Self::drain).
    fn is_connected(&self) -> bool {
        true
    }
}
