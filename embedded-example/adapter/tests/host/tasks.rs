//! Tasks of a scheduler that calls the hooks by hand.

use std::sync::{Mutex, MutexGuard};
use tracebuf_embedded::inplace::{Detail, Record, Recorder, Region, RegionView, Writer};
use tracebuf_embedded::tasks;

pub(crate) type Trace = Region<64, 128, 16>;

/// The hooks record with one writer, so one test at a time has them.
static ALONE: Mutex<()> = Mutex::new(());

/// Begins recording tasks in a region of its own.
pub(crate) fn begin() -> (MutexGuard<'static, ()>, &'static Trace) {
    let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let region = &*Box::leak(Box::new(Trace::zeroed()));
    let recorder = Recorder::new(region, || 5, 1_000);
    let writer: Writer<'static, _, _> = recorder.writer("scheduler");
    tasks::record(Box::leak(Box::new(writer)));
    (alone, region)
}

/// What was recorded, with the track in front.
pub(crate) fn told(region: &Trace) -> Vec<String> {
    let dump: Vec<u8> = region.words().flat_map(u32::to_ne_bytes).collect();
    let view = RegionView::find(&dump).expect("a region");
    let name = |number| {
        let text = view.name(number).and_then(|name| name.text);
        String::from_utf8(text.into_iter().flat_map(|text| text.bytes()).collect()).expect("UTF-8")
    };
    let mut told = Vec::new();
    let mut track = String::new();
    for record in view.chunks().flat_map(|chunk| chunk.records()) {
        match record.expect("whole").1 {
            Record::Detail(Detail::Track(number)) => {
                track = name(number) + ": ";
                continue;
            }
            Record::Begin { name: number } => told.push(format!("{track}{}", name(number))),
            Record::Instant { name: number } => told.push(format!("{track}{}!", name(number))),
            Record::End => told.push(format!("{track}end")),
            Record::Switch { task: 0 } => told.push("none".into()),
            Record::Switch { task } => told.push(format!("{} runs", name(task))),
            other => panic!("{other:?}"),
        }
        track.clear();
    }
    told
}

#[test]
fn who_is_interrupted_goes_on_when_the_other_has_ended() {
    let (_alone, region) = begin();
    tasks::created(1, "low");
    tasks::created(2, "high");
    tasks::begins(1);
    tasks::interrupt_enters(7);
    tasks::ready(2);
    tasks::interrupt_exits(7);
    tasks::begins(2);
    tasks::ends();
    tasks::ends();
    // One more than began.
    tasks::ends();
    tasks::idle(9);
    tasks::idle(9);
    tasks::busy(9);
    tasks::busy(9);
    let expected = [
        "low: created!",
        "high: created!",
        "low runs",
        "interrupt: interrupt",
        "high: ready!",
        "interrupt: end",
        "high runs",
        "low runs",
        "none",
        "executor: idle",
        "executor: end",
    ];
    assert_eq!(told(region), expected);
}

#[test]
fn a_scheduler_that_knows_only_of_switches_and_a_number_that_is_used_again() {
    let (_alone, region) = begin();
    // The name's memory is the task's, and is used again, too.
    let name = String::from("first");
    tasks::created(1, &name);
    drop(name);
    tasks::switched(Some(1));
    tasks::ended(1);
    tasks::created(1, &String::from("second"));
    tasks::switched(Some(1));
    tasks::switched(None);
    let expected =
        ["first: created!", "first runs", "first: ended!", "second: created!", "second runs", "none"];
    assert_eq!(told(region), expected);
}

#[test]
fn more_tasks_and_deeper_ones_than_are_remembered_harm_nothing() {
    let (_alone, region) = begin();
    for id in 0..40 {
        tasks::created(id, &format!("task {id}"));
    }
    for id in 0..40 {
        tasks::begins(id);
    }
    for _ in 0..40 {
        tasks::ends();
    }
    let told = told(region);
    assert_eq!(
        (&*told[31], &*told[32], &*told[39]),
        ("task 31: created!", "others: created!", "others: created!")
    );
    let runs: Vec<_> = told[40..].iter().map(String::as_str).collect();
    let up = (0..8).map(|id| format!("task {id} runs"));
    let down = (0..7).rev().map(|id| format!("task {id} runs"));
    assert_eq!(runs, up.chain(down).chain(["none".into()]).collect::<Vec<_>>());
    assert_eq!(tasks::lost(), 0);
}

#[cfg(feature = "rtos-trace")]
#[test]
fn a_kernel_with_rtos_trace_names_its_tasks_itself() {
    use rtos_trace::{TaskInfo, trace};
    let (_alone, region) = begin();
    trace::task_new(5);
    trace::task_send_info(5, TaskInfo { name: "net\0", priority: 1, stack_base: 0, stack_size: 0 });
    trace::task_ready_begin(5);
    trace::task_exec_begin(5);
    trace::name_marker(3, "parse\0");
    trace::marker_begin(3);
    trace::marker_end(3);
    trace::task_exec_end();
    trace::system_idle();
    trace::isr_enter();
    trace::isr_exit();
    trace::task_terminate(5);
    let expected = [
        "net: created!",
        "net: ready!",
        "net runs",
        "parse: marker",
        "parse: end",
        "none",
        "executor: idle",
        "interrupt: interrupt",
        "interrupt: end",
        "net: ended!",
    ];
    assert_eq!(told(region), expected);
}

#[test]
fn what_goes_on_is_not_told_again_and_does_things_on_its_own_track() {
    let (_alone, region) = begin();
    tasks::instant("nobody runs");
    tasks::created(1, "low");
    tasks::switched(Some(1));
    tasks::switched(Some(1));
    tasks::instant("sends");
    tasks::begins(2);
    // The one that interrupts has ended with this, too.
    tasks::switched(Some(1));
    tasks::switched(None);
    tasks::switched(None);
    let expected =
        ["others: nobody runs!", "low: created!", "low runs", "low: sends!", "task runs", "low runs", "none"];
    assert_eq!(told(region), expected);
}

#[test]
fn counters_have_values_of_up_to_64_bits_from_whatever_runs() {
    let (_alone, region) = begin();
    tasks::count("free heap", 4_080);
    tasks::count("free heap", i64::MIN);
    let dump: Vec<u8> = region.words().flat_map(u32::to_ne_bytes).collect();
    let view = RegionView::find(&dump).expect("a region");
    let values: Vec<i64> = view
        .chunks()
        .flat_map(|chunk| chunk.records())
        .map(|record| match record.expect("whole").1 {
            Record::Count { value, .. } => value,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, [4_080, i64::MIN]);
}
