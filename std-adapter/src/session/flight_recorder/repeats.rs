//! Signals that come again, from someone in a hurry.
#![allow(unsafe_code)]

use std::process::id;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGHUP;
use signal_hook::{SigId, low_level};

use crate::fork;
use crate::system::steady_time;

/// Repeats of a signal within this time are the same request: `timeout` sends each to the process and then to its
/// group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// When the first of some signals came, while that is being acted on: in nanoseconds of the steady clock, otherwise 0.
#[derive(Clone, Default)]
pub(super) struct FirstSignal(Arc<AtomicU64>);

impl FirstSignal {
    /// To be called once the snapshot is written: the program may go on, as some signals only stop it or do nothing.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Handlers by which signals that come again take their default action at once, until this is dropped.
pub(super) struct Repeats(Vec<SigId>);

impl Repeats {
    /// For signals that have a handler by now: otherwise they would do nothing until they have another.
    pub(super) fn of(signals: &[i32], first: &FirstSignal) -> Self {
        // A terminal's end is reported more than once, by the system and by the shell: that is no sign of a hurry.
        let signals = signals.iter().copied().filter(|signal| *signal != SIGHUP);
        let register = |signal| {
            let (first, process) = (first.clone(), id());
            let in_handler = move || {
                // A child has the handler, but not what the first signal has begun.
                if id() != process {
                    return;
                }
                let now = steady_time();
                let before = first.0.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err();
                let since = before.map(|before| Duration::from_nanos(now.saturating_sub(before)));
                if since.is_some_and(|since| since >= SAME_REQUEST) {
                    // With a signal that it does not know, such as a real-time one, it does nothing.
                    let _ = low_level::emulate_default_handler(signal);
                }
            };
            // SAFETY: signal handlers may read the clock, ask for the process's id and change atomics, and the
            // documentation lets them call what emulates the default. Nothing here allocates, locks or panics.
            fork::while_nobody_forks(|| unsafe { low_level::register(signal, in_handler) })
        };
        // Since the signal has a handler, another one is no error.
        Self(signals.flat_map(register).collect())
    }
}

impl Drop for Repeats {
    fn drop(&mut self) {
        for handler in self.0.drain(..) {
            fork::while_nobody_forks(|| low_level::unregister(handler));
        }
    }
}
