//! `rtos-trace`: the hooks that embassy-executor (its feature `rtos-trace`) and other kernels call.
//!
//! [`tasks::record`](crate::tasks::record) begins it. Markers are slices and instants on tracks of their names.

use crate::tasks;
use rtos_trace::{RtosTrace, TaskInfo};

/// What the hooks lead to.
#[derive(Debug)]
struct Tasks;

/// Idle time is of one scheduler.
const SCHEDULER: u32 = 0;

/// Names end with a zero, for C.
fn without_zero(name: &'static str) -> &'static str {
    name.trim_end_matches('\0')
}

impl RtosTrace for Tasks {
    fn start() {}

    fn stop() {}

    /// Its name comes next.
    fn task_new(_id: u32) {}

    fn task_send_info(id: u32, info: TaskInfo) {
        tasks::created(id, without_zero(info.name));
    }

    fn task_new_stackless(id: u32, name: &'static str, _priority: u32) {
        tasks::created(id, without_zero(name));
    }

    fn task_terminate(id: u32) {
        tasks::ended(id);
    }

    fn task_exec_begin(id: u32) {
        tasks::busy(SCHEDULER);
        tasks::begins(id);
    }

    fn task_exec_end() {
        tasks::ends();
    }

    fn task_ready_begin(id: u32) {
        tasks::ready(id);
    }

    fn task_ready_end(_id: u32) {}

    fn system_idle() {
        tasks::idle(SCHEDULER);
    }

    fn isr_enter() {
        tasks::interrupt_enters(0);
    }

    fn isr_exit() {
        tasks::interrupt_exits(0);
    }

    fn isr_exit_to_scheduler() {
        tasks::interrupt_exits(0);
    }

    fn name_marker(id: u32, name: &'static str) {
        tasks::marker_named(id, without_zero(name));
    }

    fn marker(id: u32) {
        tasks::marker(id, tasks::Marker::Instant);
    }

    fn marker_begin(id: u32) {
        tasks::marker(id, tasks::Marker::Begin);
    }

    fn marker_end(id: u32) {
        tasks::marker(id, tasks::Marker::End);
    }
}

/// Functions that only kernels call.
#[allow(unsafe_code)]
mod hooks {
    use super::Tasks;

    rtos_trace::global_trace! { Tasks }
}
