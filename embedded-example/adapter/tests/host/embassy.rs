//! The hooks of embassy-executor, with an executor that is polled by hand.

use embassy_executor::raw::Executor;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;
use tracebuf::producer::track_event::Track;
use tracebuf_embedded::embassy::{Timeline, spawn, trace};

/// What an executor calls when it has something to do: here it is polled anyway.
#[unsafe(export_name = "__pender")]
fn pender(_: *mut ()) {}

static EXECUTOR: Track<'static> = Track::thread(1, 1, "executor");
static TASK: Track<'static> = Track::custom("task");

/// Waits once.
#[embassy_executor::task]
async fn task() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[derive(Default)]
struct Log(RefCell<Vec<String>>);

impl Log {
    fn note(&self, track: &Track<'_>, what: &str) {
        let track = if track.uuid() == TASK.uuid() { "task" } else { "executor" };
        self.0.borrow_mut().push(format!("{track}: {what}"));
    }
}

impl Timeline for Log {
    fn begin(&self, track: &'static Track<'static>, name: &'static str) {
        self.note(track, name);
    }

    fn end(&self, track: &'static Track<'static>) {
        self.note(track, "end");
    }
}

#[test]
fn tasks_polls_and_idle_time_are_slices() {
    let log: &Log = Box::leak(Box::default());
    let executor: &Executor = Box::leak(Box::new(Executor::new(std::ptr::null_mut())));
    // SAFETY: there is one executor, on this thread.
    unsafe { trace(log, &EXECUTOR) };
    spawn(executor.spawner(), task().unwrap(), "waits once", &TASK);
    for _ in 0..2 {
        // SAFETY: it is not polled by anything else.
        unsafe { executor.poll() };
    }
    let first = ["task: waits once", "task: poll", "task: end", "executor: idle"];
    let second = ["executor: end", "task: poll", "task: end", "task: end", "executor: idle"];
    assert_eq!(*log.0.borrow(), [&first[..], &second].concat());
}
