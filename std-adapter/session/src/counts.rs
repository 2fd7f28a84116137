//! How a session counts.

use tracebuf::service::{EndpointStats, ProducerIdentity};

use super::transport::Transport;
use crate::limits::BUFFERS_MAX;
use crate::totals::{Dropped, Flushes};

impl Flushes {
    pub(crate) fn count(&mut self, succeeded: bool) {
        self.requested += 1;
        *(if succeeded { &mut self.succeeded } else { &mut self.failed }) += 1;
        self.last = Some(succeeded);
    }
}

/// A producer: this process's threads, or a program elsewhere.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_session::{ProducerSummary, Session};
///
/// let session = Session::builder().start()?;
/// # session.recorder().instant("hello");
/// session.flush(Duration::from_secs(5))?;
/// for ProducerSummary { identity, has_answered, .. } in session.summary()?.producers {
///     let pid = identity.map(|identity| identity.pid);
///     println!("process {pid:?}{}", if has_answered { "" } else { " hangs" });
/// #   assert!(has_answered && pid == Some(std::process::id() as i32));
/// }
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProducerSummary {
    /// Who it is; `None` where its [`Transport`] does not tell.
    pub identity: Option<ProducerIdentity>,
    /// Whether it has sent everything that the flushes which have ended asked it for. False for one that hangs or
    /// stands still, for which flushes wait in vain, until it answers.
    pub has_answered: bool,
    /// Packets that its writers gave up, in all buffers, and that nothing in shared memory tells of.
    pub packets_dropped: u64,
    /// What became of its chunks and patches before they reached a buffer.
    pub endpoint: EndpointStats,
}

impl ProducerSummary {
    pub(super) fn of(transport: &dyn Transport, has_answered: bool) -> Self {
        // A producer elsewhere may say anything.
        let dropped = (0..BUFFERS_MAX).map(|buffer| transport.packets_dropped(buffer));
        Self {
            identity: transport.identity(),
            has_answered,
            packets_dropped: dropped.fold(0, u64::saturating_add),
            endpoint: transport.stats(),
        }
    }
}

impl Dropped {
    pub(crate) fn add(&mut self, transport: &dyn Transport) {
        for (buffer, count) in self.0.iter_mut().enumerate() {
            // A producer elsewhere may say anything.
            *count = count.saturating_add(transport.packets_dropped(buffer));
        }
    }
}

/// The sum of two transports' counts. Those of producers elsewhere may be anything.
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
