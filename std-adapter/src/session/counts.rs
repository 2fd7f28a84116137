//! Counters of a session and of its files.

use tracebuf::buffer::BufferStats;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use super::transport::{BUFFERS_MAX, Transport};

/// What a trace file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Packets, the service's own among them.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets left out, because no producer may write them, or because they are longer than the 256 MiB that a trace
    /// has room for.
    pub invalid_packets: u64,
}

/// How flushes went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Flushes asked for that have ended.
    pub requested: u64,
    /// Flushes in which every producer answered in time: this process's threads, which are one, too.
    pub succeeded: u64,
    /// Flushes in which one did not, such as a thread that was sending and waited for its processor; what it had was
    /// scraped.
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
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProducerSummary {
    /// Who it is; `None` where its [`Transport`] does not tell.
    pub identity: Option<ProducerIdentity>,
    /// Whether it has sent all that it was last asked for. False of one that hangs or stands still, for which flushes wait
    /// in vain; and for a moment of each that was asked just now.
    pub has_answered: bool,
    /// Packets that its writers gave up, in all buffers, and of which nothing in shared memory tells.
    pub packets_dropped: u64,
    /// What became of its chunks and patches before they reached a buffer.
    pub endpoint: EndpointStats,
}

impl ProducerSummary {
    pub(super) fn of(transport: &dyn Transport) -> Self {
        // One that is elsewhere says what it likes.
        let dropped = (0..BUFFERS_MAX).map(|buffer| transport.packets_dropped(buffer));
        Self {
            identity: transport.identity(),
            has_answered: transport.is_flushed(),
            packets_dropped: dropped.fold(0, u64::saturating_add),
            endpoint: transport.stats(),
        }
    }
}

/// What a session counts beside its buffers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) producers_connected: u32,
    pub(crate) producers_seen: u64,
    pub(crate) endpoints: EndpointStats,
    pub(crate) dropped: Dropped,
    pub(crate) invalid_packets: u64,
    pub(crate) flushes: Flushes,
}

/// Packets for each buffer that writers gave up, and of which nothing in the buffer tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped([u64; BUFFERS_MAX]);

impl Dropped {
    pub(crate) fn add(&mut self, transport: &dyn Transport) {
        for (buffer, count) in self.0.iter_mut().enumerate() {
            // A producer elsewhere says what it likes.
            *count = count.saturating_add(transport.packets_dropped(buffer));
        }
    }

    /// The counters of all buffers with them.
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

pub(crate) fn sum(a: EndpointStats, b: EndpointStats) -> EndpointStats {
    EndpointStats {
        chunks_moved: a.chunks_moved + b.chunks_moved,
        chunks_scraped: a.chunks_scraped + b.chunks_scraped,
        chunks_scraped_before: a.chunks_scraped_before + b.chunks_scraped_before,
        chunks_discarded: a.chunks_discarded + b.chunks_discarded,
        chunks_missing: a.chunks_missing + b.chunks_missing,
        patches_discarded: a.patches_discarded + b.patches_discarded,
    }
}
