//! Errors about memory that cannot be a region, or holds none.

use core::fmt;

/// Why a piece of memory cannot be used as a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RegionError {
    /// No room for the header, the table and at least 64 bytes of ring.
    TooSmall {
        /// Bytes that would be enough if they were aligned to 8.
        needed: usize,
    },
    /// The table must hold at least 4 sequences.
    TooFewSequences,
    /// The buffer's own memory is not what this crate left there.
    Damaged,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { needed } => write!(f, "the region is too small: {needed} bytes are needed"),
            Self::TooFewSequences => f.write_str("the sequence table must hold at least 4 sequences"),
            Self::Damaged => {
                f.write_str("the buffer's memory was changed by somebody else: attach to it again")
            }
        }
    }
}

impl core::error::Error for RegionError {}

/// Why no buffer can be attached to a piece of memory. Nothing in it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// No region starts at the first 8-byte boundary.
    NoRegion,
    /// The region was laid out by another version of this crate, which this one cannot read.
    UnknownVersion {
        /// The version of its layout.
        found: u16,
    },
    /// The sizes in the region's header are not those it was made with.
    HeaderDamaged,
    /// The memory ends before the region does.
    TooShort {
        /// Bytes that the region takes, from the 8-byte boundary on.
        needed: usize,
    },
    /// Its chunks carry checksums, but this build of the crate lacks the feature `crc`.
    CrcLeftOut,
    /// It keeps histograms, but this build of the crate lacks the feature `histograms`.
    HistogramsLeftOut,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRegion => f.write_str("there is no region"),
            Self::UnknownVersion { found } => write!(f, "the region has the unknown layout version {found}"),
            Self::HeaderDamaged => f.write_str("the header of the region is damaged"),
            Self::TooShort { needed } => write!(f, "the region is cut off: it takes {needed} bytes"),
            Self::CrcLeftOut => f.write_str("the region has checksums, which need the feature `crc`"),
            Self::HistogramsLeftOut => {
                f.write_str("the region has histograms, which need the feature `histograms`")
            }
        }
    }
}

impl core::error::Error for AttachError {}
