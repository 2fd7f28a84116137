//! Options of a recording.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracebuf::producer::Layout;

use tracebuf_analysis::size::ring_chunk;
use tracebuf_session::limits::{LAYOUT, PAGE};
use tracebuf_session::{BufferConfig, Compression};

/// The layout of pages of Perfetto's SDK when it has few left: a chunk then has 292 bytes.
const SMALLEST_CHUNKS: Layout = Layout::Fourteen;

/// The period of a long trace's writes: the ring has to hold what is recorded meanwhile.
pub(crate) const LONG_TRACE_PERIOD: Duration = Duration::from_secs(1);

/// Options of a recording.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_machine::RecordOptions;
///
/// // The last 4 MiB of a recording that ends when it is told to.
/// let last = RecordOptions::new("last.pftrace").until_told().ring(4 << 20);
/// // An hour, written as it is recorded.
/// let all = RecordOptions::new("all.pftrace").duration(Duration::from_secs(3600)).long();
/// # let _ = (last, all);
/// ```
#[derive(Clone, Debug)]
pub struct RecordOptions {
    pub(super) output: PathBuf,
    pub(super) duration: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) ring: u64,
    pub(super) long: bool,
    pub(super) compression: Compression,
    pub(super) socket: Option<PathBuf>,
    /// Without a path, where Perfetto's SDK looks for it.
    pub(super) perfetto: Option<Option<PathBuf>>,
    pub(super) categories: Vec<String>,
}

impl RecordOptions {
    /// Sizes that a ring can have, in bytes: from chunks of 2 KiB that replace each other up to what a buffer's offsets
    /// reach.
    pub const RING: RangeInclusive<u64> = 4096..=u32::MAX as u64;
    /// The least time between two looks.
    pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

    /// Records for ten seconds, with a look every 100 ms and a ring of 4 MiB.
    pub fn new(output: impl AsRef<Path>) -> Self {
        Self {
            output: output.as_ref().to_owned(),
            duration: Some(Duration::from_secs(10)),
            interval: Duration::from_millis(100),
            ring: 4 << 20,
            long: false,
            compression: Compression::None,
            socket: None,
            perfetto: None,
            categories: Vec::new(),
        }
    }

    /// Records for this long.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Records until the stop flag is set.
    #[must_use]
    pub fn until_told(mut self) -> Self {
        self.duration = None;
        self
    }

    /// Sets the time between two looks; at least [`SHORTEST_INTERVAL`](Self::SHORTEST_INTERVAL), at most a year. If a
    /// look takes more than half of it, the pause after that is as long as the look. Processes are looked at every 500
    /// ms at most, and less often where that takes long.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        // The system has an `Instant` this far from now.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.interval = interval.clamp(Self::SHORTEST_INTERVAL, YEAR);
        self
    }

    /// Sets the bytes of the ring, in [`RING`](Self::RING), which [`record`](super::record) checks: what does not fit
    /// takes the place of the oldest.
    #[must_use]
    pub fn ring(mut self, bytes: u64) -> Self {
        self.ring = bytes;
        self
    }

    /// Writes into the file while recording, once a second and when the [`ring`](Self::ring) is half full, so that the
    /// beginning is kept however long it takes. What the file does not take in time is missing in between, and
    /// [`RecordReport::losses`](super::RecordReport::losses) says so. It ends when the reader of a pipe has gone.
    #[must_use]
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// Sets how a file is compressed that is [written while recording](Self::long): not at all unless set.
    #[must_use]
    pub fn compress(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Lets programs record into the same trace: those that connect to a socket at this path, each with a
    /// [`Connection`](tracebuf_ipc::Connection). They have a ring of the same size to themselves, with places for as
    /// many writers as it has room for a full chunk of each, up to 65,535, at 224 bytes a place.
    #[must_use]
    pub fn listen(mut self, path: impl AsRef<Path>) -> Self {
        self.socket = Some(path.as_ref().to_owned());
        self
    }

    /// Like [`listen`](Self::listen), for programs with Perfetto's SDK, at a socket of their own: a
    /// [`PerfettoSocket`](tracebuf_ipc::PerfettoSocket).
    #[must_use]
    pub fn perfetto(mut self, path: impl AsRef<Path>) -> Self {
        self.perfetto = Some(Some(path.as_ref().to_owned()));
        self
    }

    /// The same at the path where Perfetto's SDK looks for its service.
    #[must_use]
    pub fn perfetto_where_expected(mut self) -> Self {
        self.perfetto = Some(None);
        self
    }

    /// Records only these [categories](tracebuf_ipc::PerfettoSocketBuilder::categories) of programs with Perfetto's
    /// SDK; without any, all except those with the tags `slow` and `debug`.
    #[must_use]
    pub fn categories(mut self, enabled: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.categories = enabled.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn has_programs(&self) -> bool {
        self.socket.is_some() || self.perfetto.is_some()
    }

    /// The programs' ring, with places in its table for as many writers as it has room for a full chunk of each: of
    /// many short programs, those that are gone keep their places until they are overwritten.
    pub(super) fn ring_of_programs(&self) -> BufferConfig {
        let layout = if self.perfetto.is_some() { SMALLEST_CHUNKS } else { LAYOUT };
        let chunks = self.ring / ring_chunk(layout.chunk_size(PAGE));
        // One more, for the next that comes, before it overwrites the oldest.
        let places = u16::try_from(chunks + 1).unwrap_or(u16::MAX);
        BufferConfig::ring(self.ring).sequences(places.max(1024))
    }
}
