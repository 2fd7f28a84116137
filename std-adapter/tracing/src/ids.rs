//! Ids: a number for each callsite, for spans with nothing to keep; and numbers that tell all others apart, and their
//! flows from those of anybody else.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_core::Metadata;

use tracebuf_std::process::UntilFork;

/// Callsites that get a number; spans of any others keep their metadata in memory.
const SLOTS: usize = 8192;

static TABLE: [OnceLock<&'static Metadata<'static>>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// Places tried for one callsite.
const PROBES: usize = 16;

/// The number of a callsite, from 1, if it is found at once, as nearly always after the first time.
#[inline]
pub(super) fn known_callsite(metadata: &'static Metadata<'static>) -> Option<NonZeroU64> {
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
pub(super) fn callsite(metadata: &'static Metadata<'static>) -> Option<NonZeroU64> {
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

/// A number that no other span has in this process, its parents or its children. It practically never occurs in other
/// processes, or among a program's own flows, whether those are counted, addresses or random.
pub(super) fn unique() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed) ^ u64::from(process()) << 40;
    scatter(number ^ seed())
}

/// A different number for each: the last steps of SplitMix64.
fn scatter(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// The same in a process and its children, which their process ids tell apart. In different containers process ids may
/// be the same.
fn seed() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(0);
    match SEED.load(Ordering::Relaxed) {
        0 => {
            let new = RandomState::new().hash_one(0) | 1;
            // The seed of the first thread, without a lock that a child after a fork could find taken.
            SEED.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|first| first, |_| new)
        }
        seed => seed,
    }
}

/// This process's id. Asking for it is a system call.
fn process() -> u32 {
    static KNOWN: UntilFork = UntilFork::new();
    KNOWN.get(std::process::id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_have_one_seed_and_no_number_twice_nor_small_ones() {
        let numbers = || std::thread::spawn(|| (0..10_000).map(|_| unique()).collect::<Vec<_>>());
        let threads = [(); 4].map(|()| numbers());
        let mut all: Vec<_> =
            threads.into_iter().flat_map(|thread| thread.join().expect("numbers")).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40_000);
        // Half of them have the highest bit, give or take ten times the usual deviation.
        let high = all.iter().filter(|number| **number >> 63 == 1).count();
        assert!((19_000..21_000).contains(&high), "{high}");
    }

    #[cfg(unix)]
    #[test]
    fn a_child_s_numbers_are_others() {
        use tracebuf_testing::fork::in_child;

        tracebuf_std::fork::watch();
        let (before, seed_before) = (process(), seed());
        assert!(in_child(|| process() != before && seed() == seed_before));
    }
}
