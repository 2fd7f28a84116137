//! The number and the name by which a recording thread is known in traces.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::{fs, thread};

use tracebuf_std::fork::forks;
use tracebuf_std::system::thread_id;

/// More than a thread's number on Linux: of a [`ThreadIdentity::number`], the decimal digits below it are the thread's
/// own.
const REUSED: u32 = 10_000_000;
/// How many such numbers there are for each thread's own, within 31 bits: readers of older versions take no more.
const REUSES: u64 = 213;

/// Who a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadIdentity {
    /// Its number in the system.
    pub(crate) tid: u32,
    /// 0, unless an earlier thread of this process had the same number: then no other thread has this.
    pub(crate) reuse: u64,
}

impl ThreadIdentity {
    /// The calling thread's. The first call of a thread takes some 100 ns.
    pub(crate) fn current() -> Self {
        thread_local! {
            // With how often the process had forked: in a child the thread has another number.
            static KNOWN: Cell<Option<(u32, ThreadIdentity)>> = const { Cell::new(None) };
        }
        KNOWN.with(|known| match known.get().filter(|(at, _)| *at == forks()) {
            Some((_, identity)) => identity,
            None => {
                let tid = thread_id();
                let identity = Self { tid, reuse: used().map_or(0, |mut used| used.add(tid)) };
                known.set(Some((forks(), identity)));
                identity
            }
        })
    }

    /// The number that traces show. Readers take threads of one process with equal numbers for one, so the second that
    /// has a number is shown with other digits before it: 10,005,000 or more, with the last seven digits of 5,000.
    pub(crate) fn number(self) -> u32 {
        if self.reuse == 0 || self.tid >= REUSED {
            return self.tid;
        }
        self.tid + (1 + (self.reuse - 1) % REUSES) as u32 * REUSED
    }

    /// The calling thread's name: that of the standard library, or one that it has in the system if that is newer, as
    /// when a C library has named it. One that no one has named is known by its number.
    pub(crate) fn name(self) -> String {
        let current = thread::current();
        let of_system = || name_in("/proc/thread-self/comm");
        match current.name() {
            // What the system calls a process's first thread is the program.
            Some("main") => "main".to_owned(),
            Some(name) => match of_system() {
                Some(newer) if !name.starts_with(&newer) => newer,
                _ => name.to_owned(),
            },
            None if self.tid == std::process::id() && cfg!(target_os = "linux") => "main".to_owned(),
            // Threads inherit names.
            None => match of_system().filter(|name| name_in("/proc/self/comm").as_ref() != Some(name)) {
                Some(name) => name,
                None => format!("thread {}", self.tid),
            },
        }
    }
}

/// A thread's name in the system, of up to 15 bytes; `None` where there is no such file, or no name.
fn name_in(path: &str) -> Option<String> {
    let name = fs::read(path).ok()?;
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end_matches('\n');
    // A name that was cut within a character is the same all the same.
    let name = name.trim_end_matches(char::REPLACEMENT_CHARACTER);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The numbers that threads of this process have had: a bit for each, in blocks of as many as a word has.
#[derive(Default)]
struct Used {
    forks: u32,
    blocks: BTreeMap<u32, [u64; Self::WORDS]>,
    reuses: u64,
}

impl Used {
    const WORDS: usize = 16;
    const BLOCK: u32 = Self::WORDS as u32 * u64::BITS;
    /// Blocks for all numbers that Linux gives, some 600 KiB.
    const BLOCKS: usize = (1 << 22) / Self::BLOCK as usize;

    /// Notes that a thread with this number has come: 0 if it is the first.
    fn add(&mut self, tid: u32) -> u64 {
        if self.forks != forks() {
            *self = Self { forks: forks(), ..Self::default() };
        }
        if self.blocks.len() >= Self::BLOCKS {
            self.blocks.clear();
        }
        let block = self.blocks.entry(tid / Self::BLOCK).or_default();
        let (word, bit) = (tid % Self::BLOCK / u64::BITS, 1 << (tid % u64::BITS));
        let Some(word) = block.get_mut(word as usize) else { return 0 };
        if *word & bit == 0 {
            *word |= bit;
            return 0;
        }
        self.reuses += 1;
        self.reuses
    }
}

/// Does not wait long: in a child after a fork, one of the parent's threads may have held the lock.
fn used() -> Option<MutexGuard<'static, Used>> {
    static USED: Mutex<Used> = Mutex::new(Used { forks: 0, blocks: BTreeMap::new(), reuses: 0 });
    (0..1000).find_map(|_| USED.try_lock().map_err(|_| thread::yield_now()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_again_is_told_apart_and_others_stay() {
        let mut used = Used::default();
        let mut number = |tid| {
            let reuse = used.add(tid);
            (ThreadIdentity { tid, reuse }.number(), reuse)
        };
        assert_eq!(
            [5000, 5001, 5000, 4_194_303].map(&mut number),
            [(5000, 0), (5001, 0), (10_005_000, 1), (4_194_303, 0)]
        );
        assert_eq!([5000, 5001].map(&mut number), [(20_005_000, 2), (20_005_001 + 10_000_000, 3)]);
        let numbers: Vec<_> = (4..=REUSES + 1).map(|_| number(5000)).collect();
        assert_eq!(numbers.last(), Some(&(10_005_000, REUSES + 1)), "after the last comes the first");
        assert!(numbers.iter().all(|(number, _)| *number <= i32::MAX as u32 && number % REUSED == 5000));
        // Of a system with other numbers.
        assert_eq!([u32::MAX, u32::MAX].map(number).map(|(number, _)| number), [u32::MAX; 2]);
    }

    #[test]
    fn however_many_threads_come_their_numbers_take_bounded_memory() {
        let mut used = Used::default();
        (0..(1 << 23)).step_by(512).for_each(|tid| _ = used.add(tid));
        assert!(used.blocks.len() <= Used::BLOCKS);
    }

    #[test]
    fn a_thread_keeps_its_identity() {
        let one =
            thread::spawn(|| [ThreadIdentity::current(); 2].map(|one| (one, ThreadIdentity::current())));
        for (one, other) in one.join().expect("a thread") {
            assert_eq!(one, other);
        }
    }
}
