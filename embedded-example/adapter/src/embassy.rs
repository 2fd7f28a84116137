//! embassy-executor's trace hooks: tasks, their polls, idle time, for any number of executors, in thread mode and in
//! interrupts.
//!
//! [`crate::tasks::record`] begins it, before tasks are spawned. Each task has a track with a slice `runs`
//! for each poll, which ends where an executor of a higher priority interrupts it, and an instant when it is woken; each
//! executor has a track with slices `idle`.
//!
//! A task's name is what [`spawn`] is given. What is spawned otherwise is shown as `task`. With the feature `rtos-trace`
//! of this crate and of embassy-executor in place of this one, names are those of tasks' metadata, and executors are not
//! told apart.

use crate::tasks;
use embassy_executor::{SendSpawner, SpawnToken, Spawner};

/// Spawns a task by its name.
pub fn spawn<S>(spawner: Spawner, token: SpawnToken<S>, name: &str) {
    tasks::named(token.id(), name);
    spawner.spawn(token);
}

/// Spawns a task by its name on an executor of another priority.
pub fn spawn_send<S: Send>(spawner: SendSpawner, token: SpawnToken<S>, name: &str) {
    tasks::named(token.id(), name);
    spawner.spawn(token);
}

/// The hooks, as embassy-executor declares them. Only embassy-executor may call them.
#[allow(unsafe_code)]
mod hooks {
    use crate::tasks;

    /// Nothing is known yet: the core also wakes for other things, and there may be nothing to poll.
    #[unsafe(no_mangle)]
    fn _embassy_trace_poll_start(_executor: u32) {}

    #[unsafe(no_mangle)]
    fn _embassy_trace_executor_idle(executor: u32) {
        tasks::idle(executor);
    }

    #[unsafe(no_mangle)]
    fn _embassy_trace_task_new(_executor: u32, task: u32) {
        tasks::spawned(task);
    }

    #[unsafe(no_mangle)]
    fn _embassy_trace_task_end(_executor: u32, task: u32) {
        tasks::ended(task);
    }

    #[unsafe(no_mangle)]
    fn _embassy_trace_task_exec_begin(executor: u32, task: u32) {
        tasks::busy(executor);
        tasks::begins(task);
    }

    #[unsafe(no_mangle)]
    fn _embassy_trace_task_exec_end(_executor: u32, _task: u32) {
        tasks::ends();
    }

    #[unsafe(no_mangle)]
    fn _embassy_trace_task_ready_begin(_executor: u32, task: u32) {
        tasks::ready(task);
    }
}
