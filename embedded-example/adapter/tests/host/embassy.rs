//! The hooks of embassy-executor, with two executors that are polled by hand.

use crate::tasks::{begin, told};
use embassy_executor::raw::Executor;
use std::future::poll_fn;
use std::task::Poll;
use tracebuf_embedded::embassy::{spawn, spawn_send};

/// What an executor calls when it has something to do: here it is polled anyway.
#[unsafe(export_name = "__pender")]
fn pender(_: *mut ()) {}

fn executor() -> &'static Executor {
    Box::leak(Box::new(Executor::new(std::ptr::null_mut())))
}

/// Waits once; polls another executor meanwhile, as an interrupt would.
async fn wait(interrupt: Option<&'static Executor>) {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        if let Some(interrupt) = interrupt {
            // SAFETY: it is not polled by anything else.
            unsafe { interrupt.poll() };
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[embassy_executor::task]
async fn low(interrupt: &'static Executor) {
    wait(Some(interrupt)).await;
}

#[embassy_executor::task]
async fn high() {
    wait(None).await;
}

#[test]
fn tasks_run_where_they_are_polled_and_one_executor_interrupts_another() {
    let (_alone, region) = begin();
    let (thread, interrupt) = (executor(), executor());
    spawn(thread.spawner(), low(interrupt).unwrap(), "low");
    spawn_send(interrupt.spawner().make_send(), high().unwrap(), "high");
    for _ in 0..2 {
        // SAFETY: it is not polled by anything else.
        unsafe { thread.poll() };
    }
    let expected = [
        "low: created!",
        "low: ready!",
        "high: created!",
        "high: ready!",
        // The first poll: the other executor runs within it.
        "low runs",
        "high runs",
        "high: ready!",
        "low runs",
        "executor: idle",
        "low: ready!",
        "none",
        "executor: idle",
        "executor: end",
        "low runs",
        "low: ended!",
        "none",
        "executor: idle",
    ];
    assert_eq!(told(region), expected);
}
