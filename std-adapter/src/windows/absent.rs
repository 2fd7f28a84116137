//! Forks, signals and locks beside an open file, of which Windows has none.
//! Files are locked by how they are opened.

/// Forks: none.
pub mod fork {
    use std::{fs::File, io};

    pub use crate::waits::join;

    /// Does nothing.
    pub fn watch() {}

    /// No forks.
    #[inline]
    pub fn forks() -> u32 {
        0
    }

    /// Does the work.
    pub fn while_nobody_forks<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Memory in a file, of which children would get a copy.
    #[derive(Debug)]
    pub enum CopyInChildren {}

    impl CopyInChildren {
        /// Always fails.
        pub fn of(_: usize, _: usize, _: &File, _: u64) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

/// Signals: none.
pub mod signals {
    use std::io;

    /// No threads that act on signals.
    #[derive(Debug, Default)]
    pub struct SignalWatches;

    impl SignalWatches {
        /// Always fails.
        pub fn watch(&self, _: &[i32], _: impl Fn(i32) + Send + 'static) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Always fails.
        pub fn watch_before_end(&self, _: &[i32], _: impl Fn(i32) + Send + 'static) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Does nothing.
        pub fn forget(&mut self) {}

        /// Does nothing.
        pub fn end(&self) {}
    }

    /// Signals have no names.
    pub fn signal_name(_: i32) -> Option<&'static str> {
        None
    }
}

/// Locks: none.
pub mod file_lock {
    use std::{fs::File, io, path::Path};

    /// A lock beside the open file.
    #[derive(Debug)]
    pub enum Lock {}

    impl Lock {
        /// Always fails.
        pub fn new(_: &File, _: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// `None`: the file is already locked.
        pub fn where_possible(_: &File, _: &Path) -> io::Result<Option<Self>> {
            Ok(None)
        }
    }

    /// A lock for a moment.
    #[derive(Debug)]
    pub struct Held<'f>(std::marker::PhantomData<&'f File>);

    /// Always fails.
    pub fn lock(_: &File) -> io::Result<Held<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
