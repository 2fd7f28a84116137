//! Options of a recording.

use std::ffi::OsString;
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

/// Which events of the kernel are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelEvents {
    Off,
    IfPossible,
    These(Vec<String>),
}

/// Bytes of the programs' ring, unless set.
const RING: u64 = 4 << 20;

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
    /// As large as the machine needs it, unless set.
    pub(super) ring: Option<u64>,
    pub(super) kernel_events: KernelEvents,
    /// As large as the machine needs it, unless set.
    pub(super) kernel_buffer: Option<u64>,
    pub(super) command: Option<Vec<OsString>>,
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

    /// Records for ten seconds, with a look every 100 ms, the kernel's scheduling if it may be read, and a ring that
    /// holds that on a busy machine: 16 MiB for each core and 64 MiB at least, but no more than an eighth of memory or
    /// 2 GiB. Memory is taken as it fills.
    pub fn new(output: impl AsRef<Path>) -> Self {
        Self {
            output: output.as_ref().to_owned(),
            duration: Some(Duration::from_secs(10)),
            interval: Duration::from_millis(100),
            ring: None,
            kernel_events: KernelEvents::IfPossible,
            kernel_buffer: None,
            command: None,
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
        self.ring = Some(bytes);
        self
    }

    /// Records these events of the kernel's ftrace in place of the [default sets](crate::ftrace::DEFAULT_SETS): names of
    /// sets, or events as `group/name` or `group/*`. [`record`](super::record) then fails if there are none to be had.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.kernel_events = KernelEvents::These(events.into_iter().map(Into::into).collect());
        self
    }

    /// Records no events of the kernel.
    #[must_use]
    pub fn no_ftrace(mut self) -> Self {
        self.kernel_events = KernelEvents::Off;
        self
    }

    /// Sets the bytes of the kernel's buffer for each processor, which holds what happens between two looks; unless set
    /// 8 MiB, or 2 MiB on a machine with less than 7 GiB, and no more than a sixteenth of memory for all processors
    /// together.
    #[must_use]
    pub fn kernel_buffer(mut self, bytes: u64) -> Self {
        self.kernel_buffer = Some(bytes);
        self
    }

    /// Runs a command, a program and its arguments, and records until it ends, whatever the [duration](Self::duration). Its
    /// process has a slice as long as it runs.
    #[must_use]
    pub fn command(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.command = Some(words.into_iter().map(Into::into).collect());
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
    /// [`Connection`](tracebuf_ipc::Connection). They have a ring to themselves, of the same size if that is
    /// [set](Self::ring) and else of 4 MiB, with places for as many writers as it has room for a full chunk of each, up
    /// to 65,535, at 224 bytes a place.
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

    /// Bytes of the machine's ring, on a machine with so many processors and so much memory.
    pub(super) fn machine_ring(&self, processors: u64, memory: u64) -> u64 {
        // A busy core makes 100,000 switches and wakings a second, at some ten bytes.
        let wanted = (processors.saturating_mul(16 << 20)).clamp(64 << 20, 2 << 30);
        self.ring.unwrap_or_else(|| wanted.min((memory / 8).max(RING)))
    }

    /// KiB of the kernel's buffer for each processor.
    pub(super) fn kernel_buffer_kib(&self, processors: u64, memory: u64) -> u64 {
        self.kernel_buffer.unwrap_or_else(|| kernel_buffer(processors, memory)).div_ceil(1024)
    }

    pub(super) fn has_programs(&self) -> bool {
        self.socket.is_some() || self.perfetto.is_some()
    }

    /// The programs' ring, with places in its table for as many writers as it has room for a full chunk of each: of
    /// many short programs, those that are gone keep their places until they are overwritten.
    pub(super) fn ring_of_programs(&self) -> BufferConfig {
        let layout = if self.perfetto.is_some() { SMALLEST_CHUNKS } else { LAYOUT };
        let ring = self.ring.unwrap_or(RING);
        let chunks = ring / ring_chunk(layout.chunk_size(PAGE));
        // One more, for the next that comes, before it overwrites the oldest.
        let places = u16::try_from(chunks + 1).unwrap_or(u16::MAX);
        BufferConfig::ring(ring).sequences(places.max(1024))
    }
}

/// Bytes of the kernel's buffer for each of so many processors, with so much memory, if nobody says how many.
pub(crate) fn kernel_buffer(processors: u64, memory: u64) -> u64 {
    let wanted = if memory < 7 << 30 { 2 << 20 } else { 8 << 20 };
    let room = (memory / 16 / processors.max(1)).max(64 << 10);
    room.min(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_buffers_grow_with_the_machine_and_leave_most_of_its_memory() {
        let options = RecordOptions::new("trace.pftrace");
        let sizes = |processors: u64, gib: u64| {
            let memory = gib << 30;
            (options.machine_ring(processors, memory) >> 20, options.kernel_buffer_kib(processors, memory))
        };
        assert_eq!(sizes(2, 24), (64, 8192));
        assert_eq!(sizes(64, 256), (1024, 8192));
        assert_eq!(sizes(512, 2048), (2048, 8192));
        assert_eq!(sizes(4, 1), (64, 2048));
        assert_eq!(sizes(64, 1), (128, 1024));
        // Whatever was not known.
        assert_eq!(sizes(0, 0), (4, 64));
        assert_eq!(sizes(u64::MAX, 0), (4, 64));
        let options = options.ring(4096).kernel_buffer(10_000);
        assert_eq!((options.machine_ring(2, 0), options.kernel_buffer_kib(2, 0)), (4096, 10));
    }
}
