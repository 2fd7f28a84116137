//! Threads on their way from the source that meets them to the one that finds out what they are called.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
pub struct ThreadNumbers(Arc<Mutex<Vec<u32>>>);

impl ThreadNumbers {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds threads.
    pub fn add(&self, threads: impl IntoIterator<Item = u32>) {
        self.lock().extend(threads);
    }

    /// Takes them all out, each once, in ascending order.
    pub fn take(&self) -> Vec<u32> {
        let mut threads = std::mem::take(&mut *self.lock());
        threads.sort_unstable();
        threads.dedup();
        threads
    }
}
