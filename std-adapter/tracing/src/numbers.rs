//! Numbers that tell spans apart, and their flows from all others.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use tracebuf_std::process::UntilFork;

/// A number that no other span has in this process, its parents or its children. It practically never occurs in other
/// processes, or among a program's own flows, whether those are counted, addresses or random.
pub(super) fn next() -> u64 {
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
        let numbers = || std::thread::spawn(|| (0..10_000).map(|_| next()).collect::<Vec<_>>());
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
