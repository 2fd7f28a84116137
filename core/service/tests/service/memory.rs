//! Memory that a service has, counted.

use std::cell::Cell;
use std::rc::Rc;

use tracebuf::producer::AtomicU32;

/// Memory of both a service and a producer.
pub type SharedWords = Rc<[AtomicU32]>;

/// A buffer's memory, which is counted.
pub struct Memory(Vec<u8>, Rc<Cell<usize>>);

impl Memory {
    pub fn new(bytes: usize, count: Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(vec![0; bytes], count)
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

pub fn words(bytes: usize) -> SharedWords {
    (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
}
