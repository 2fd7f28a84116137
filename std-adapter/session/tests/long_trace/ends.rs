//! Ends of a process, each with what its trace must then have.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tracebuf_analysis::Trace;
use tracebuf_session::{LongTrace, Session};

use crate::trace::scratch;

const EVENTS: usize = 1000;

fn child(how: &str, path: &Path) -> ExitStatus {
    let _ = std::fs::remove_file(path);
    Command::new(std::env::current_exe().expect("this program"))
        .args(["ends::ends_somehow", "--exact", "--ignored", "--nocapture", "--test-threads", "1"])
        .env("TRACEBUF_END", how)
        .env("TRACEBUF_CHILD_TRACE", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a child")
}

#[test]
#[ignore = "the process that the others run"]
fn ends_somehow() {
    let (Some(path), Ok(how)) = (std::env::var_os("TRACEBUF_CHILD_TRACE"), std::env::var("TRACEBUF_END"))
    else {
        return;
    };
    static SESSION: OnceLock<Session> = OnceLock::new();
    let trace = LongTrace::to(PathBuf::from(path)).period(Duration::from_secs(3600));
    #[cfg(unix)]
    let trace = if how == "asked" { trace.complete_on_signals(&[libc::SIGTERM]) } else { trace };
    let session = SESSION.get_or_init(|| Session::builder().long_trace(trace).start().expect("a session"));
    (0..EVENTS).for_each(|_| session.recorder().instant("event"));
    match &how[..] {
        "static" => {}
        "exit" => std::process::exit(7),
        "elsewhere" => std::thread::spawn(|| std::process::exit(7)).join().expect("no return"),
        "abort" => std::process::abort(),
        #[cfg(unix)]
        "asked" | "not asked" => {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
                .expect("a signal");
            std::thread::sleep(Duration::from_secs(20));
        }
        #[cfg(unix)]
        "fork" => {
            assert!(tracebuf_testing::fork::in_child(|| std::process::exit(0)));
            session.recorder().instant("after the child");
            std::process::exit(7);
        }
        other => panic!("{other}"),
    }
}

fn events(path: &Path) -> usize {
    let trace = Trace::open(path).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    trace.instants().filter(|event| event.name() == "event").count()
}

#[cfg_attr(windows, ignore = "there an exit runs no handlers")]
#[test]
fn a_session_that_nobody_stops_is_completed_at_a_return_from_main_and_at_an_exit() {
    for (how, code) in [("static", 0), ("exit", 7), ("elsewhere", 7)] {
        let path = scratch(&format!("ends {how}.pftrace"));
        let status = child(how, &path);
        assert_eq!((status.code(), events(&path)), (Some(code), EVENTS), "{how}");
        assert!(!Trace::open(&path).expect("a trace").losses().has_losses(), "{how}");
    }
}

#[cfg(unix)]
#[test]
fn on_a_signal_a_trace_is_completed_if_asked_and_what_cannot_be_has_its_begin() {
    use std::os::unix::process::ExitStatusExt;

    for (how, signal, there) in
        [("asked", libc::SIGTERM, EVENTS), ("not asked", libc::SIGTERM, 0), ("abort", libc::SIGABRT, 0)]
    {
        let path = scratch(&format!("ends {how}.pftrace"));
        let status = child(how, &path);
        assert_eq!(status.signal(), Some(signal), "{how}");
        // The clocks of the start are there from the first moment.
        assert!(std::fs::metadata(&path).expect("a file").len() > 0, "{how}");
        assert_eq!(events(&path), there, "{how}");
    }
}

#[cfg(unix)]
#[test]
fn a_child_that_exits_leaves_its_parent_s_trace_alone() {
    let path = scratch("ends fork.pftrace");
    assert_eq!(child("fork", &path).code(), Some(7));
    assert_eq!(events(&path), EVENTS);
    let trace = Trace::open(&path).expect("a trace");
    assert_eq!(trace.instants().filter(|event| event.name() == "after the child").count(), 1);
    assert!(!trace.losses().has_losses());
}

/// The signal of a file that has reached its process's limit does not end the program.
#[cfg(unix)]
#[test]
fn a_limit_of_files_is_an_error_that_is_told_and_the_program_goes_on() {
    let path = scratch("limited.pftrace");
    let shell = "ulimit -f 100; exec \"$0\" ends::records_beyond_a_limit --exact --ignored --nocapture";
    let output = Command::new("bash")
        .args(["-c", shell])
        .arg(std::env::current_exe().expect("this program"))
        .env("TRACEBUF_CHILD_TRACE", &path)
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("goes on: File too large"), "{said}");
    assert!(std::fs::metadata(&path).expect("a file").len() <= 100 * 1024);
    Trace::open(&path).expect("a trace");
}

#[cfg(unix)]
#[test]
#[ignore = "the process of the test before it"]
fn records_beyond_a_limit() {
    let Some(path) = std::env::var_os("TRACEBUF_CHILD_TRACE") else { return };
    let trace = crate::quick(path.as_ref());
    let session = Session::builder().long_trace(trace).start().expect("a session");
    let status = crate::wait_for(&session, |status| {
        (0..1000).for_each(|_| session.recorder().instant("event"));
        status.error.is_some()
    });
    // A snapshot in this thread is refused as well.
    let snapshot = session.snapshot().expect("a snapshot");
    let _ = snapshot.write_to(PathBuf::from(path).with_extension("snapshot"));
    let lost = session.stop().expect("a stop").summary().losses();
    assert!(lost.bytes_not_written > 0, "{lost}");
    println!("goes on: {}", status.error.expect("an error"));
}
