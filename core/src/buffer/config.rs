//! `Config`: the size and policy of a buffer.

/// What to do when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FillPolicy {
    /// Overwrite the oldest chunks, read or not: the buffer keeps the end of the recording.
    RingBuffer,
    /// Stop: at the first chunk that does not fit, the buffer seals itself and keeps the beginning.
    Discard,
}

/// How to lay out a region.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy};
///
/// let config = Config::new(FillPolicy::RingBuffer).sequences(8);
/// assert_eq!(config.region_size(4096), 256 + 8 * 48 + 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    pub(super) policy: FillPolicy,
    pub(super) sequences: u16,
    pub(super) histograms: bool,
    pub(super) crc: bool,
}

impl Config {
    /// A table of 64 [sequences](Self::sequences), no histograms, no checksums.
    pub const fn new(policy: FillPolicy) -> Self {
        Self { policy, sequences: 64, histograms: false, crc: false }
    }

    /// How many sequences the table holds: 4 to 65,535, at 48 bytes each. Make it hold at least the writers that write
    /// at the same time, and, in a ring that is not read, all those whose chunks are to be found in it.
    ///
    /// A full table forgets the sequence that has been without chunks for longest: a chunk of it that is committed
    /// again comes out from its start, and sequences that share its mark may report a [read
    /// gap](super::DataLoss::READ_GAP). When all have chunks, it refuses further ones, unless [a place is
    /// made](super::TraceBuffer::make_place).
    ///
    /// On microcontrollers (`target_os = "none"`) the table has no index: each commit, patch and lease looks through it
    /// up to its sequence.
    pub const fn sequences(mut self, count: u16) -> Self {
        self.sequences = count;
        self
    }

    /// Keeps a histogram of chunk sizes for each sequence, at 176 bytes each.
    #[cfg(feature = "histograms")]
    pub const fn histograms(mut self, on: bool) -> Self {
        self.histograms = on;
        self
    }

    /// Gives each chunk a CRC-32 of itself and of its sequence's identity, in 4 bytes at its end: for memory whose bits
    /// may flip. [`attach`](super::TraceBuffer::attach) drops chunks that do not match theirs. The largest payload is
    /// then 65,531 bytes.
    #[cfg(feature = "crc")]
    pub const fn crc(mut self, on: bool) -> Self {
        self.crc = on;
        self
    }
}
