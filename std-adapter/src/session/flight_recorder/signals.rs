//! Signals on which a flight recorder writes. They are noted down by a handler, and acted on by a thread.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use signal_hook::iterator::{self, Handle};

use super::FlightRecorder;
use crate::fork;
use crate::session::SessionError;
use crate::session::waits::join;

impl FlightRecorder {
    /// From now on, each of these signals writes a snapshot `signal-NUMBER`, and the program goes on. Signals
    /// that come while one is written count as one.
    ///
    /// In a child after a fork, where the thread for it is not, nothing happens on them; nor when this recorder is
    /// gone, unless another one watches them.
    ///
    /// Not for those of a crash (SIGSEGV, SIGILL, SIGFPE, SIGBUS), which are refused: nothing can be trusted then. Not
    /// on Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, no thread, or a child after a fork.
    pub fn on_signals(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        self.watch(signals, |_| ())
    }

    /// The same for signals that end the program: when the snapshot is written, they do what they do by default.
    ///
    /// In a child after a fork, and when this recorder is gone, they do that at once, unless another recorder of the
    /// process watches them; also where it has handlers of the crate `signal-hook` for them. Not on Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, no thread, or a child after a fork.
    pub fn before_ending_on(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        let watched = self.watch(signals, |signal| {
            // It is one that was caught, so it can be done.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        });
        // After an error too: what has a handler by then would be ignored.
        let ends = signals.iter().try_for_each(|signal| fork::default_unless_watched(*signal));
        watched.and(ends)
    }

    fn check_signals(&self, signals: &[i32]) -> io::Result<()> {
        fork::check_signals(signals)?;
        // In a child nothing changes, and a thread of the parent's may have had the locks of handlers.
        if self.inner.is_here() { Ok(()) } else { Err(io::Error::other(SessionError::Forked)) }
    }

    fn watch(&self, signals: &[i32], then: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        let inner = self.inner.clone();
        let watching = Watching::new(signals, move |signal| {
            inner.report(&format!("signal-{signal}"), None);
            then(signal);
        })?;
        self.signals.add(watching);
        Ok(())
    }
}

/// What a recorder watches.
#[derive(Default)]
pub(super) struct Signals(Mutex<Vec<Watching>>);

impl Signals {
    fn add(&self, watching: Watching) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(watching);
    }

    /// Leaves threads alone that are not in this process.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }

    /// Acts on what came so far, and on nothing more.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(Watching::end);
    }
}

/// A thread that waits for signals.
struct Watching {
    noted: Noted,
    thread: JoinHandle<()>,
}

impl Watching {
    fn new(signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals_noted = fork::while_nobody_forks(|| iterator::Signals::new(signals))?;
        // Not before: until then nobody notes them down, and they do what they do by default.
        let watch = fork::Watch::of(signals);
        let noted = Noted { handle: signals_noted.handle(), watch };
        let spawned = thread::Builder::new().name("tracebuf-signals".into()).spawn(move || {
            signals_noted.forever().for_each(&act);
            // Those that came last, before the end was seen.
            signals_noted.pending().for_each(&act);
            // The last that has the handlers, where what this did has ended it.
            fork::while_nobody_forks(|| drop(signals_noted));
        });
        match spawned {
            Ok(thread) => Ok(Self { noted, thread }),
            Err(error) => {
                noted.end(|| ());
                Err(error)
            }
        }
    }

    /// Acts on what came so far, and on nothing more.
    fn end(self) {
        self.noted.end(|| join(self.thread));
    }
}

/// The handlers of signals, which note them down.
struct Noted {
    watch: fork::Watch,
    handle: Handle,
}

impl Noted {
    fn end(self, join: impl FnOnce()) {
        let Self { watch, handle } = self;
        // First: what comes from here on does what it does by default. The thread still sees what came before.
        drop(watch);
        handle.close();
        join();
        // The last that has them.
        fork::while_nobody_forks(|| drop(handle));
    }
}
