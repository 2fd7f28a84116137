//! A number for each callsite, so that a span with nothing to keep needs no memory: its id is the number.

use std::sync::OnceLock;

use tracing_core::Metadata;

/// Callsites that get a number; spans of any more keep their metadata in memory.
const SLOTS: usize = 8192;

static TABLE: [OnceLock<&'static Metadata<'static>>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// Places looked at for one callsite.
const PROBES: usize = 16;

/// The number of a callsite, from 1; `None` when its places are taken by others.
///
/// Cost: usually one load and a comparison of addresses.
#[inline]
pub(super) fn number(metadata: &'static Metadata<'static>) -> Option<u64> {
    let address = std::ptr::from_ref(metadata) as usize;
    // Metadata are some 100 bytes each, one after the other.
    let start = (address >> 4) ^ (address >> 17);
    (0..PROBES).map(|probe| start.wrapping_add(probe) % SLOTS).find_map(|slot| {
        let place = TABLE.get(slot)?;
        let there = match place.get() {
            Some(there) => there,
            None => place.get_or_init(|| metadata),
        };
        std::ptr::eq(*there, metadata).then_some(slot as u64 + 1)
    })
}

/// The callsite of a number.
#[inline]
pub(super) fn metadata(number: u64) -> Option<&'static Metadata<'static>> {
    TABLE.get(usize::try_from(number.checked_sub(1)?).ok()?)?.get().copied()
}
