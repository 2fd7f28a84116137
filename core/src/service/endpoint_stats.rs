//! Counters of a producer's endpoint.

use core::fmt;

use crate::debug::debug_fields;

/// What became of a producer's chunks and patches before they reached a buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EndpointStats {
    /// Chunks taken from shared memory and offered to a buffer.
    pub chunks_moved: u64,
    /// Chunks copied by scraping.
    pub chunks_scraped: u64,
    /// Chunks whose commit came after scraping had copied the whole of them: they were freed, and not offered again.
    pub chunks_scraped_before: u64,
    /// Chunks for a buffer that the producer may not write to, or that their writer does not write to; and those of
    /// writers for which a [`ProducerEndpoint`](super::ProducerEndpoint) has no place.
    pub chunks_discarded: u64,
    /// Chunks that a request names but that are not there, or not complete.
    pub chunks_missing: u64,
    /// Patches for a buffer that the producer may not write to, or that their writer does not write to. A request
    /// without any, which says that no more will come, counts as one.
    pub patches_discarded: u64,
}

impl fmt::Debug for EndpointStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields! {
            self, f, "EndpointStats",
            chunks_moved, chunks_scraped, chunks_scraped_before, chunks_discarded, chunks_missing,
            patches_discarded
        }
    }
}

impl EndpointStats {
    pub(super) const ZERO: Self = Self {
        chunks_moved: 0,
        chunks_scraped: 0,
        chunks_scraped_before: 0,
        chunks_discarded: 0,
        chunks_missing: 0,
        patches_discarded: 0,
    };
}
