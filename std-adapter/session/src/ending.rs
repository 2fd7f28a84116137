//! The end of a session that nobody stops: at the process's exit, or on a signal.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::at_exit::AtExit;
use crate::at_signal::{AtSignal, check_signals};
use crate::drain::Drain;
use crate::error::SessionError;
use crate::recording_gate::RecordingGate;
use crate::waits::Waker;
use tracebuf_std::signals::SignalWatches;

/// The drain thread, until somebody ends it. Locked until that is done: who comes second waits for it.
pub(crate) type DrainThread = Arc<Mutex<Option<JoinHandle<Option<Drain>>>>>;

/// Completes a long trace when the process ends by itself, and on signals if it is told to, until it is dropped.
#[derive(Default)]
pub(crate) struct Ending {
    at_exit: Option<AtExit>,
    signals: SignalWatches,
}

/// What it takes to end a session.
#[derive(Clone)]
struct End {
    gate: Arc<RecordingGate>,
    waker: Waker,
    thread: DrainThread,
}

impl Ending {
    /// Completes the trace of this session.
    ///
    /// # Errors
    /// Signals that cannot be caught, or no memory for the handler.
    pub(crate) fn of(
        gate: &Arc<RecordingGate>,
        waker: &Waker,
        thread: &DrainThread,
        signals: &[i32],
    ) -> Result<Self, SessionError> {
        let end = End { gate: gate.clone(), waker: waker.clone(), thread: thread.clone() };
        let at_end = end.clone();
        let at_exit = AtExit::new(move || at_end.complete());
        let at_exit = at_exit.map_err(|error| SessionError::io("waiting for the process's end", error))?;
        let ending = Self { at_exit: Some(at_exit), signals: SignalWatches::default() };
        if !signals.is_empty() {
            // Flight recorders that watch the same signals still need the session.
            let at_signal = AtSignal::new(signals);
            let complete = move |signal| at_signal.complete_last(signal, || end.complete());
            let watched =
                check_signals(signals).and_then(|()| ending.signals.watch_before_end(signals, complete));
            watched.map_err(|error| SessionError::io("completing the long trace on signals", error))?;
        }
        Ok(ending)
    }

    /// In a child nothing is to be completed: the threads are not there.
    pub(crate) fn forget(&mut self) {
        self.signals.forget();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.at_exit = None;
        self.signals.end();
    }
}

impl End {
    fn complete(&self) {
        if !self.gate.is_here() || self.waker.is_current() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = thread.take() else { return };
        self.gate.end();
        self.waker.wake();
        if let Ok(Some(mut drain)) = running.join() {
            drain.finish();
        }
    }
}
