//! How large a writer's chunks were.

use super::words::Le64;
use crate::proto::trace_stats::{CHUNK_HISTOGRAM_BOUNDS, CHUNK_HISTOGRAM_BUCKETS};
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A sequence's chunks by payload size: their number and their bytes.
///
/// ```
/// use tracebuf::buffer::Histogram;
///
/// assert_eq!(Histogram::BOUNDS[0], 8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Chunks in each bucket.
    pub counts: [u64; Self::BUCKETS],
    /// Payload bytes in each bucket.
    pub sums: [u64; Self::BUCKETS],
}

impl Histogram {
    /// Buckets: one for each bound, one for all that is larger.
    pub const BUCKETS: usize = CHUNK_HISTOGRAM_BUCKETS;
    /// The largest payload, in bytes, that belongs in each bucket except the last.
    pub const BOUNDS: [u32; Self::BUCKETS - 1] = CHUNK_HISTOGRAM_BOUNDS;
}

/// A histogram as it lies in the region.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct StoredHistogram {
    buckets: [Bucket; Histogram::BUCKETS],
}
const_assert_eq!(size_of::<StoredHistogram>(), 176);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Bucket {
    count: Le64,
    sum: Le64,
}

impl StoredHistogram {
    fn bucket(&mut self, payload: u16) -> Option<&mut Bucket> {
        let index = Histogram::BOUNDS.iter().filter(|bound| u32::from(payload) > **bound).count();
        self.buckets.get_mut(index)
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn add(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.add(1);
            bucket.sum.add(u32::from(payload));
        }
    }

    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn remove(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.sub(1);
            bucket.sum.sub(u32::from(payload));
        }
    }

    pub(super) fn clear(&mut self) {
        self.as_mut_bytes().fill(0);
    }

    pub(super) fn get(&self) -> Histogram {
        let mut histogram = Histogram::default();
        let places = histogram.counts.iter_mut().zip(histogram.sums.iter_mut());
        for ((count, sum), bucket) in places.zip(&self.buckets) {
            (*count, *sum) = (bucket.count.get(), bucket.sum.get());
        }
        histogram
    }
}
