//! How chunks of a producer reach a session: [`Transport`].

use tracebuf::buffer::TraceBuffer;
use tracebuf::service::EndpointStats;

use crate::region_file::BufferMemory;

/// Buffers of a session, at most.
pub(crate) const BUFFERS_MAX: usize = 32;

/// A central buffer of a session.
pub type CentralBuffer = TraceBuffer<BufferMemory>;

/// The session's end of one producer, wherever the producer runs.
///
/// All calls come from the session's drain thread, one at a time, and must not block. The threads of this
/// process come by one of these, which every session has; a socket to another process is another one, given
/// to [`Session::attach`](super::Session::attach).
///
/// ```
/// use tracebuf::service::EndpointStats;
/// use tracebuf_std::session::{CentralBuffer, Session, Transport};
///
/// /// A producer that never says anything.
/// struct Silent;
/// impl Transport for Silent {
///     fn drain(&mut self, _: &mut [CentralBuffer]) -> usize { 0 }
///     fn ask_flush(&mut self) {}
///     fn is_flushed(&self) -> bool { true }
///     fn scrape(&mut self, _: &mut [CentralBuffer]) {}
///     fn stats(&self) -> EndpointStats { EndpointStats::default() }
/// }
///
/// let session = Session::builder().start()?;
/// session.attach(Silent)?;
/// session.stop()?;
/// # Ok::<(), tracebuf_std::session::SessionError>(())
/// ```
pub trait Transport: Send {
    /// Carries out the requests that have come, and says how many. When more come, the drain thread is to be
    /// woken by [`Waker::wake`](super::Waker::wake); it looks by itself once a second.
    fn drain(&mut self, buffers: &mut [CentralBuffer]) -> usize;

    /// Asks the producer to send what it has.
    fn ask_flush(&mut self);

    /// Whether all that was asked for has come.
    fn is_flushed(&self) -> bool;

    /// Copies what lies in shared memory and was not sent.
    fn scrape(&mut self, buffers: &mut [CentralBuffer]);

    /// What happened before the buffers.
    fn stats(&self) -> EndpointStats;

    /// Packets for the buffer of this number that were given up without a word of it in shared memory; see
    /// [`CommitSink::packet_dropped`](tracebuf::producer::CommitSink::packet_dropped).
    fn packets_dropped(&self, _buffer: usize) -> u64 {
        0
    }

    /// False once the producer is gone: it is scraped a last time, and forgotten.
    fn is_connected(&self) -> bool {
        true
    }
}
