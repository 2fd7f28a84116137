//! Counters that go into a trace's statistics.

use tracebuf::buffer::BufferStats;
use tracebuf::service::EndpointStats;

use crate::limits::BUFFERS_MAX;

/// What a trace file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
pub(crate) struct Totals {
    pub(crate) producers_connected: u32,
    pub(crate) producers_seen: u64,
    pub(crate) endpoints: EndpointStats,
    pub(crate) dropped: Dropped,
    pub(crate) invalid_packets: u64,
    pub(crate) flushes: Flushes,
}

/// Packets that writers gave up without telling the buffer, per buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped(pub(crate) [u64; BUFFERS_MAX]);

impl Dropped {
    /// The counters of all buffers, with these packets added.
    pub(crate) fn told(
        &self,
        buffers: impl Iterator<Item = BufferStats>,
    ) -> impl Iterator<Item = BufferStats> {
        buffers.zip(self.0).map(|(mut stats, dropped)| {
            stats.trace_writer_packet_loss = stats.trace_writer_packet_loss.saturating_add(dropped);
            stats
        })
    }
}
