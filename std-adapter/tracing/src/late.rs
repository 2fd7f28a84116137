//! Spans that were made or entered while a relay led nowhere: once it leads to a session, they begin there, at
//! the time at which they really did.

use std::cell::Cell;

use tracebuf_session::parts::{BufferId, NO_BUFFER};
use tracebuf_session::{EventTime, Recorder, ThreadTracer};

use super::frontend::Frontend;

thread_local! {
    /// How many of the thread's spans have a slice that is still to begin.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// The time at which something began that is recorded later; 0 if it was recorded then, or never will be.
#[derive(Debug)]
pub(super) struct Since(u64);

impl Since {
    pub(super) const RECORDED: Self = Self(0);

    /// Now, if a relay may lead somewhere later.
    pub(super) fn now(frontend: &Frontend) -> Self {
        let recorder = &frontend.recorder;
        let waits = !recorder.is_on() && recorder.goes_on();
        Self(if waits { EventTime::now().as_nanoseconds().max(1) } else { 0 })
    }

    pub(super) const fn number(&self) -> u64 {
        self.0
    }

    pub(super) const fn waits(&self) -> bool {
        self.0 != 0
    }
}

/// A slice's time on a thread's list of spans, which is counted there as long as it waits.
#[derive(Debug)]
pub(super) struct Waiting(Since);

impl Waiting {
    pub(super) const RECORDED: Self = Self(Since::RECORDED);

    pub(super) fn now(frontend: &Frontend) -> Self {
        let since = Since::now(frontend);
        if since.waits() {
            let _ = WAITING.try_with(|waiting| waiting.set(waiting.get() + 1));
        }
        Self(since)
    }

    pub(super) const fn waits(&self) -> bool {
        self.0.waits()
    }

    /// The time; from then on it waits no more.
    pub(super) fn take(&mut self) -> u64 {
        let time = std::mem::replace(&mut self.0, Since::RECORDED).number();
        if time != 0 {
            let _ = WAITING.try_with(|waiting| waiting.set(waiting.get().saturating_sub(1)));
        }
        time
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.take();
    }
}

/// Whether the thread is in a span whose slice is still to begin.
#[inline(always)]
pub(super) fn is_waited_for() -> bool {
    WAITING.try_with(Cell::get).is_ok_and(|waiting| waiting > 0)
}

/// Begins a slice of an earlier time, and returns its buffer: none if that is lost.
pub(super) fn begun(recorder: &Recorder, begin: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>)) -> BufferId {
    let mut buffer = recorder.buffer_id();
    let is_written = recorder.with_in(&mut buffer, |tracer| {
        let lost = || {
            let stats = tracer.stats();
            (stats.writer.dropped, stats.skipped)
        };
        let before = lost();
        let has_room = tracer.make_up_for_ends();
        if has_room {
            begin(tracer);
        }
        has_room && lost() == before
    });
    if is_written == Some(true) { buffer } else { NO_BUFFER }
}
