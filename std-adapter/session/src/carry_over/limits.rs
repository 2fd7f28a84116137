//! How much is kept, whatever producers write.

/// Bytes of a sequence's names, clocks and defaults.
pub(super) const STATE: usize = 64 << 10;
/// A sequence's names.
pub(super) const NAMES: usize = 4096;
/// Bytes of a slice's begin; of a longer one, arguments are left out.
pub(super) const SLICE: usize = 64 << 10;
/// Open slices on a track: those within them are only counted.
pub(super) const DEPTH: usize = 256;
/// Tracks with open slices.
pub(super) const TRACKS: usize = 16 << 10;
/// Sequences.
pub(super) const SEQUENCES: usize = 8 << 10;
/// Bytes of all begins of open slices together.
pub(super) const IN_ALL: usize = 16 << 20;
/// What a begin takes besides its bytes.
pub(super) const OVERHEAD: usize = 96;
/// Bytes of a track's description.
pub(super) const DESCRIPTION: usize = 4 << 10;
/// Descriptions that a sequence has written last.
pub(super) const DESCRIPTIONS: usize = 64;
/// Tracks above each other.
pub(super) const PARENTS: usize = 32;
/// Incremental counters of a sequence.
pub(super) const COUNTERS: usize = 64;
/// Ends that wait for their begins.
pub(super) const ENDS: usize = 256;
