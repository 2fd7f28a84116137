//! A number for each callsite, which is the id of spans with nothing to keep, so that these need no memory.

use std::num::NonZeroU64;
use std::sync::OnceLock;

use tracing_core::Metadata;

/// Callsites that get a number; spans of any others keep their metadata in memory.
const SLOTS: usize = 8192;

static TABLE: [OnceLock<&'static Metadata<'static>>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// Places tried for one callsite.
const PROBES: usize = 16;

/// The number of a callsite, from 1, if it is found at once, as nearly always after the first time.
#[inline]
pub(super) fn known(metadata: &'static Metadata<'static>) -> Option<NonZeroU64> {
    let slot = first_place(metadata);
    let there = TABLE.get(slot)?.get()?;
    if std::ptr::eq(*there, metadata) { number_of(slot) } else { None }
}

fn number_of(slot: usize) -> Option<NonZeroU64> {
    NonZeroU64::new(slot as u64 + 1)
}

#[inline]
fn first_place(metadata: &'static Metadata<'static>) -> usize {
    let address = std::ptr::from_ref(metadata) as usize;
    // Metadata are some 100 bytes each, one after the other.
    ((address >> 4) ^ (address >> 17)) % SLOTS
}

/// The number of a callsite, which gets one here; `None` when its places are taken by others.
#[cold]
pub(super) fn number(metadata: &'static Metadata<'static>) -> Option<NonZeroU64> {
    let first = first_place(metadata);
    (first..first + PROBES).map(|probe| probe % SLOTS).find_map(|slot| {
        let there = TABLE.get(slot)?.get_or_init(|| metadata);
        if std::ptr::eq(*there, metadata) { number_of(slot) } else { None }
    })
}

/// The callsite with a number.
#[inline]
pub(super) fn metadata(number: u64) -> Option<&'static Metadata<'static>> {
    TABLE.get(usize::try_from(number.checked_sub(1)?).ok()?)?.get().copied()
}
