//! embassy-executor's trace hooks as a timeline: tasks, their polls, and idle time.
//!
//! Each task has a track with a slice for its lifetime, with its name, which contains a slice `poll` for each poll. The
//! executor's track has slices `idle`, from when nothing is left to be polled to the next poll. What tasks trace
//! themselves on their tracks, with the same tracer, nests in their polls.
//!
//! A program calls [`trace`] before the executor runs, and [`spawn`] for each task, with a static track.
//!
//! Only one executor is traced, the one in thread mode; the hooks of others must not be called. Tasks are spawned at
//! its own priority. The trace does not show when a task is woken: that happens in interrupts, which have their own
//! writers.

use core::cell::{Cell, RefCell};
use critical_section::Mutex;
use embassy_executor::{SpawnToken, Spawner};
use heapless::Vec;
use tracebuf::producer::track_event::{Clock, Tracer, Track};

/// The most tasks with names. Any others are shown on the executor's track.
pub const TASKS: usize = 8;

/// A tracer with any clock and any sizes.
pub trait Timeline {
    /// Begins a slice.
    fn begin(&self, track: &'static Track<'static>, name: &'static str);

    /// Ends it.
    fn end(&self, track: &'static Track<'static>);
}

impl<C: Clock, const N: usize, const T: usize> Timeline for Tracer<'static, C, N, T> {
    fn begin(&self, track: &'static Track<'static>, name: &'static str) {
        self.on(track).begin(name);
    }

    fn end(&self, track: &'static Track<'static>) {
        self.on(track).end();
    }
}

#[derive(Clone, Copy)]
struct Traced {
    timeline: &'static dyn Timeline,
    executor: &'static Track<'static>,
}

// SAFETY: it is used by the hooks, which all run at the tracer's priority, as the caller of `trace` has promised;
// nothing else reaches it here.
#[allow(unsafe_code)]
unsafe impl Send for Traced {}

#[derive(Clone, Copy)]
struct Task {
    id: u32,
    name: &'static str,
    track: &'static Track<'static>,
}

static TRACED: Mutex<Cell<Option<Traced>>> = Mutex::new(Cell::new(None));
static NAMED: Mutex<RefCell<Vec<Task, TASKS>>> = Mutex::new(RefCell::new(Vec::new()));
static IDLE: Mutex<Cell<bool>> = Mutex::new(Cell::new(false));

/// Starts tracing the executor.
///
/// # Safety
/// All executors that run from now on have the tracer's priority and core, and tasks are spawned from there: their
/// hooks write with it, and nothing locks it.
#[allow(unsafe_code)]
pub unsafe fn trace(timeline: &'static dyn Timeline, executor: &'static Track<'static>) {
    critical_section::with(|cs| TRACED.borrow(cs).set(Some(Traced { timeline, executor })));
}

/// Spawns a task with a name.
pub fn spawn<S>(spawner: Spawner, token: SpawnToken<S>, name: &'static str, track: &'static Track<'static>) {
    let task = Task { id: token.id(), name, track };
    critical_section::with(|cs| {
        let mut named = NAMED.borrow_ref_mut(cs);
        match named.iter_mut().find(|known| known.id == task.id) {
            // Reuses the place of a task that has ended.
            Some(known) => *known = task,
            // Without a name it is still traced.
            None => drop(named.push(task)),
        }
    });
    spawner.spawn(token);
}

/// What the hooks need, if tracing has begun. Interrupts are masked while the names are searched.
fn traced(id: u32) -> Option<(Traced, Task)> {
    critical_section::with(|cs| {
        let traced = TRACED.borrow(cs).get()?;
        let unnamed = Task { id, name: "task", track: traced.executor };
        let named = NAMED.borrow_ref(cs);
        Some((traced, named.iter().find(|task| task.id == id).copied().unwrap_or(unnamed)))
    })
}

fn idle(now: bool) {
    let Some((traced, _)) = traced(0) else { return };
    let before = critical_section::with(|cs| IDLE.borrow(cs).replace(now));
    match (before, now) {
        (false, true) => traced.timeline.begin(traced.executor, "idle"),
        (true, false) => traced.timeline.end(traced.executor),
        _ => {}
    }
}

// The hooks, as embassy-executor declares them. Only embassy-executor may call them.

/// Nothing is known yet: the core also wakes for other things, and there may be nothing to poll.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_poll_start(_executor: u32) {}

#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_executor_idle(_executor: u32) {
    idle(true);
}

#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_task_new(_executor: u32, task: u32) {
    if let Some((traced, task)) = traced(task) {
        traced.timeline.begin(task.track, task.name);
    }
}

#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_task_end(_executor: u32, task: u32) {
    if let Some((traced, task)) = traced(task) {
        // The poll in which the task ended has not ended yet: the slice begun last ends first, so the poll ends here,
        // and the task where the poll does.
        traced.timeline.end(task.track);
    }
}

#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_task_exec_begin(_executor: u32, task: u32) {
    idle(false);
    if let Some((traced, task)) = traced(task) {
        traced.timeline.begin(task.track, "poll");
    }
}

#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_task_exec_end(_executor: u32, task: u32) {
    if let Some((traced, task)) = traced(task) {
        traced.timeline.end(task.track);
    }
}

/// May run in an interrupt, where the executor's tracer must not write.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
fn _embassy_trace_task_ready_begin(_executor: u32, _task: u32) {}
