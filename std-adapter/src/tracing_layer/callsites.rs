//! A number for each callsite, which is the id of spans with nothing to keep, so that these need no memory.

use std::sync::OnceLock;

use tracing_core::Metadata;

/// Callsites that get a number; spans of any others keep their metadata in memory.
const SLOTS: usize = 8192;

static TABLE: [OnceLock<&'static Metadata<'static>>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// Places tried for one callsite.
const PROBES: usize = 16;

/// The number of a callsite, from 1; `None` when its places are taken by others.
///
/// Cost: usually one load and a comparison of addresses.
#[inline]
pub(super) fn number(metadata: &'static Metadata<'static>) -> Option<u64> {
    let slot = first_place(metadata);
    match TABLE.get(slot).and_then(OnceLock::get) {
        Some(there) if std::ptr::eq(*there, metadata) => Some(slot as u64 + 1),
        _ => search(metadata),
    }
}

#[inline]
fn first_place(metadata: &'static Metadata<'static>) -> usize {
    let address = std::ptr::from_ref(metadata) as usize;
    // Metadata are some 100 bytes each, one after the other.
    ((address >> 4) ^ (address >> 17)) % SLOTS
}

/// Looks at all places of a callsite, and takes the first that is free.
#[cold]
#[inline(never)]
fn search(metadata: &'static Metadata<'static>) -> Option<u64> {
    let first = first_place(metadata);
    (first..first + PROBES).map(|probe| probe % SLOTS).find_map(|slot| {
        let there = TABLE.get(slot)?.get_or_init(|| metadata);
        std::ptr::eq(*there, metadata).then_some(slot as u64 + 1)
    })
}

/// The callsite with a number.
#[inline]
pub(super) fn metadata(number: u64) -> Option<&'static Metadata<'static>> {
    TABLE.get(usize::try_from(number.checked_sub(1)?).ok()?)?.get().copied()
}
