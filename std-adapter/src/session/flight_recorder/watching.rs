//! Signals are noted down by a handler, and acted on by a thread.

use std::io;
use std::thread::{self, JoinHandle};

use signal_hook::iterator::{Handle, Signals};

use crate::fork;
use crate::session::waits::join;

/// A thread that waits for signals.
pub(super) struct Watching {
    noted: Noted,
    thread: JoinHandle<()>,
}

impl Watching {
    pub(super) fn new(signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals_noted = fork::while_nobody_forks(|| Signals::new(signals))?;
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
    pub(super) fn end(self) {
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
