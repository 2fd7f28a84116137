//! How programs end, and that what they asked for is there all the same: processes of their own.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use super::children::{in_folder_of_child, told_by_child};
use super::*;
use tracebuf_testing::transport::Does;

fn child(test: &str, folder: &Path) -> (std::process::ExitStatus, String) {
    told_by_child(&format!("ends::{test}"), folder, "0")
}

/// The session and the recorder live as long as the program, which never drops them.
fn for_ever() -> Option<(&'static Arc<Session>, &'static FlightRecorder, PathBuf)> {
    static BOTH: OnceLock<(Arc<Session>, FlightRecorder)> = OnceLock::new();
    let (session, recorder, folder) = in_folder_of_child()?;
    let (session, recorder) = BOTH.get_or_init(|| (session, recorder));
    Some((session, recorder, folder))
}

#[test]
fn a_trigger_that_waits_is_written_when_the_program_returns_or_exits() {
    for (test, code) in [("returns", 0), ("exits", 7), ("exits_in_a_hook", 3)] {
        let folder = folder(test);
        let (status, told) = child(test, &folder);
        assert_eq!(status.code(), Some(code), "{told}");
        let path = find(&folder, "at exit", 1).expect(&told);
        let line = format!("tracebuf: at exit: the trace is in {}; lost: nothing\n", path.display());
        assert!(told.contains(&line), "{told}");
        assert!(Trace::read(&path).contains("what came last"));
    }
}

#[test]
#[ignore = "run by the test before it"]
fn returns() {
    let Some((session, recorder, _)) = for_ever() else { return };
    recorder.trigger("at exit", Duration::from_secs(1000));
    session.recorder().instant("what came last");
}

#[test]
#[ignore = "run by a test above"]
fn exits() {
    if std::env::var_os("TRACEBUF_CHILD_FOLDER").is_some() {
        returns();
        std::process::exit(7);
    }
}

#[test]
#[ignore = "run by a test above"]
fn exits_in_a_hook() {
    if std::env::var_os("TRACEBUF_CHILD_FOLDER").is_none() {
        return;
    }
    std::panic::set_hook(Box::new(|_| std::process::exit(3)));
    returns();
    for_ever_recorder().on_panic();
    // The first panic's snapshot is there before the hook ends the program.
    panic!("the end");
}

#[test]
fn a_snapshot_that_is_being_written_is_complete_when_the_program_ends() {
    let folder = folder("being written");
    let (status, told) = child("exits_while_writing", &folder);
    assert_eq!(status.code(), Some(7), "{told}");
    let trace = Trace::read(&find(&folder, "being written", 1).expect(&told));
    trace.assert_ends_with_stats();
    assert!(trace.bytes.len() > 5 << 20, "{}", trace.bytes.len());
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
#[ignore = "run by the test before it"]
fn exits_while_writing() {
    let Some(folder) = std::env::var_os("TRACEBUF_CHILD_FOLDER").map(PathBuf::from) else { return };
    let session = Session::builder().ring(8 << 20).shared_memory(4 << 20).start().expect("a session");
    let session = Arc::new(session);
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let (events, text) = (session.recorder(), "x".repeat(100));
    while session.summary().expect("it runs").buffers[0].write_wrap_count == 0 {
        (0..1000).for_each(|_| events.instant_with("event", |event| event.arg("text", &text[..])));
    }
    recorder.trigger("being written", Duration::ZERO);
    while names_in(&folder).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(names_in(&folder)[0].ends_with(".part"));
    std::process::exit(7);
}

fn for_ever_recorder() -> &'static FlightRecorder {
    static RECORDER: OnceLock<FlightRecorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let (session, recorder, _) = in_folder_of_child().expect("a child");
        std::mem::forget(session);
        recorder
    })
}

#[test]
fn a_panic_s_snapshot_is_there_though_the_hook_before_it_ends_the_program() {
    let folder = folder("hook");
    let (status, told) = child("exits_in_a_hook", &folder);
    assert_eq!(status.code(), Some(3), "{told}");
    assert!(Trace::read(&find(&folder, "panic", 1).expect(&told)).contains("the end"));
}

#[test]
fn a_panic_while_another_one_unwinds_leaves_a_trace_of_each() {
    let folder = folder("twice");
    let (status, told) = child("panics_twice", &folder);
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{told}");
    for (number, message) in [(1, "first"), (2, "second")] {
        assert!(Trace::read(&find(&folder, "panic", number).expect(&told)).contains(message));
    }
}

#[test]
#[ignore = "run by the test before it"]
fn panics_twice() {
    struct Careless;
    impl Drop for Careless {
        fn drop(&mut self) {
            panic!("the second");
        }
    }
    let Some((_session, recorder, _)) = in_folder_of_child() else { return };
    recorder.on_panic();
    let _careless = Careless;
    panic!("the first");
}

#[test]
fn a_panic_while_standard_error_is_locked_or_in_the_session_s_own_thread_keeps_nobody_waiting() {
    let folder = folder("own thread");
    let start = Instant::now();
    let (status, told) = child("panics_in_the_drain_thread", &folder);
    assert!(status.success(), "{told}");
    assert!(told.contains("tracebuf: panic: no trace: the session has ended"), "{told}");
    let path = find(&folder, "panic", 1).expect(&told);
    assert!(Trace::read(&path).contains("while it prints"));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
#[ignore = "run by the test before it"]
fn panics_in_the_drain_thread() {
    struct Panics;
    impl std::fmt::Display for Panics {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("while it prints");
        }
    }
    let Some((session, recorder, _)) = in_folder_of_child() else { return };
    recorder.on_panic();
    assert!(std::thread::spawn(|| eprintln!("{Panics}")).join().is_err());
    let _ = session.attach(Does::new(|_| panic!("in the drain thread")));
    let start = Instant::now();
    while session.recorder().is_on() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!session.recorder().is_on());
}

#[test]
fn a_backtrace_is_in_the_trace_if_it_is_asked_for() {
    for (backtrace, is_there) in [("0", false), ("1", true)] {
        let folder = folder(&format!("backtrace {backtrace}"));
        let (status, told) = told_by_child("ends::panics_deep", &folder, backtrace);
        assert!(status.success(), "{told}");
        let trace = Trace::read(&find(&folder, "panic", 1).expect(&told));
        assert_eq!(trace.contains("ends::deep_within"), is_there);
    }
}

#[inline(never)]
fn deep_within() {
    panic!("deep");
}

#[test]
#[ignore = "run by the test before it"]
fn panics_deep() {
    let Some((_session, recorder, _)) = in_folder_of_child() else { return };
    recorder.on_panic();
    assert!(std::thread::spawn(deep_within).join().is_err());
}

#[test]
fn a_signal_that_ends_the_program_waits_for_all_recorders_and_for_triggers() {
    for (test, signal, name) in [
        ("terminates", libc::SIGTERM, "SIGTERM"),
        ("hangs_up", libc::SIGHUP, "SIGHUP"),
        ("aborts", libc::SIGABRT, "SIGABRT"),
        ("is_aborted", libc::SIGABRT, "SIGABRT"),
    ] {
        let folder = folder(test);
        let start = Instant::now();
        let (status, told) = child(test, &folder);
        assert_eq!(status.signal(), Some(signal), "{test}: {told}");
        let of = |reason: &str| {
            let ending = format!(".{reason}-1.pftrace");
            names_in(&folder).into_iter().filter(|name| name.ends_with(&ending)).collect::<Vec<_>>()
        };
        let of_signal = if signal == libc::SIGABRT { 2 } else { 3 };
        let (told, waits) = (of(name).len(), of("waits").len());
        assert_eq!((told, waits), (of_signal, 2), "{test}: {:?}", names_in(&folder));
        for file in of(name) {
            let trace = Trace::read(&folder.join(file));
            assert!(trace.contains(name) && trace.contains("before the end"));
        }
        // Else it waits for ten seconds.
        assert!(start.elapsed() < Duration::from_secs(9), "{test}: {:?}", start.elapsed());
    }
}

fn ends(signal: i32, end: impl FnOnce()) {
    let Some((session, recorder, folder)) = in_folder_of_child() else { return };
    let other = FlightRecorder::new(&session, &folder).expect("a recorder");
    for recorder in [&recorder, &other] {
        recorder.before_ending_on(&[signal]).expect("a handler");
        recorder.trigger("waits", Duration::from_secs(1000));
    }
    // One that would let the program go on.
    let third = FlightRecorder::new(&session, &folder).expect("a recorder");
    assert_eq!(third.on_signals(&[signal]).is_ok(), signal != libc::SIGABRT);
    session.recorder().instant("before the end");
    end();
    std::thread::sleep(Duration::from_secs(10));
}

fn send(signal: i32) {
    // SAFETY: this process has handlers for it.
    unsafe { libc::kill(libc::getpid(), signal) };
}

#[test]
#[ignore = "run by a test above"]
fn terminates() {
    ends(libc::SIGTERM, || send(libc::SIGTERM));
}

#[test]
#[ignore = "run by a test above"]
fn hangs_up() {
    ends(libc::SIGHUP, || send(libc::SIGHUP));
}

#[test]
#[ignore = "run by a test above"]
fn aborts() {
    ends(libc::SIGABRT, || {
        // A lock of the program's own does not matter.
        static LOCK: Mutex<()> = Mutex::new(());
        let _locked = LOCK.lock();
        std::process::abort();
    });
}

#[test]
#[ignore = "run by a test above"]
fn is_aborted() {
    ends(libc::SIGABRT, || send(libc::SIGABRT));
}

#[test]
fn signals_that_cannot_be_watched_are_refused_with_the_reason() {
    let (session, folder) = (session(), folder("refused"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    for (signal, why) in [
        (libc::SIGKILL, "SIGKILL cannot be caught: the system lets no program"),
        (libc::SIGSTOP, "SIGSTOP cannot be caught: the system lets no program"),
        (libc::SIGSEGV, "SIGSEGV cannot be caught: it tells of a crash"),
        (libc::SIGFPE, "SIGFPE cannot be caught: it tells of a crash"),
        (0, "signal-0 cannot be caught: there is none"),
    ] {
        for refused in [recorder.on_signals(&[signal]), recorder.before_ending_on(&[signal])] {
            let error = refused.expect_err(why).to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
    let error = recorder.on_signals(&[libc::SIGABRT]).expect_err("it goes on").to_string();
    assert!(error.contains("SIGABRT ends the program") && error.contains("before_ending_on"), "{error}");
}

#[test]
fn a_trigger_that_waits_is_written_when_its_session_stops_or_is_dropped() {
    for explicitly in [true, false] {
        let (session, folder) = (session(), folder("session"));
        let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
        recorder.trigger("waits", Duration::from_secs(1000));
        session.recorder().instant("what came last");
        if explicitly {
            session.stop().expect("a stop");
        }
        drop(session);
        let path = find(&folder, "waits", 1).expect("a trace");
        assert!(Trace::read(&path).contains("what came last"));
        assert_eq!(recorder.status().written, 1);
    }
}
