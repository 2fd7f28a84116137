//! Threads on their way from the source that meets them to the one that finds out what they are called.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// Numbers of threads that somebody is to look up. Clones are the same list.
///
/// ```
/// use tracebuf_machine::sources::ThreadNumbers;
///
/// let threads = ThreadNumbers::default();
/// threads.clone().add([7, 9, 7]);
/// assert_eq!(threads.take(), [7, 9]);
/// assert!(threads.take().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ThreadNumbers(Arc<List>);

/// Numbers that may come again before it is looked which have.
const FEW: usize = 4096;

#[derive(Debug)]
struct List {
    numbers: Mutex<Numbers>,
    /// Readable when there are some; `None` if the system has no room for it.
    filled: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Numbers {
    all: Vec<u32>,
    /// How many there were without those that came again.
    different: usize,
}

impl Default for List {
    fn default() -> Self {
        let filled = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Self { numbers: Mutex::default(), filled }
    }
}

impl ThreadNumbers {
    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds threads.
    pub fn add(&self, threads: impl IntoIterator<Item = u32>) {
        let mut numbers = self.lock();
        let was_empty = numbers.all.is_empty();
        numbers.all.extend(threads);
        // Perhaps nobody takes them: then there are no more than the system has numbers.
        if numbers.all.len() > 2 * numbers.different + FEW {
            numbers.all.sort_unstable();
            numbers.all.dedup();
            numbers.different = numbers.all.len();
        }
        if was_empty && !numbers.all.is_empty() {
            // Full only if nobody has looked for ages.
            let _ = self.0.filled.as_ref().map(|filled| rustix::io::write(filled, &1_u64.to_ne_bytes()));
        }
    }

    /// Takes them all out, each once, in ascending order.
    pub fn take(&self) -> Vec<u32> {
        let mut numbers = self.lock();
        let mut threads = std::mem::take(&mut *numbers).all;
        let _ = self.0.filled.as_ref().map(|filled| rustix::io::read(filled, &mut [0; 8]));
        drop(numbers);
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// A file that is readable as long as there are some to take.
    pub(super) fn filled(&self) -> Option<BorrowedFd<'_>> {
        self.0.filled.as_ref().map(OwnedFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn whoever_waits_for_threads_is_woken_once_for_all_that_have_come() {
        let threads = ThreadNumbers::default();
        let is_filled = || {
            let file = threads.filled().expect("a file");
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::from_borrowed_fd(file, PollFlags::IN)], Some(&now)).expect("an answer") == 1
        };
        threads.add([]);
        assert!(!is_filled());
        [[7], [9]].into_iter().for_each(|numbers| threads.add(numbers));
        assert!(is_filled() && is_filled());
        assert_eq!(threads.take(), [7, 9]);
        assert!(!is_filled());
        threads.add([7]);
        assert!(is_filled());
    }

    #[test]
    fn threads_that_nobody_takes_need_no_more_memory_than_there_are_numbers() {
        let threads = ThreadNumbers::default();
        (0..1_000_000).for_each(|number| threads.add([number % 1000]));
        assert!(threads.lock().all.capacity() < 20_000);
        assert_eq!(threads.take(), (0..1000).collect::<Vec<_>>());
    }
}
