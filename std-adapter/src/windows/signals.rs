//! Signals, of which Windows has none that a program could act on.

use std::io;

/// No threads that act on signals.
#[derive(Debug, Default)]
pub struct SignalWatches;

impl SignalWatches {
    /// # Errors
    /// Always: there are no signals.
    pub fn watch(&self, _: &[i32], _: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Errors
    /// Always: there are no signals.
    pub fn watch_before_end(&self, signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        self.watch(signals, act)
    }

    /// Forgets nothing.
    pub fn forget(&mut self) {}

    /// Ends nothing.
    pub fn end(&self) {}
}

/// # Errors
/// Always: there are no signals.
pub fn check_signals(_: &[i32]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
