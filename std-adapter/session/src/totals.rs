//! Counters of a session beside those of its buffers.

use tracebuf::buffer::BufferStats;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use crate::limits::BUFFERS_MAX;

/// What a trace file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Packets, the service's own among them.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets left out because no producer may write them, or because they are longer than 256 MiB.
    pub invalid_packets: u64,
}

/// How flushes went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flushes {
    /// Flushes asked for that have ended.
    pub requested: u64,
    /// Flushes in which every producer answered in time; this process's threads count as one producer.
    pub succeeded: u64,
    /// Flushes in which some producer did not answer in time; its data was scraped.
    pub failed: u64,
    /// Whether the last one succeeded; `None` before the first.
    pub last: Option<bool>,
}

impl Flushes {
    pub(crate) fn count(&mut self, succeeded: bool) {
        self.requested += 1;
        *(if succeeded { &mut self.succeeded } else { &mut self.failed }) += 1;
        self.last = Some(succeeded);
    }
}

/// A producer: this process's threads, or a program elsewhere.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProducerSummary {
    /// Who it is; `None` where its [transport](crate::Transport) does not tell.
    pub identity: Option<ProducerIdentity>,
    /// It has sent everything that ended flushes asked it for.
    pub has_answered: bool,
    /// Packets that its writers gave up, in all buffers, and that nothing in shared memory tells of. A program elsewhere
    /// says so itself; it is not believed to have lost more than it can have written.
    pub packets_dropped: u64,
    /// What became of its chunks and patches before they reached a buffer.
    pub endpoint: EndpointStats,
}

/// What a session counts besides its buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Producers that are there.
    pub producers_connected: u32,
    /// Producers that have come.
    pub producers_seen: u64,
    /// What became of chunks and patches before they reached a buffer.
    pub endpoints: EndpointStats,
    /// Packets that writers gave up.
    pub dropped: Dropped,
    /// Those of them, in all buffers, of which only other programs say so.
    pub claimed: u64,
    /// Packets that no trace accepts.
    pub invalid_packets: u64,
    /// How flushes went.
    pub flushes: Flushes,
}

/// Packets that writers gave up without telling the buffer, per buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropped(pub(crate) [u64; BUFFERS_MAX]);

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

/// The sum of two transports' counts, which may be anything.
pub(crate) fn sum(a: EndpointStats, b: EndpointStats) -> EndpointStats {
    EndpointStats {
        chunks_moved: a.chunks_moved.saturating_add(b.chunks_moved),
        chunks_scraped: a.chunks_scraped.saturating_add(b.chunks_scraped),
        chunks_scraped_before: a.chunks_scraped_before.saturating_add(b.chunks_scraped_before),
        chunks_discarded: a.chunks_discarded.saturating_add(b.chunks_discarded),
        chunks_missing: a.chunks_missing.saturating_add(b.chunks_missing),
        patches_discarded: a.patches_discarded.saturating_add(b.patches_discarded),
    }
}
