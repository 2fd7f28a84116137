//! Signals that a thread of the program acts on: handlers note them down.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::process::id;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use signal_hook::consts::{FORBIDDEN, SIGBUS, SIGHUP};
use signal_hook::iterator::{self, Handle};
use signal_hook::{SigId, low_level};

use super::fork;
use super::steady_time;

/// The threads of one owner that act on signals. Dropping it ends none of them: see [`end`](Self::end).
#[derive(Default)]
pub struct SignalWatches(Mutex<Vec<Watching>>);

impl fmt::Debug for SignalWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalWatches").finish_non_exhaustive()
    }
}

impl SignalWatches {
    /// Calls `act` on a thread of its own after each of these signals, and the program goes on. Signals that come
    /// meanwhile count as one. In a child after a fork, which does not have the thread, nothing happens on them.
    ///
    /// # Errors
    /// A signal that cannot be caught, or no thread.
    pub fn watch(&self, signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        self.add(Watching::new(signals, None, act)?);
        Ok(())
    }

    /// The same for signals that end the program: after `act` they take their default action. If another of them comes
    /// 500 ms or more after the first, it takes that at once; SIGHUP, which is reported more than once, counts as
    /// neither. In a child, and once this has ended, they take it at once, unless the process watches them elsewhere.
    ///
    /// # Errors
    /// Those of [`watch`](Self::watch).
    pub fn watch_before_end(&self, signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        let first = FirstSignal::default();
        let acted_on = first.clone();
        let watching = Watching::new(signals, Some(&first), move |signal| {
            act(signal);
            // Before that action, which may stop the program for as long as somebody likes.
            acted_on.forget();
            // With a signal that it does not know, such as a real-time one, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        });
        let watched = watching.map(|watching| self.add(watching));
        // After an error too: those that have a handler by then would be ignored.
        let ends = signals.iter().try_for_each(|signal| default_unless_watched(*signal));
        watched.and(ends)
    }

    fn add(&self, watching: Watching) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(watching);
    }

    /// Leaves alone threads that are not in this process.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }

    /// Acts on what came so far, and on nothing else.
    pub fn end(&self) {
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
        let watch = Watch::of(signals);
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
        self.noted.end(|| fork::join(self.thread));
    }
}

/// The handlers of signals, which note them down.
struct Noted {
    watch: Watch,
    handle: Handle,
    /// Of those that end the program.
    repeats: Option<Repeats>,
}

impl Noted {
    fn end(self, join: impl FnOnce()) {
        let Self { watch, handle, repeats } = self;
        // First: what comes from here on takes its default action. The thread still sees what came before.
        drop(watch);
        handle.close();
        join();
        drop(repeats);
        // The last owner of the handlers.
        fork::while_nobody_forks(|| drop(handle));
    }
}

/// For each signal, how many watch it, and in which process: its id is the upper half.
static WATCHERS: [AtomicU64; 65] = [const { AtomicU64::new(0) }; 65];

fn watchers(signal: i32) -> Option<&'static AtomicU64> {
    WATCHERS.get(usize::try_from(signal).ok()?)
}

/// How many watch in this process. Those that a child has from its parent do not count.
fn count_here(watchers: u64) -> u32 {
    if watchers >> 32 == u64::from(id()) { watchers as u32 } else { 0 }
}

/// Fails if one of these signals cannot be caught.
pub fn check_signals(signals: &[i32]) -> io::Result<()> {
    // With others, `signal-hook` panics; a number below 128 that is no signal is an error of the system's.
    // `signal-hook` allows SIGBUS, raised by memory that is gone, but a program that returns from it would raise it
    // again.
    let can_be = |signal: &i32| (1..128).contains(signal) && !FORBIDDEN.contains(signal) && *signal != SIGBUS;
    match signals.iter().find(|signal| !can_be(signal)) {
        Some(signal) => {
            let message = format!("signal {signal} cannot be caught");
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        None => Ok(()),
    }
}

/// Some signals that this process notes down, and for which it has or will have a thread, until this is dropped.
struct Watch(Vec<i32>);

impl Watch {
    fn of(signals: &[i32]) -> Self {
        let watch = Self(signals.to_owned());
        watch.count(|count| count + 1);
        watch
    }

    fn count(&self, next: impl Fn(u32) -> u32) {
        let next = |watchers| Some(u64::from(id()) << 32 | u64::from(next(count_here(watchers))));
        for watchers in self.0.iter().filter_map(|signal| watchers(*signal)) {
            let _ = watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.count(|count| count.saturating_sub(1));
    }
}

/// For each signal, the handler that the function below made last.
static ENDS: Mutex<BTreeMap<i32, SigId>> = Mutex::new(BTreeMap::new());

/// Makes a signal take its default action where nothing in this process watches it: in children, which have the handler
/// but not the thread, and when the last watcher is gone. For the rest of the program: the system's handler is never
/// taken away, and without this the signal would do nothing.
///
/// To be called when a recorder's own handler is there: what that notes down too late for its thread is found here.
fn default_unless_watched(signal: i32) -> io::Result<()> {
    fork::while_nobody_forks(|| replace_default(signal))
}

fn replace_default(signal: i32) -> io::Result<()> {
    // Does not wait: in a child, one of the parent's threads may have held it. A handler that is made then, or by two
    // threads at once, stays.
    let ends = ENDS.try_lock();
    let in_handler = move || {
        if watchers(signal).is_some_and(|watchers| count_here(watchers.load(Ordering::Relaxed)) == 0) {
            // With a signal that it does not know, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: signal handlers may load an atomic and ask for the process's id, and the documentation lets them call
    // what emulates the default. Nothing here allocates, locks or panics.
    let this = unsafe { low_level::register(signal, in_handler) }?;
    if let Some(before) = ends.ok().and_then(|mut ends| ends.insert(signal, this)) {
        // The new one, which comes after those of all recorders, serves for both.
        low_level::unregister(before);
    }
    Ok(())
}

/// Repeats of a signal within this time are the same request: `timeout` sends each to the process and then to its
/// group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// When the first of some signals came, while that is being acted on: in nanoseconds of the steady clock, otherwise 0.
#[derive(Clone, Default)]
struct FirstSignal(Arc<AtomicU64>);

impl FirstSignal {
    /// To be called once the snapshot is written: the program may go on, as some signals only stop it or do nothing.
    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Handlers by which signals that come again take their default action at once, until this is dropped.
struct Repeats(Vec<SigId>);

impl Repeats {
    /// For signals that have a handler by now: otherwise they would do nothing until they have another.
    fn of(signals: &[i32], first: &FirstSignal) -> Self {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::fork::tests::in_child;
    use super::*;

    #[test]
    fn a_child_may_watch_signals_though_other_threads_were_about_to() {
        fork::watch();
        let (begun, forked) = (std::sync::Barrier::new(3), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begun.wait();
                    while !forked.load(Ordering::Relaxed) {
                        default_unless_watched(libc::SIGWINCH).expect("a handler");
                    }
                });
            }
            begun.wait();
            let mut children = (0..20).map(|_| in_child(|| default_unless_watched(libc::SIGURG).is_ok()));
            let done = children.all(|done| done);
            forked.store(true, Ordering::Relaxed);
            assert!(done);
        });
    }
}
