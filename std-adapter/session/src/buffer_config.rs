//! The configuration of a session's buffer.

use std::path::PathBuf;

use tracebuf::buffer::{Config, FillPolicy};

use crate::limits::CHUNK;

/// One central buffer.
#[derive(Clone, Debug)]
pub struct BufferConfig {
    pub(crate) bytes: u64,
    policy: FillPolicy,
    pub(crate) file: Option<PathBuf>,
    self_contained_chunks: bool,
    sequences: u16,
    small_pages: bool,
}

impl BufferConfig {
    /// Keeps the newest `bytes` bytes: from 2,060, which one chunk of a thread takes, to less than 4 GiB.
    ///
    /// What overwritten packets mean for those that are left is kept beside it, so that a snapshot can be read from its
    /// oldest event on, and has the slices that are open from their begins. If only the ring is left, as after a kill,
    /// readers skip its oldest part, up to about a quarter, because names are repeated with every quarter, unless it has
    /// [`self_contained_chunks`](Self::self_contained_chunks), or is in a file and
    /// [keeps descriptions](crate::SessionBuilder::keep_descriptions) there.
    pub const fn ring(bytes: u64) -> Self {
        Self::of(bytes, FillPolicy::RingBuffer)
    }

    /// Keeps the first `bytes` bytes, as many as a ring can have, and then takes no more.
    pub const fn discard(bytes: u64) -> Self {
        Self::of(bytes, FillPolicy::Discard)
    }

    const fn of(bytes: u64, policy: FillPolicy) -> Self {
        let sequences = sequences_for(bytes);
        Self { bytes, policy, file: None, self_contained_chunks: false, sequences, small_pages: false }
    }

    /// Keeps the buffer in [this file](crate::region_file), so that all but the last second survives the process, and
    /// that too with [shared memory in the file](crate::SessionBuilder::shared_memory_in_file).
    ///
    /// **Truncating the file ends the process**, by SIGBUS: keep it from programs that truncate files to rotate them.
    /// It is created with all its blocks, and locked against other sessions. A file that an earlier session left is
    /// kept as `FILE.previous`, and put back if the session does not start. `FILE.previous.previous` must be a valid
    /// name too: on most file systems that leaves 237 bytes for the file's own. Not available on Windows.
    #[must_use]
    pub fn in_file(self, path: impl AsRef<std::path::Path>) -> Self {
        Self { file: Some(path.as_ref().to_owned()), ..self }
    }

    /// Makes each chunk state the names, clock and track that its events need. So what a thread did last before it hung
    /// can be read however much other threads have overwritten since. It takes some 80 bytes of each 2 KB, plus names.
    #[must_use]
    pub const fn self_contained_chunks(mut self) -> Self {
        self.self_contained_chunks = true;
        self
    }

    /// Sets how many sequences its table holds, of 224 bytes each, 4 to 65,535: unless set, as many as it has room for
    /// chunks of 2 KiB, and at least 1,024. A sequence is a writer of a producer, as each thread has one.
    ///
    /// If all have chunks in a ring, a new one takes the place of the one that has been silent for the longest, whose
    /// chunks count as overwritten. A buffer that discards refuses the new one's chunks.
    #[must_use]
    pub const fn sequences(mut self, count: u16) -> Self {
        self.sequences = count;
        self
    }

    /// Takes memory in the system's own pages. Unless set, a buffer of 16 MiB or more asks for pages of 2 MiB, with which
    /// its first lap is three times as fast. On a virtual machine whose host takes free memory back they may cost five
    /// times as much instead, and a buffer that is not filled takes more than it holds.
    #[must_use]
    pub const fn small_pages(mut self) -> Self {
        self.small_pages = true;
        self
    }

    /// Whether a region of this size asks for pages of 2 MiB.
    pub(crate) fn in_large_pages(&self, size: usize) -> bool {
        size >= LARGE && !self.small_pages
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(self.policy).sequences(self.sequences).histograms(true)
    }

    /// Bytes of memory; `None` for a buffer too large for any memory.
    pub(crate) fn region_size(&self) -> Option<usize> {
        let bytes = u32::try_from(self.bytes).ok()?;
        usize::try_from(self.config().region_size(bytes)).ok()
    }

    pub(crate) fn is_ring(&self) -> bool {
        self.policy == FillPolicy::RingBuffer
    }

    /// After how many bytes names are repeated: in a ring what is overwritten takes them along, so every quarter of it,
    /// unless they are kept beside it, in its file if it has one. Beside a long trace they are in that one's file, and of
    /// a ring in a file that may be missing.
    pub(crate) fn state_every(&self, keeps: bool, beside_long_trace: bool) -> u32 {
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        match self.policy {
            _ if self.self_contained_chunks => 0,
            FillPolicy::RingBuffer if keeps && !(beside_long_trace && self.file.is_some()) => NEVER,
            FillPolicy::RingBuffer => (bytes / 4).max(CHUNK as u32),
            // Nothing is overwritten; from such a point a part of the trace can be read on its own.
            FillPolicy::Discard => bytes,
        }
    }
}

/// After as many bytes as can be said. Tracers that have used up their numbers for names begin a new state by
/// themselves.
const NEVER: u32 = u32::MAX;

/// What a full chunk takes in a buffer: 24 bytes of header instead of the 8 in shared memory.
pub(crate) const SMALLEST: u64 = CHUNK as u64 - 8 + 24;

/// As many as can have a chunk in the buffer, and one more, for the next that comes before the oldest is overwritten.
const fn sequences_for(bytes: u64) -> u16 {
    match bytes / SMALLEST + 1 {
        0..LEAST => LEAST as u16,
        chunks @ LEAST..=0xFFFF => chunks as u16,
        _ => u16::MAX,
    }
}

/// Buffers of at least this size are in large pages, unless they are not to be.
const LARGE: usize = 16 << 20;

/// Programs of other kinds have smaller chunks.
const LEAST: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_repeated_if_they_are_kept_beside_what_is_left() {
        let ring = || BufferConfig::ring(64 << 10);
        let every = |buffer: BufferConfig| {
            [(false, false), (true, false), (true, true)]
                .map(|(keeps, beside)| buffer.state_every(keeps, beside))
        };
        assert_eq!(every(ring()), [16 << 10, NEVER, NEVER]);
        assert_eq!(every(ring().in_file("/nowhere")), [16 << 10, NEVER, 16 << 10]);
        assert_eq!(every(ring().self_contained_chunks()), [0; 3]);
        assert_eq!(every(BufferConfig::discard(64 << 10)), [64 << 10; 3]);
        assert_eq!(every(BufferConfig::ring(u64::from(u32::MAX) - 1)), [u32::MAX / 4, NEVER, NEVER]);
    }

    #[test]
    fn a_large_buffer_has_large_pages_unless_they_are_not_to_be() {
        let in_large = |buffer: BufferConfig| buffer.in_large_pages(buffer.region_size().expect("a size"));
        assert!(in_large(BufferConfig::ring(16 << 20)) && !in_large(BufferConfig::ring(8 << 20)));
        assert!(!in_large(BufferConfig::ring(16 << 20).small_pages()));
    }
}
