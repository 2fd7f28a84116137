//! Hooks of schedulers: FreeRTOS', through `tracebuf_freertos.h`, or any other's.

use crate::recorder::{NOT_YET, OK, TWICE, Writer, recorder};
use crate::text::text;
use core::ffi::c_char;
use static_cell::StaticCell;
use tracebuf_embedded::tasks;

static SCHEDULER: StaticCell<Writer> = StaticCell::new();

#[unsafe(no_mangle)]
extern "C" fn tracebuf_tasks_init() -> i32 {
    let Some(recorder) = recorder() else { return NOT_YET };
    let Some(writer) = SCHEDULER.try_init_with(|| recorder.writer("scheduler")) else { return TWICE };
    tasks::record(writer);
    OK
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_tasks_lost() -> u32 {
    tasks::lost()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_task_created(task: u32, name: *const c_char) {
    // SAFETY: the caller's promise; it is copied.
    tasks::created(task, unsafe { text(name) });
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_ended(task: u32) {
    tasks::ended(task);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_ready(task: u32) {
    tasks::ready(task);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_begins(task: u32) {
    tasks::begins(task);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_ends() {
    tasks::ends();
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_switched(task: u32) {
    tasks::switched(Some(task));
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_none() {
    tasks::switched(None);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_idle(scheduler: u32) {
    tasks::idle(scheduler);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_task_busy(scheduler: u32) {
    tasks::busy(scheduler);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_task_instant(name: *const c_char) {
    // SAFETY: the caller's promise.
    tasks::instant(unsafe { text(name) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_task_count(counter: *const c_char, value: i64) {
    // SAFETY: the caller's promise.
    tasks::count(unsafe { text(counter) }, value);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_isr_enter(number: u32) {
    tasks::interrupt_enters(number);
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_isr_exit(number: u32) {
    tasks::interrupt_exits(number);
}
