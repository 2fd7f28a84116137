//! Signals on which a flight recorder writes a snapshot.

use std::io;

use tracebuf_std::signals;

use super::FlightRecorder;
use crate::SessionError;

impl FlightRecorder {
    /// From now on, each of these signals writes a snapshot `signal-NUMBER`, and the program goes on. Signals that come
    /// while one is being written count as one.
    ///
    /// In a child after a fork, which does not have the thread for it, nothing happens on them; nor once this recorder
    /// is gone, unless another one watches them.
    ///
    /// Signals of a crash (SIGSEGV, SIGILL, SIGFPE, SIGBUS) are refused: nothing can be trusted then. Not available on
    /// Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, no thread, or a child after a fork.
    pub fn on_signals(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        self.signals.watch(signals, self.on_signal())
    }

    /// Like [`on_signals`](Self::on_signals), for signals that end the program: once the snapshot is written, they take
    /// their default action.
    ///
    /// Writing may take long, or never end, as on a file system that hangs. So if another of these signals comes 500 ms
    /// or more after the first, as with a second Ctrl-C, it takes its default action at once, and the snapshot remains
    /// a [part](crate::Snapshot::write_to). SIGHUP counts neither as the first nor as another: a terminal's end
    /// is reported more than once. Real-time signals, whose default action the crate `signal-hook` does not know, only
    /// write a snapshot.
    ///
    /// In a child after a fork, and once this recorder is gone, they take it at once, unless another recorder of the
    /// process watches them; that is so even where the process has handlers of the crate `signal-hook` for them. Not
    /// available on Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, no thread, or a child after a fork.
    pub fn before_ending_on(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        self.signals.watch_before_end(signals, self.on_signal())
    }

    fn on_signal(&self) -> impl Fn(i32) + Send + 'static {
        let inner = self.inner.clone();
        move |signal| inner.report(&format!("signal-{signal}"), None)
    }

    fn check_signals(&self, signals: &[i32]) -> io::Result<()> {
        signals::check_signals(signals)?;
        // In a child nothing changes, and a thread of the parent may have held the locks of handlers.
        if self.inner.is_here() { Ok(()) } else { Err(io::Error::other(SessionError::Forked)) }
    }
}
