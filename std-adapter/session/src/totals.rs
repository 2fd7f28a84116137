//! Counters that go into a trace's statistics.

use tracebuf::buffer::BufferStats;
use tracebuf::service::EndpointStats;

use crate::limits::BUFFERS_MAX;

/// What a trace file holds.
///
/// ```
/// use tracebuf_session::Session;
///
/// # let path = std::env::temp_dir().join(format!("doc-written-{}.pftrace", std::process::id()));
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// let written = session.snapshot()?.write_to(&path)?;
/// println!("{} packets, {} bytes", written.packets, written.bytes);
/// assert_eq!(written.bytes, std::fs::metadata(&path)?.len());
/// assert_eq!(written.invalid_packets, 0);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Packets, the service's own among them.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets left out because no producer may write them, or because they are longer than the 256 MiB that a trace
    /// has room for.
    pub invalid_packets: u64,
}

/// How flushes went.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_session::Session;
///
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// session.flush(Duration::from_secs(5))?;
/// let flushes = session.summary()?.flushes;
/// println!("{} of {} flushes succeeded", flushes.succeeded, flushes.requested);
/// assert_eq!((flushes.failed, flushes.last), (0, Some(true)));
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flushes {
    /// Flushes asked for that have ended.
    pub requested: u64,
    /// Flushes in which every producer answered in time; this process's threads count as one producer.
    pub succeeded: u64,
    /// Flushes in which some producer did not, for example because a thread that was sending waited for its processor;
    /// its data was scraped.
    pub failed: u64,
    /// Whether the last one succeeded; `None` before the first.
    pub last: Option<bool>,
}

/// What a session counts besides its buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub producers_connected: u32,
    pub producers_seen: u64,
    pub endpoints: EndpointStats,
    pub dropped: Dropped,
    pub invalid_packets: u64,
    pub flushes: Flushes,
}

/// Packets that writers gave up without telling the buffer, per buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropped(pub [u64; BUFFERS_MAX]);

impl Dropped {
    /// The counters of all buffers, with these packets added.
    pub fn told(&self, buffers: impl Iterator<Item = BufferStats>) -> impl Iterator<Item = BufferStats> {
        buffers.zip(self.0).map(|(mut stats, dropped)| {
            stats.trace_writer_packet_loss = stats.trace_writer_packet_loss.saturating_add(dropped);
            stats
        })
    }
}
