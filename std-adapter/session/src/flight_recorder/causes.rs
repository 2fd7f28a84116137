//! Causes of a snapshot that the program does not call for: panics and signals. Each leaves a mark in the trace first.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tracebuf::producer::track_event::{Details, LogMessage, LogPriority};

use super::FlightRecorder;
use super::write::{Inner, report};
use crate::at_signal::{AtSignal, check_signals, name_of};
use crate::error::SessionError;
use crate::recorder::Recorder;
use crate::waits::without_waiting;
use tracebuf_std::system::thread_id;

/// The longest that a thread waits for the snapshot of its panic.
const PANIC: Duration = Duration::from_secs(10);

/// Most bytes of a backtrace in a trace: more than there are of those that anybody reads.
const BACKTRACE: usize = 16 << 10;

impl FlightRecorder {
    /// Writes a snapshot `panic` when any thread panics, before the previous hook runs: that may end the program. The
    /// thread waits for it, at most 10 s. The trace has a line of the log and an instant `panic` on the thread's track:
    /// message, place, thread, and the backtrace if `RUST_BACKTRACE` asks for it.
    ///
    /// A second call changes nothing, nor does one in a thread that is panicking. A panic within a
    /// [`Transport`](crate::Transport) ends the session: no trace is written.
    pub fn on_panic(&self) {
        let inner = self.inner();
        if !inner.is_here() || thread::panicking() || inner.hears_panics.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::downgrade(inner);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if let Some(inner) = inner.upgrade().filter(|inner| inner.is_here() && !inner.state().has_ended) {
                panicked(&inner, info);
            }
            before(info);
        }));
    }

    /// Writes a snapshot on each of these signals, and the program goes on. The reason is the signal's name, `SIGUSR1`,
    /// or `signal-40` for one without a name; an instant and a line of the log with that name are in the trace. Signals
    /// that come while one is being written count as one. In a child after a fork, and once this recorder is gone, they
    /// do nothing. Not available on Windows.
    ///
    /// # Errors
    /// A signal that cannot be caught, that tells of a crash, or SIGABRT, after which no program goes on; no thread, or
    /// a child after a fork.
    pub fn on_signals(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        if signals.iter().any(|signal| name_of(*signal) == "SIGABRT") {
            let why = "SIGABRT ends the program once it was caught: use `before_ending_on`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // Another recorder may watch it before it ends the program.
        let (inner, at_signal) = (self.inner().clone(), AtSignal::new(signals));
        self.signals.watch(signals, move |signal| {
            at_signal.complete(signal, || came(&inner, signal, false));
        })
    }

    /// Like [`on_signals`](Self::on_signals), for signals that end the program: once the snapshot is written, as are
    /// triggers that wait, they take their default action. If other recorders of the process watch the signal too,
    /// theirs are written first. Real-time signals, whose default action the crate `signal-hook` does not know, only
    /// write a snapshot.
    ///
    /// With SIGABRT, a thread that calls `std::process::abort` or fails an `assert` of C waits for the snapshot, on Linux
    /// and at most 5 s: there may be none if that thread holds what is needed for it.
    ///
    /// Writing may hang. So if another of these signals, except SIGHUP, comes 500 ms or more after the first, as with a
    /// second Ctrl-C, it takes its default action at once, and a hidden part of the snapshot remains. So do all of them
    /// in a child after a fork, and once this recorder is gone, unless another recorder watches them.
    ///
    /// # Errors
    /// As for [`on_signals`](Self::on_signals), except SIGABRT.
    pub fn before_ending_on(&self, signals: &[i32]) -> io::Result<()> {
        self.check_signals(signals)?;
        let (inner, at_signal) = (self.inner().clone(), AtSignal::new(signals));
        self.signals.watch_before_end(signals, move |signal| {
            at_signal.complete(signal, || {
                came(&inner, signal, true);
                inner.write_waiting(None);
            });
        })
    }

    fn check_signals(&self, signals: &[i32]) -> io::Result<()> {
        check_signals(signals)?;
        // In a child nothing changes, and a thread of the parent may have held the locks of handlers.
        if self.inner().is_here() { Ok(()) } else { Err(io::Error::other(SessionError::Forked)) }
    }
}

/// Marks a signal and writes its snapshot; if it does not end the program, perhaps later.
fn came(inner: &Inner, signal: i32, ends: bool) {
    if !inner.is_here() {
        return;
    }
    let name = name_of(signal);
    if let Some(session) = inner.session.upgrade() {
        let text = format!("received {name}");
        let text = LogMessage::new(LogPriority::Warn, text);
        mark(&session.recorder(), &name, text, |event| event.arg("signal", signal));
    }
    if let Some(begun) = inner.begin_or_ask(&name, ends) {
        report(&name, &inner.write(None, begun, None));
    }
}

/// Records an instant and a line of the log. False: it is not there, because this thread is within another event, or
/// for want of room.
fn mark(
    recorder: &Recorder,
    name: &str,
    text: LogMessage<'static, impl fmt::Display>,
    details: impl for<'a> Details<'a>,
) -> bool {
    let is_there = recorder.with(|tracer| {
        let lost = || (tracer.reentered(), tracer.stats().writer.dropped);
        let before = lost();
        tracer.log_with("", text, |event| details(event.name(name)));
        lost() == before
    });
    is_there == Some(true)
}

struct Panic {
    message: String,
    place: String,
    thread: String,
    backtrace: String,
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let backtrace = Backtrace::capture();
        let is_captured = backtrace.status() == BacktraceStatus::Captured;
        let mut backtrace = if is_captured { backtrace.to_string() } else { String::new() };
        let end = (0..=BACKTRACE.min(backtrace.len())).rfind(|end| backtrace.is_char_boundary(*end));
        backtrace.truncate(end.unwrap_or(0));
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        // As its track is called.
        let thread =
            thread::current().name().map_or_else(|| format!("thread {}", thread_id()), str::to_owned);
        Self { message: text_of(info.payload()).to_owned(), place, thread, backtrace }
    }

    fn mark(&self, recorder: &Recorder) -> bool {
        let text = LogMessage::new(LogPriority::Fatal, self);
        mark(recorder, "panic", text, |event| {
            event.arg("message", &self.message[..]).arg("location", &self.place[..]);
            event.arg("thread", &self.thread[..]);
            if self.backtrace.is_empty() { event } else { event.arg("backtrace", &self.backtrace[..]) }
        })
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, place, thread, backtrace } = self;
        let end = if backtrace.is_empty() { "" } else { "\n" };
        write!(f, "thread '{thread}' panicked at {place}: {message}{end}{backtrace}")
    }
}

/// What a panic says, if it is a text.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a value that is no text")
}

/// Marks a panic in its thread, and writes its snapshot or leaves it for later.
fn panicked(inner: &Arc<Inner>, info: &PanicHookInfo<'_>) {
    let Some(session) = inner.session.upgrade() else {
        return report("panic", &Err(SessionError::Stopped));
    };
    if session.waker().is_current() {
        // The thread that would answer is this one, and is about to end.
        return report("panic", &Err(SessionError::Stopped));
    }
    let panic = Panic::of(info);
    let recorder = session.recorder();
    drop(session);
    let mut is_marked = false;
    // The drain thread may want what this one has locked.
    without_waiting(|| is_marked = panic.mark(&recorder));
    // Without unwinding, this is the last thing that the program does.
    let begun = inner.begin_or_ask("panic", cfg!(panic = "abort"));
    if is_marked && begun.is_none() {
        return;
    }
    // By another thread: this one may be within an event, and must not wait for ever.
    let (writes, (sender, receiver)) = (inner.clone(), sync_channel(1));
    let (is_begun, by_itself) = (begun.is_some(), begun.clone());
    let write = move || {
        if !is_marked {
            panic.mark(&recorder);
        }
        if let Some(begun) = begun {
            let _ = sender.send(writes.write(None, begun, None));
        }
    };
    let written = match thread::Builder::new().name("tracebuf-panic".into()).spawn(write) {
        Ok(_) => receiver.recv_timeout(PANIC).unwrap_or(Err(SessionError::Timeout)),
        Err(_) => by_itself.map_or(Err(SessionError::Stopped), |begun| inner.write(None, begun, None)),
    };
    if is_begun {
        // Told by this thread, which may have standard error locked.
        report("panic", &written);
    }
}
