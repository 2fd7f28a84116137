//! Forks, of which Windows has none: a process owns what it made, and no other has it.

use std::fs::File;
use std::io;

/// Begins to count forks.
pub fn watch() {}

/// Forks between the first process that watched and this one.
#[inline]
pub fn forks() -> u32 {
    0
}

/// Does work that no fork must interrupt.
pub fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Memory in a file, of which children would get a copy.
#[derive(Debug)]
pub enum CopyInChildren {}

impl CopyInChildren {
    /// # Errors
    /// Always: there is no such memory.
    pub fn of(_: usize, _: usize, _: &File, _: u64) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Waits for a thread's end, unless it is this one.
pub fn join(thread: std::thread::JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}
