//! Tasks of whatever runs them: which one runs, since when it waits, when the core is idle.
//!
//! The hooks of embassy, of `rtos-trace` and of C call this; so may any scheduler of your own. Each task has a track of
//! its name, with a slice `runs` whenever it runs: what share of the time that is, ui.perfetto.dev sums up. Any priority
//! may call it: one writer is taken for the length of an event, in a critical section. What tasks record themselves goes
//! through writers of their own.
//!
//! ```
//! use static_cell::StaticCell;
//! use tracebuf_embedded::inplace::{Recorder, Region, Writer};
//! use tracebuf_embedded::tasks;
//!
//! type Trace = Region<64, 128, 32>;
//! static TRACE: Trace = Region::zeroed(); // on a target, in the section .uninit
//! static WRITER: StaticCell<Writer<'static, Trace, fn() -> u32>> = StaticCell::new();
//!
//! let recorder = Recorder::new(&TRACE, (|| 5) as fn() -> u32, 1_000_000);
//! tasks::record(WRITER.init(recorder.writer("scheduler")));
//!
//! // What a scheduler calls:
//! tasks::created(1, "blinky");
//! tasks::begins(1);
//! tasks::ends();
//! tasks::idle(0);
//! ```

use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, Ordering};
use critical_section::Mutex;
use heapless::Vec;
use tracebuf::NewTracks;
use tracebuf::inplace::TrackId;

/// Tasks, executors and interrupts whose tracks are remembered. Of others, events go to a track `others`.
pub const TRACKS: usize = 32;
/// Tasks and interrupts that may interrupt one another. What is deeper is not shown.
pub const DEPTH: usize = 8;

/// A writer for [`record`]: that of a recorder in place, whatever its region and its timer.
pub type Writer = dyn NewTracks<Track = TrackId> + Send;

/// What happens at a marker.
#[cfg(feature = "rtos-trace")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Marker {
    Instant,
    Begin,
    End,
}

/// What a track is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Task(u32),
    Executor(u32),
    Interrupt(u32),
    #[cfg(feature = "rtos-trace")]
    Marker(u32),
}

struct Hooks {
    writer: &'static mut Writer,
    others: TrackId,
    tracks: Vec<(Of, TrackId), TRACKS>,
    /// Tasks that run, each interrupted by the next.
    running: Vec<TrackId, DEPTH>,
    /// Tasks that run beyond these.
    deeper: u32,
    /// Executors that are idle.
    idle: Vec<TrackId, DEPTH>,
}

static HOOKS: Mutex<RefCell<Option<Hooks>>> = Mutex::new(RefCell::new(None));
static LOST: AtomicU32 = AtomicU32::new(0);

/// Begins recording tasks, with a writer that nobody else uses. What happened before is not known.
pub fn record(writer: &'static mut Writer) {
    critical_section::with(|cs| {
        if let Ok(mut hooks) = HOOKS.borrow(cs).try_borrow_mut() {
            let others = writer.track("others", 0);
            let (tracks, running, idle) = (Vec::new(), Vec::new(), Vec::new());
            *hooks = Some(Hooks { writer, others, tracks, running, deeper: 0, idle });
        }
    });
}

/// Events that are lost because something that cannot be masked, such as a fault handler, came while another event was
/// being recorded.
pub fn lost() -> u32 {
    LOST.load(Ordering::Relaxed)
}

fn with(work: impl FnOnce(&mut Hooks)) {
    critical_section::with(|cs| match HOOKS.borrow(cs).try_borrow_mut() {
        Ok(mut hooks) => hooks.as_mut().map(work).unwrap_or_default(),
        // Where nothing can be masked, a load and a store are what there is on all cores.
        Err(_) => LOST.store(LOST.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed),
    });
}

impl Hooks {
    /// The track of what was named before, or is now.
    fn track(&mut self, of: Of, name: &str) -> TrackId {
        if let Some((_, track)) = self.tracks.iter().find(|(known, _)| *known == of) {
            return *track;
        }
        self.name(of, name)
    }

    fn name(&mut self, of: Of, name: &str) -> TrackId {
        let number = match of {
            Of::Task(id) | Of::Executor(id) | Of::Interrupt(id) => id,
            #[cfg(feature = "rtos-trace")]
            Of::Marker(id) => id,
        };
        let track = self.writer.track(name, number);
        if let Some((_, known)) = self.tracks.iter_mut().find(|(known, _)| *known == of) {
            *known = track;
            return track;
        }
        self.tracks.push((of, track)).map_or(self.others, |()| track)
    }

    fn forget(&mut self, of: Of) {
        if let Some(at) = self.tracks.iter().position(|(known, _)| *known == of) {
            self.tracks.swap_remove(at);
        }
    }

    fn is_busy(&mut self, executor: TrackId) {
        if let Some(at) = self.idle.iter().position(|idle| *idle == executor) {
            self.idle.swap_remove(at);
            self.writer.end_on(executor);
        }
    }
}

/// There is a task. The name is copied; `id` is any number that no other task has at the time.
pub fn created(id: u32, name: &str) {
    with(|hooks| {
        let track = hooks.name(Of::Task(id), name);
        hooks.writer.instant_on(track, "created");
    });
}

/// There is a task, whose name is what it was [`named`].
#[cfg(feature = "embassy")]
pub(crate) fn spawned(id: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Task(id), "task");
        hooks.writer.instant_on(track, "created");
    });
}

/// A task has a name, which was not known when it was [`created`], or has another one now.
pub fn named(id: u32, name: &str) {
    with(|hooks| {
        hooks.name(Of::Task(id), name);
    });
}

/// A task has ended. Its number may be another one's.
pub fn ended(id: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Task(id), "task");
        hooks.writer.instant_on(track, "ended");
        hooks.forget(Of::Task(id));
    });
}

/// A task could run from now on, and waits for the core.
pub fn ready(id: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Task(id), "task");
        hooks.writer.instant_on(track, "ready");
    });
}

/// A task runs, and what ran before it, if that has not ended, is interrupted.
pub fn begins(id: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Task(id), "task");
        match hooks.running.push(track) {
            Ok(()) => hooks.writer.switch(Some(track)),
            Err(_) => hooks.deeper = hooks.deeper.saturating_add(1),
        }
    });
}

/// The task that began last does not run any more; the one that it has interrupted goes on.
pub fn ends() {
    with(|hooks| match hooks.deeper.checked_sub(1) {
        Some(deeper) => hooks.deeper = deeper,
        None if hooks.running.pop().is_some() => hooks.writer.switch(hooks.running.last().copied()),
        None => {}
    });
}

/// A task runs in place of the one that ran: what a scheduler says that knows only of switches. `None`: none runs. It
/// is told nothing new if that task runs already, as after a tick that has woken nobody.
pub fn switched(id: Option<u32>) {
    with(|hooks| {
        let track = id.map(|id| hooks.track(Of::Task(id), "task"));
        if hooks.deeper == 0 && hooks.running == track.as_slice() {
            return;
        }
        hooks.running.clear();
        hooks.deeper = 0;
        if let Some(track) = track {
            hooks.running.push(track).unwrap_or_default();
        }
        hooks.writer.switch(track);
    });
}

/// The task that runs does something, such as sending a message: an instant on its track.
pub fn instant(name: &'static str) {
    with(|hooks| {
        let track = hooks.running.last().copied().unwrap_or(hooks.others);
        hooks.writer.instant_on(track, name);
    });
}

/// A counter's value, such as the bytes of a heap that are free, from whatever runs.
pub fn count(counter: &'static str, value: i64) {
    with(|hooks| hooks.writer.count(counter, value));
}

/// An executor, or a scheduler, has nothing to run: a slice `idle` on a track of its own until [`busy`].
pub fn idle(executor: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Executor(executor), "executor");
        if !hooks.idle.contains(&track) && hooks.idle.push(track).is_ok() {
            hooks.writer.begin_on(track, "idle");
        }
    });
}

/// An executor has something to run again.
pub fn busy(executor: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Executor(executor), "executor");
        hooks.is_busy(track);
    });
}

/// An interrupt begins: a slice on the track of its number. What it interrupts does not end.
pub fn interrupt_enters(number: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Interrupt(number), "interrupt");
        hooks.writer.begin_on(track, "interrupt");
    });
}

/// That interrupt ends.
pub fn interrupt_exits(number: u32) {
    with(|hooks| {
        let track = hooks.track(Of::Interrupt(number), "interrupt");
        hooks.writer.end_on(track);
    });
}

/// Slices and instants of that number have a track of this name.
#[cfg(feature = "rtos-trace")]
pub(crate) fn marker_named(id: u32, name: &str) {
    with(|hooks| {
        hooks.name(Of::Marker(id), name);
    });
}

/// Something happens at a marker.
#[cfg(feature = "rtos-trace")]
pub(crate) fn marker(id: u32, what: Marker) {
    with(|hooks| {
        let track = hooks.track(Of::Marker(id), "marker");
        match what {
            Marker::Instant => hooks.writer.instant_on(track, "marker"),
            Marker::Begin => hooks.writer.begin_on(track, "marker"),
            Marker::End => hooks.writer.end_on(track),
        }
    });
}
