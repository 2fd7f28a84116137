//! Tests of recordings, and the machine of files that other tests use too.

pub(crate) mod machine;

use machine::{Machine, Recording};

use super::*;
use tracebuf_session::{LongTraceStatus, Summary, Written};

#[test]
fn a_session_or_a_file_that_is_busy_ends_no_recording() {
    let (recording, tracks) = Recording::start();
    let options = RecordOptions::new("trace.pftrace").long().no_ftrace();
    let machine = Machine::new("busy");
    let (session, kernel) = (recording.session(), running::KernelSource::default());
    let sources = Sources::start(&options, machine.proc(), tracks, &recording.recorder(), session, kernel);
    let sources = sources.expect("sources");
    let progress = |summary| running::progress_of(&options, Instant::now(), summary, &sources, None);
    assert!(matches!(progress(Err(SessionError::Timeout)), Ok(None)));
    assert!(matches!(progress(Err(SessionError::Stopped)), Err(SessionError::Stopped)));
    let status = with!(LongTraceStatus { error: Some("No space left on device".into()) });
    let (file, long_trace) = (Some(Written::default()), Some(status));
    let summary = with!(Summary { file, long_trace });
    let told = progress(Ok(summary)).expect("no error").expect("progress").to_string();
    assert!(told.contains(" · 0 bytes written (No space left on device) · "), "{told}");
}

#[test]
fn events_that_are_asked_for_and_are_not_to_be_had_are_an_error_before_anything_is_recorded() {
    let machine = Machine::new("events");
    machine.says("stat", "cpu0 1 2 3 4\n");
    let older = machine.file("older.pftrace", "an older trace");
    for events in ["no_such/event", "shed"] {
        for options in [RecordOptions::new(&older), RecordOptions::new(&older).long()] {
            let recorded =
                record_from(machine.proc(), &options.events([events]), &AtomicBool::new(true), |_| ());
            let error = recorded.expect_err("no such events").to_string();
            assert!(error.starts_with("events of the kernel: "), "{error}");
            assert_eq!(std::fs::read_to_string(&older).expect("a file"), "an older trace");
        }
    }
}

#[test]
fn a_command_that_is_not_there_is_an_error_before_anything_is_recorded() {
    let machine = Machine::new("command");
    machine.says("stat", "cpu0 1 2 3 4\n");
    let older = machine.file("older.pftrace", "an older trace");
    let older_path = older.to_str().expect("a name").to_owned();
    for (command, why) in [("no such program", "No such file"), (older_path.as_str(), "ermission denied")] {
        let options = RecordOptions::new(&older).long().no_ftrace().command([command]);
        let error = record_from(machine.proc(), &options, &AtomicBool::new(false), |_| ()).expect_err("none");
        let told = error.to_string();
        assert!(told.starts_with(&format!("running {command}: ")), "{told} {why}");
        assert_eq!(std::fs::read_to_string(&older).expect("a file"), "an older trace");
    }
}

#[test]
fn without_a_machine_to_look_at_an_older_trace_stays_as_it_is() {
    let machine = Machine::new("nothing");
    let older = machine.file("older.pftrace", "an older trace");
    for options in [RecordOptions::new(&older), RecordOptions::new(&older).long()] {
        let recorded = record_from(machine.proc(), &options, &AtomicBool::new(true), |_| ());
        let error = recorded.expect_err("nothing to look at").to_string();
        assert!(error.starts_with("/proc/stat: "), "{error}");
        assert_eq!(std::fs::read_to_string(&older).expect("a file"), "an older trace");
    }
}
