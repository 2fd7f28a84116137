//! How large a writer's chunks were.

use super::words::Le64;
use crate::proto::trace_stats::{CHUNK_HISTOGRAM_BOUNDS, CHUNK_HISTOGRAM_BUCKETS, ChunkHistogram};
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A histogram as it lies in the region.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct StoredHistogram {
    buckets: [Bucket; CHUNK_HISTOGRAM_BUCKETS],
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
        let index = CHUNK_HISTOGRAM_BOUNDS.iter().filter(|bound| u32::from(payload) > **bound).count();
        self.buckets.get_mut(index)
    }

    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn add(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.add(1);
            bucket.sum.add(u32::from(payload));
        }
    }

    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn remove(&mut self, payload: u16) {
        if let Some(bucket) = self.bucket(payload) {
            bucket.count.sub(1);
            bucket.sum.sub(u32::from(payload));
        }
    }

    pub(super) fn clear(&mut self) {
        self.as_mut_bytes().fill(0);
    }

    pub(super) fn get(&self) -> ChunkHistogram {
        let mut histogram = ChunkHistogram::default();
        let places = histogram.counts.iter_mut().zip(histogram.sums.iter_mut());
        for ((count, sum), bucket) in places.zip(&self.buckets) {
            (*count, *sum) = (bucket.count.get(), bucket.sum.get());
        }
        histogram
    }
}
