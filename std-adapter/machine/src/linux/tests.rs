//! Tests of recordings, and the machine of files that other tests use too.

pub(super) mod machine;

use machine::{Machine, Recording};

use super::*;
use tracebuf_session::{LongTraceStatus, Written};

#[test]
fn a_session_or_a_file_that_is_busy_ends_no_recording() {
    let (_recording, tracks) = Recording::start();
    let options = RecordOptions::new("trace.pftrace").long();
    let progress = |summary| progress_of(&options, Instant::now(), summary, &tracks, None);
    assert!(matches!(progress(Err(SessionError::Timeout)), Ok(None)));
    assert!(matches!(progress(Err(SessionError::Stopped)), Err(SessionError::Stopped)));
    let status = with!(LongTraceStatus { error: Some("No space left on device".into()) });
    let (file, long_trace) = (Some(Written::default()), Some(status));
    let summary = with!(Summary { file, long_trace });
    let told = progress(Ok(summary)).expect("no error").expect("progress").to_string();
    assert!(told.contains(" · 0 bytes written (No space left on device) · "), "{told}");
}

#[test]
fn looks_that_take_longer_than_the_interval_leave_time_for_others_and_for_a_word() {
    let start = Instant::now();
    let at = |time: u64| start + Duration::from_millis(time);
    let wait = |time: u64| Step::Wait(Duration::from_millis(time));
    let mut pace = Pace::new(Duration::from_millis(10), start, at(40));
    assert_eq!(pace.next(at(40)), Step::Tell);
    pace.told(at(41));
    assert_eq!([41, 65, 80].map(|time| pace.next(at(time))), [wait(20), wait(15), Step::Look]);
    pace.looked(at(80), at(600));
    assert_eq!(pace.next(at(600)), Step::Tell);
    pace.told(at(600));
    assert_eq!([600, 1099, 1100].map(|time| pace.next(at(time))), [wait(20), wait(20), Step::Tell]);
    // The session did not answer for a long time.
    pace.told(at(6000));
    assert_eq!(pace.next(at(6000)), Step::Look);
    // Short looks come at even times.
    pace.looked(at(6000), at(6001));
    assert_eq!([6009, 6010].map(|time| pace.next(at(time))), [wait(1), Step::Look]);
    pace.looked(at(6013), at(6014));
    assert_eq!([6019, 6020].map(|time| pace.next(at(time))), [wait(1), Step::Look]);
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
