//! Writers' ids: found, taken, and free again.

use super::atomics::const_fn;
#[cfg(not(tracebuf_small))]
use super::atomics::{AtomicU32, Ordering};
use super::storage::WriterSlot;

/// Where to look for free ids. On microcontrollers, which have few, everywhere.
pub(super) struct Ids {
    /// In the lower half, how many ids from the first on are taken for certain; in the upper one, how often one became
    /// free.
    #[cfg(not(tracebuf_small))]
    lowest: AtomicU32,
    /// How many ids from the first on were ever taken.
    #[cfg(not(tracebuf_small))]
    used: AtomicU32,
}

impl Ids {
    const_fn! {
        pub(super) const fn new() -> Self {
            Ids {
                #[cfg(not(tracebuf_small))]
                lowest: AtomicU32::new(0),
                #[cfg(not(tracebuf_small))]
                used: AtomicU32::new(0),
            }
        }
    }

    /// Notes that an id is free again.
    pub(super) fn is_free(&self, _id: u16) {
        #[cfg(not(tracebuf_small))]
        {
            let place = u32::from(_id).wrapping_sub(1);
            let lower =
                |lowest: u32| Some(((lowest >> 16).wrapping_add(1)) << 16 | place.min(lowest & 0xFFFF));
            let _ = self.lowest.fetch_update(Ordering::Release, Ordering::Relaxed, lower);
        }
    }

    /// Takes an id for a writer to the buffer `target`.
    #[inline(always)]
    pub(super) fn take<'a>(&self, writers: &'a [WriterSlot], target: u16) -> Option<(&'a WriterSlot, u16)> {
        let take_any = || writers.iter().zip(1u16..).find(|(slot, _)| slot.take());
        let (slot, id) = self.take_suitable(writers, target).or_else(take_any)?;
        #[cfg(not(tracebuf_small))]
        self.used.fetch_max(id.into(), Ordering::Relaxed);
        Some((slot, id))
    }

    #[cfg(tracebuf_small)]
    fn take_suitable<'a>(&self, writers: &'a [WriterSlot], target: u16) -> Option<(&'a WriterSlot, u16)> {
        writers.iter().zip(1u16..).find(|(slot, _)| slot.suits(target) && slot.take())
    }

    /// Takes the lowest id that was never used, or last for the same buffer.
    #[cfg(not(tracebuf_small))]
    fn take_suitable<'a>(&self, writers: &'a [WriterSlot], target: u16) -> Option<(&'a WriterSlot, u16)> {
        let before = self.lowest.load(Ordering::Acquire);
        let mut first_free = None;
        let ids = writers.iter().zip(1u16..).skip(before as u16 as usize);
        let (slot, id) = ids.filter(|(slot, _)| slot.is_free()).find(|(slot, id)| {
            let is_taken = slot.suits(target) && slot.take();
            // Others are left for writers to their buffers.
            first_free = first_free.or((!is_taken).then(|| id.wrapping_sub(1)));
            is_taken
        })?;
        let taken = first_free.unwrap_or(id);
        if taken != before as u16 {
            // Not if one became free meanwhile, which may be one that was passed.
            let lowest = before & !0xFFFF | u32::from(taken);
            let _ = self.lowest.compare_exchange(before, lowest, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some((slot, id))
    }

    /// The places of writers, as far as any was ever taken.
    pub(super) fn used<'a>(&self, writers: &'a [WriterSlot]) -> &'a [WriterSlot] {
        #[cfg(not(tracebuf_small))]
        let writers = writers.get(..self.used.load(Ordering::Relaxed) as usize).unwrap_or_default();
        writers
    }
}
