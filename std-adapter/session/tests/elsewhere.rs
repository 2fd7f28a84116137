//! A program that leaves the folder it was started in. It is a program of its own because all of a program is in one
//! folder.

use std::sync::Arc;

use tracebuf_session::{FlightRecorder, Session};

#[test]
fn a_flight_recorder_s_folder_stays_the_same_when_the_process_goes_elsewhere() {
    let parent = std::env::temp_dir().join(format!("tracebuf-elsewhere-{}", std::process::id()));
    std::fs::create_dir_all(parent.join("folder")).expect("a folder");
    let session = Arc::new(Session::builder().start().expect("a session"));
    std::env::set_current_dir(&parent).expect("it is there");
    let recorder = FlightRecorder::new(&session, "folder").expect("a recorder");
    std::env::set_current_dir("/").expect("it is there");
    let path = recorder.snapshot("x").expect("a trace");
    assert_eq!(path.file_name(), Some("x-0.pftrace".as_ref()));
    assert!(path.is_absolute() && parent.join("folder/x-0.pftrace").exists());
    std::fs::remove_dir_all(parent).expect("it is there");
}
