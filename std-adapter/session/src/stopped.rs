//! What a session did, and what it leaves.

use std::fmt;
use std::path::Path;

use tracebuf::buffer::{BufferStats, FillPolicy, SequenceInfo};
use tracebuf::service::ProducerIdentity;

use super::Session;
use super::beside::Revision;
use super::central::Central;
use super::clock::ClockReading;
use super::counts::ProducerSummary;
use super::long_trace::LongTraceStatus;
use super::losses::Losses;
use super::snapshot::write_trace;
use super::transport::CentralBuffer;
use crate::export::Piece;
use crate::totals::{Flushes, Written};
use tracebuf_std::whole_file::write_atomically;

/// What a session did.
///
/// ```
/// use tracebuf_session::{Session, Summary};
///
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// let Summary { buffers, sequences, producers, .. } = session.stop()?.summary();
/// println!("{} producers, {} writers", producers.len(), sequences.len());
/// println!("{} bytes into a ring of {}", buffers[0].bytes_written, buffers[0].buffer_size);
/// assert_eq!((producers.len(), buffers[0].chunks_overwritten), (1, 0));
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The counters of each buffer.
    pub buffers: Vec<BufferStats>,
    /// The writers of all buffers, with what each has lost.
    pub sequences: Vec<SequenceInfo>,
    /// The producers that are there, or were when the session stopped: this process's threads are the first.
    pub producers: Vec<ProducerSummary>,
    /// How flushes went.
    pub flushes: Flushes,
    /// Chunks for a buffer that the producer may not write to, or from more writers than its endpoint has places for.
    pub chunks_discarded: u64,
    /// Patches for such a buffer.
    pub patches_discarded: u64,
    /// Packets left out of the long trace and of what [`Stopped::write_to`] wrote, because no producer may write them,
    /// or because they are longer than the 256 MiB that a trace has room for. Packets that a snapshot leaves out are
    /// still in the buffers, and not counted here: [`Written::invalid_packets`] and its trace's statistics count them.
    pub invalid_packets: u64,
    /// Packets and bytes that are in the long trace's file, if there is one.
    pub file: Option<Written>,
    /// How the long trace is doing, or how it ended.
    pub long_trace: Option<LongTraceStatus>,
    /// Chunks that came to a buffer that keeps its oldest when it was full; one that is still being written comes with
    /// each flush. (Chunks that a ring discards it has already handed on: they were scraped to their end, and then
    /// committed.)
    pub chunks_too_late: u64,
}

impl Summary {
    /// What was lost, from all of these counters.
    pub fn losses(&self) -> Losses {
        Losses::of(self)
    }

    /// Producers that have not answered, except this process's threads, which are asked as one.
    #[doc(hidden)]
    pub fn silent(&self) -> impl Iterator<Item = &ProducerSummary> {
        let is_own = |identity: ProducerIdentity| identity.producer_id == Session::OWN_PRODUCER_ID;
        self.producers.iter().filter(move |one| !one.has_answered && !one.identity.is_some_and(is_own))
    }
}

/// A session that has ended, with what is in its buffers.
///
/// ```
/// use tracebuf_session::Session;
///
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// let path = std::env::temp_dir().join(format!("doc-stopped-{}.pftrace", std::process::id()));
/// let written = session.stop()?.write_to(&path)?;
/// assert!(written.packets > 0);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stopped {
    central: Central,
    /// What is beside the buffers. By now: in a child after a fork a thread of the parent's may have it locked.
    beside: Piece,
    /// Some of it was read for a file that could not be completed, or all of it for one that has not its name.
    is_cut: bool,
    /// Packets and bytes of the long trace, if there was one.
    pub file: Option<Written>,
    /// How the long trace ended.
    pub long_trace: Option<LongTraceStatus>,
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, long_trace, .. } = self;
        f.debug_struct("Stopped").field("file", file).field("long_trace", long_trace).finish_non_exhaustive()
    }
}

impl Stopped {
    pub(super) fn new(central: Central, file: Option<Written>, long_trace: Option<LongTraceStatus>) -> Self {
        let mut beside = Piece::default();
        let _ = beside.beside(&central.beside, Revision::default());
        Self { central, beside, is_cut: false, file, long_trace }
    }

    /// Writes what was not read yet as a whole trace, into a file that appears when it is complete. Like
    /// [`Snapshot::write_to`](super::Snapshot::write_to), without a copy of the buffers; a second call finds them
    /// empty. What was read from a buffer in a file can no longer be recovered from there. To be able to try again
    /// elsewhere, or to lose nothing if the process is killed meanwhile, take a snapshot before the session stops.
    ///
    /// # Errors
    /// What the file system says, or that `path` is the file of the long trace or of a buffer. After such an error,
    /// unless the file could not even be created, further calls say that what there was has been read: what is left of
    /// it is in the file that the first error names, if it names one.
    pub fn write_to(&mut self, path: &Path) -> std::io::Result<Written> {
        if self.is_cut {
            return Err(std::io::Error::other(
                "it was read for a file that could not be completed, or not be named",
            ));
        }
        self.central.files.check_is_none(path)?;
        let (totals, Self { central, beside, is_cut, .. }) = (self.central.totals(), &mut *self);
        let written = write_atomically(path, |file| {
            *is_cut = true;
            let written =
                write_trace(&mut central.buffers, totals, &ClockReading::now(), beside, None, file)?;
            central.invalid_packets += written.invalid_packets;
            Ok(written)
        })?;
        self.is_cut = false;
        Ok(written)
    }

    /// What the session did.
    pub fn summary(&self) -> Summary {
        Summary { long_trace: self.long_trace.clone(), ..summary_of(&self.central, self.file) }
    }
}

/// What has happened so far, with the long trace's file.
pub(super) fn summary_of(central: &Central, file: Option<Written>) -> Summary {
    let totals = central.totals();
    let full = central.buffers.iter().filter(|buffer| buffer.policy() == FillPolicy::Discard);
    Summary {
        buffers: totals.dropped.told(central.buffers.iter().map(CentralBuffer::stats)).collect(),
        sequences: central.buffers.iter().flat_map(CentralBuffer::sequences).collect(),
        producers: central.producers().collect(),
        flushes: totals.flushes,
        chunks_discarded: totals.endpoints.chunks_discarded,
        patches_discarded: totals.endpoints.patches_discarded,
        invalid_packets: totals.invalid_packets,
        file,
        long_trace: None,
        chunks_too_late: full.map(|buffer| buffer.stats().chunks_discarded).sum(),
    }
}
