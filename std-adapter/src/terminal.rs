//! What commands that run for a while have in common: an end on request, and a line that tells how it goes.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by Ctrl-C or SIGTERM, to end cleanly; the second time, for one who is in a hurry, ends at once. Without
/// handlers the command can still run to its end.
pub(crate) fn stop_on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let _ = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    stop
}

/// A line on standard error that is written over and over, if anybody sees it; ended when dropped.
pub(crate) struct ProgressLine {
    seen: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { seen: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, progress: &impl Display) {
        if self.seen {
            // The rest of a longer line before is erased.
            eprint!("\r{progress}\x1b[K");
            let _ = io::stderr().flush();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.seen {
            eprintln!();
        }
    }
}
