//! Tests that need the recorder's own parts.

use std::sync::Arc;
use std::time::Duration;

use tracebuf_std::system::NOT_IN_NAMES;

use super::FlightRecorder;
use crate::{LongTrace, Session};

#[test]
fn a_session_whose_rings_a_long_trace_empties_has_no_recorder() {
    let path = std::env::temp_dir().join(format!("tracebuf-recorder-{}", std::process::id()));
    let session = Session::builder().long_trace(LongTrace::to(&path)).start().expect("a session");
    let error = FlightRecorder::new(&Arc::new(session), std::env::temp_dir()).expect_err("an error");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("start two sessions, or do without one of them"), "{error}");
    std::fs::remove_file(path).expect("the file is there");
}

#[test]
fn a_child_does_not_wait_for_the_thread_that_had_the_recorder_s_lock() {
    use super::FlightStatus;
    use crate::SessionError;
    use tracebuf_testing::fork::in_child;

    let session = Arc::new(Session::builder().start().expect("a session"));
    let mut recorder = FlightRecorder::new(&session, std::env::temp_dir()).ok();
    let inner = recorder.as_ref().expect("a recorder").inner().clone();
    let held = inner.state();
    assert!(in_child(|| {
        let recorder = recorder.take().expect("the parent's").keep(1);
        recorder.trigger("child", Duration::ZERO);
        recorder.on_panic();
        inner.finish();
        matches!(recorder.snapshot("child"), Err(SessionError::Forked))
            && recorder.on_signals(&[12]).is_err()
            && recorder.status() == FlightStatus::default()
    }));
    drop(held);
    assert_eq!(inner.state().status, FlightStatus::default());
}

#[test]
fn a_reason_that_is_no_name_of_a_file_in_the_folder_is_an_error_and_leaves_nothing() {
    let folder = std::env::temp_dir().join(format!("tracebuf-reason-{}", std::process::id()));
    let inner = folder.join("inner");
    std::fs::create_dir_all(inner.join("there")).expect("a folder");
    let session = Arc::new(Session::builder().start().expect("a session"));
    let recorder = FlightRecorder::new(&session, &inner).expect("a recorder");
    let (long, longest) = ("r".repeat(121), "r".repeat(120));
    for reason in
        ["../out", "there/../in", "/tmp/out", "there/..", "", "there/", &long, &format!("there/{long}")]
    {
        let error = recorder.snapshot(reason).expect_err(reason).to_string();
        assert!(error.contains("is no reason"), "{reason}: {error}");
    }
    let count = |folder: &std::path::Path| std::fs::read_dir(folder).expect("the folder").count();
    assert_eq!((count(&folder), count(&inner), count(&inner.join("there"))), (1, 1, 0));
    assert_eq!(recorder.status().failed, 8);
    for reason in ["a reason", "there/a reason", "..a", &longest] {
        assert!(recorder.snapshot(reason).expect("a snapshot").exists());
    }
    // What separates folders on Windows, and what its names use for something else.
    if !NOT_IN_NAMES.is_empty() {
        for reason in ["..\\out", "there\\..", "C:out", "C:\\out", "\\out", "there\\", "a:b"] {
            let error = recorder.snapshot(reason).expect_err(reason).to_string();
            assert!(error.contains("is no reason"), "{reason}: {error}");
        }
        assert_eq!((count(&folder), count(&inner), count(&inner.join("there"))), (1, 4, 1));
    }
    std::fs::remove_dir_all(folder).expect("it is there");
}
