//! Signals that a thread of the program acts on.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::process::id;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use signal_hook::consts::{SIGABRT, SIGHUP};
use signal_hook::iterator::{self, Handle};
pub use signal_hook::low_level::signal_name;
use signal_hook::{SigId, low_level};

use super::fork;
use super::steady_time;

/// The threads of one owner that act on signals. Dropping it ends none of them: see [`end`](Self::end).
#[derive(Debug, Default)]
pub struct SignalWatches(Mutex<Vec<Watching>>);

impl SignalWatches {
    /// Calls `act` on a thread of its own after each of these signals, and the program goes on. Signals that come
    /// meanwhile count as one. In a child after a fork nothing happens on them.
    ///
    /// # Errors
    /// A number that is no signal, or no thread. Signals that cannot be caught are the caller's fault: a panic.
    pub fn watch(&self, signals: &[i32], act: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        self.add(Watching::new(signals, None, act)?);
        Ok(())
    }

    /// The same for signals that end the program: after `act` they take their default action. Another of them, 500 ms
    /// or more after the first, takes it at once; SIGHUP, which comes more than once, counts as neither. So they do in
    /// a child, and once this has ended, unless watched elsewhere. On Linux, who aborts waits for `act`, 5 s.
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
        let ends = fork::while_nobody_forks(|| {
            signals.iter().try_for_each(|signal| default_unless_watched(*signal))
        });
        watched.and(ends)
    }

    fn add(&self, watching: Watching) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(watching);
    }

    /// Leaves the threads alone: in a child they do not exist.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }

    /// Acts on what came so far, and on nothing else.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(Watching::end);
    }
}

/// Handlers of signals, which note them down, and a thread that acts on what they noted.
#[derive(Debug)]
struct Watching {
    watch: Watch,
    handle: Handle,
    /// Of those that end the program.
    repeats: Option<Repeats>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    fn new(
        signals: &[i32],
        first: Option<&FirstSignal>,
        act: impl Fn(i32) + Send + 'static,
    ) -> io::Result<Self> {
        let mut noted = fork::while_nobody_forks(|| iterator::Signals::new(signals))?;
        let (handle, repeats) = (noted.handle(), first.map(|first| Repeats::of(signals, first)));
        // Not before: until then nothing notes them down, and they take their default action.
        let mut watching = Self { watch: Watch::of(signals), handle, repeats, thread: None };
        let spawned = thread::Builder::new().name("tracebuf-signals".into()).spawn(move || {
            noted.forever().for_each(&act);
            // Those that came last, before the end was seen.
            noted.pending().for_each(&act);
            // The last owner of the handlers, if what this did has ended it.
            fork::while_nobody_forks(|| drop(noted));
        });
        match spawned {
            Ok(thread) => watching.thread = Some(thread),
            Err(error) => {
                watching.end();
                return Err(error);
            }
        }
        Ok(watching)
    }

    /// Acts on what came so far, and on nothing else.
    fn end(self) {
        let Self { watch, handle, repeats, thread } = self;
        // First: what comes from here on takes its default action. The thread still sees what came before.
        drop(watch);
        handle.close();
        thread.into_iter().for_each(fork::join);
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

/// The number that watch in this process. Those that a child has from its parent do not count.
fn count_here(watchers: u64) -> u32 {
    if watchers >> 32 == u64::from(id()) { watchers as u32 } else { 0 }
}

/// Some signals that this process notes down, and for which it has or will have a thread, until this is dropped.
#[derive(Debug)]
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

/// For each signal, the handler that [`default_unless_watched`] made last.
static ENDS: Mutex<BTreeMap<i32, SigId>> = Mutex::new(BTreeMap::new());

/// Makes a signal take its default action where nothing in this process watches it: in children, which have the handler
/// but not the thread, and when the last watcher is gone. The system's handler is never taken away: without this the
/// signal would do nothing. To be called after a watcher's own handler is there, whose late notes are found here.
fn default_unless_watched(signal: i32) -> io::Result<()> {
    // Without waiting: in a child, a thread of the parent may have held it. A handler that is made then stays.
    let ends = ENDS.try_lock();
    let in_handler = move |told: &libc::siginfo_t| {
        if watchers(signal).is_some_and(|watchers| count_here(watchers.load(Ordering::Relaxed)) == 0) {
            // With a signal that it does not know, it does nothing.
            let _ = low_level::emulate_default_handler(signal);
        } else if signal == SIGABRT && cfg!(target_os = "linux") && told.si_code == -6 {
            // SI_TKILL: `abort` has raised it in this thread, and ends the program as soon as this returns. A watcher's
            // thread is to do so, when it has acted. What comes from elsewhere must not stop whatever thread this is.
            thread::sleep(Duration::from_secs(5));
        }
    };
    // SAFETY: signal handlers may load an atomic, sleep and ask for the process's id, and the documentation lets them call
    // what emulates the default. Nothing here allocates, locks or panics.
    let this = unsafe { signal_hook_registry::register_sigaction(signal, in_handler) }?;
    if let Some(before) = ends.ok().and_then(|mut ends| ends.insert(signal, this)) {
        // The new one, which comes after those of all watchers, serves for both.
        low_level::unregister(before);
    }
    Ok(())
}

/// The time of the first of some signals, while that is being acted on: in nanoseconds of the steady clock, otherwise
/// 0.
#[derive(Clone, Default)]
pub(super) struct FirstSignal(Arc<AtomicU64>);

impl FirstSignal {
    /// Notes a signal, in its handler; returns true if it is another request, 500 ms or more after the first. Before
    /// that it may be the same one: `timeout` sends each to the process and then to its group.
    pub(super) fn is_repeated(&self) -> bool {
        let now = steady_time();
        let first = self.0.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err();
        first.is_some_and(|first| {
            Duration::from_nanos(now.saturating_sub(first)) >= Duration::from_millis(500)
        })
    }

    /// To be called when the first has been acted on: it may not end the program, only stop it or do nothing.
    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Handlers by which signals that come again take their default action at once, until this is dropped.
#[derive(Debug)]
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
                if id() == process && first.is_repeated() {
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
