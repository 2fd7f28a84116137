//! Signals on which a flight recorder writes. A handler notes them down, and a thread acts on them.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use signal_hook::iterator::{self, Handle};

use super::FlightRecorder;
use super::repeats::{FirstSignal, Repeats};
use crate::fork;
use crate::session::SessionError;
use crate::session::waits::join;

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
        self.watch(signals, None, |_| ())
    }

    /// Like [`on_signals`](Self::on_signals), for signals that end the program: once the snapshot is written, they take
    /// their default action.
    ///
    /// Writing may take long, or never end, as on a file system that hangs. So if another of these signals comes 500 ms
    /// or more after the first, as with a second Ctrl-C, it takes its default action at once, and the snapshot remains
    /// a [part](super::super::Snapshot::write_to). SIGHUP counts neither as the first nor as another: a terminal's end
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
        let first = FirstSignal::default();
        let acted_on = first.clone();
        let watched = self.watch(signals, Some(&first), move |signal| {
            // Before that action, which may stop the program for as long as somebody likes.
            acted_on.forget();
            // With a signal that it does not know, such as a real-time one, it does nothing.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        });
        // After an error too: those that have a handler by then would be ignored.
        let ends = signals.iter().try_for_each(|signal| fork::default_unless_watched(*signal));
        watched.and(ends)
    }

    fn check_signals(&self, signals: &[i32]) -> io::Result<()> {
        fork::check_signals(signals)?;
        // In a child nothing changes, and a thread of the parent may have held the locks of handlers.
        if self.inner.is_here() { Ok(()) } else { Err(io::Error::other(SessionError::Forked)) }
    }

    fn watch(
        &self,
        signals: &[i32],
        first: Option<&FirstSignal>,
        then: impl Fn(i32) + Send + 'static,
    ) -> io::Result<()> {
        let inner = self.inner.clone();
        let watching = Watching::new(signals, first, move |signal| {
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

    /// Leaves alone threads that are not in this process.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }

    /// Acts on what came so far, and on nothing else.
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
    fn new(
        signals: &[i32],
        first: Option<&FirstSignal>,
        act: impl Fn(i32) + Send + 'static,
    ) -> io::Result<Self> {
        let mut signals_noted = fork::while_nobody_forks(|| iterator::Signals::new(signals))?;
        let repeats = first.map(|first| Repeats::of(signals, first));
        // Not before: until then nothing notes them down, and they take their default action.
        let watch = fork::Watch::of(signals);
        let noted = Noted { handle: signals_noted.handle(), watch, repeats };
        let spawned = thread::Builder::new().name("tracebuf-signals".into()).spawn(move || {
            signals_noted.forever().for_each(&act);
            // Those that came last, before the end was seen.
            signals_noted.pending().for_each(&act);
            // The last owner of the handlers, if what this did has ended it.
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

    /// Acts on what came so far, and on nothing else.
    fn end(self) {
        self.noted.end(|| join(self.thread));
    }
}

/// The handlers of signals, which note them down.
struct Noted {
    watch: fork::Watch,
    handle: Handle,
    /// Of those that end the program.
    repeats: Option<Repeats>,
}

impl Noted {
    fn end(self, join: impl FnOnce()) {
        let Self { watch, handle, repeats } = self;
        // FirstSignal: what comes from here on takes its default action. The thread still sees what came before.
        drop(watch);
        handle.close();
        join();
        drop(repeats);
        // The last owner of the handlers.
        fork::while_nobody_forks(|| drop(handle));
    }
}
