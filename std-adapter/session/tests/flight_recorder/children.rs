//! Programs that end by a panic or a signal, or leave the folder that they were started in: processes of their own.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use tracebuf_testing::transport::Does;

use super::*;

fn run(test: &str, folder: &Path, stderr: impl Into<Stdio>, backtrace: &str) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("TRACEBUF_CHILD_FOLDER", folder)
        .env("RUST_BACKTRACE", backtrace)
        .stdout(Stdio::null())
        .stderr(stderr)
        .output()
        .expect("a child")
}

/// Runs a test as a program whose standard error is like a full disk.
fn in_child(test: &str, folder: &Path) -> ExitStatus {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    run(&format!("children::{test}"), folder, full, "0").status
}

/// The same; returns what it says on standard error.
pub(crate) fn told_by_child(test: &str, folder: &Path, backtrace: &str) -> (ExitStatus, String) {
    let output = run(test, folder, Stdio::piped(), backtrace);
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn panics_triggers_and_signals_leave_traces_and_do_what_they_do() {
    let folder = folder("no stderr");
    let status = in_child("panics_and_triggers", &folder);
    assert!(status.success(), "{status}");
    Trace::read(&find(&folder, "panic", 1).expect("a trace")).assert_ends_with_stats();
    let status = in_child("ends_by_a_signal", &folder);
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{status}");
    Trace::read(&find(&folder, "SIGTERM", 1).expect("a trace")).assert_ends_with_stats();
}

pub(crate) fn in_folder_of_child() -> Option<(Arc<Session>, FlightRecorder, PathBuf)> {
    let folder = PathBuf::from(std::env::var_os("TRACEBUF_CHILD_FOLDER")?);
    let session = session();
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    Some((session, recorder, folder))
}

#[test]
#[ignore = "run by the test before it"]
fn panics_and_triggers() {
    let Some((_session, recorder, folder)) = in_folder_of_child() else { return };
    for reason in ["first", "second"] {
        recorder.trigger(reason, Duration::ZERO);
        wait_for(&folder, reason, 1);
    }
    recorder.on_panic();
    assert!(std::thread::spawn(|| panic!("told to nobody")).join().is_err());
}

#[test]
#[ignore = "run by a test above"]
fn ends_by_a_signal() {
    let Some((_session, recorder, _)) = in_folder_of_child() else { return };
    recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
    // SAFETY: this process has a handler for it.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    std::thread::sleep(Duration::from_secs(10));
}

#[test]
fn a_signal_that_comes_again_ends_a_program_whose_snapshot_is_never_written() {
    let folder = folder("stuck");
    let status = in_child("is_stuck_at_a_signal", &folder);
    assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
    assert!(folder.join("same request").exists());
    std::fs::remove_file(folder.join("same request")).expect("it is there");
}

#[test]
#[ignore = "run by the test before it"]
fn is_stuck_at_a_signal() {
    let Some((session, recorder, folder)) = in_folder_of_child() else { return };
    let (sender, sleeps) = std::sync::mpsc::channel();
    let never_answers = Does::new(move |_| {
        sender.send(()).expect("the test waits");
        std::thread::sleep(Duration::from_secs(60));
        true
    });
    session.attach(never_answers).expect("it is there");
    session.waker().wake();
    sleeps.recv().expect("it does");
    recorder.before_ending_on(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]).expect("handlers");
    // SAFETY: this process has handlers for them.
    let send = |signal| unsafe { libc::kill(libc::getpid(), signal) };
    let start = Instant::now();
    send(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(20));
    if start.elapsed() < Duration::from_millis(250) {
        send(libc::SIGTERM);
    }
    std::fs::write(folder.join("same request"), "").expect("a file");
    std::thread::sleep(Duration::from_secs(1));
    // That of a terminal that is gone is told by several.
    send(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(20));
    send(libc::SIGINT);
    std::thread::sleep(Duration::from_secs(10));
    // Not by dropping the recorder, which waits for what it writes.
    std::process::exit(1);
}

#[test]
fn a_recorder_s_folder_stays_the_same_when_the_process_goes_elsewhere() {
    let parent = folder("elsewhere");
    std::fs::create_dir_all(parent.join("folder")).expect("a folder");
    let status = in_child("goes_elsewhere", &parent);
    assert!(status.success(), "{status}");
    assert!(find(&parent.join("folder"), "x", 1).is_some());
}

#[test]
#[ignore = "run by the test before it"]
fn goes_elsewhere() {
    let Some(parent) = std::env::var_os("TRACEBUF_CHILD_FOLDER") else { return };
    std::env::set_current_dir(&parent).expect("it is there");
    let session = session();
    let recorder = FlightRecorder::new(&session, "folder").expect("a recorder");
    std::env::set_current_dir("/").expect("it is there");
    let path = recorder.snapshot("x").expect("a trace");
    assert!(path.is_absolute(), "{path:?}");
}
