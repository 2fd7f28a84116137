//! Sessions and flight recorders, and what becomes of them in a child after a fork.
#![cfg(unix)]

mod files;

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tracebuf_session::{FlightRecorder, Relay, Session, SessionError};
use tracebuf_testing::fork::{assert_ended_by, end_of, fork, status_of};
use tracebuf_testing::trace::{Trace, find_snapshot, folder, wait_for, wait_for_snapshot};

fn recorder(folder: &Path) -> (Arc<Session>, FlightRecorder) {
    let session = Arc::new(Session::builder().ring(1 << 20).start().expect("a session"));
    let recorder = FlightRecorder::new(&session, folder).expect("a recorder");
    (session, recorder)
}

fn sleep() -> bool {
    std::thread::sleep(Duration::from_secs(20));
    false
}

#[test]
fn in_a_child_the_session_is_off() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    recorder.instant("parent");
    let child = fork(|| {
        recorder.instant("child");
        !recorder.is_on()
            && matches!(session.flush(Duration::from_secs(1)), Err(SessionError::Forked))
            && matches!(session.stop(), Err(SessionError::Forked))
    });
    assert_eq!(status_of(child), 0);
    let path = folder("off").join("fork.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).events(3), 1);
}

#[test]
fn in_a_child_a_relay_is_off_and_a_new_one_is_not() {
    let relay = Relay::new();
    let session = Session::builder().start().expect("a session");
    let recorder = relay.recorder();
    relay.connect(&session.recorder()).expect("it runs");
    recorder.instant("parent");
    // Its thread has begun: one that is about to may hold a standard library lock that the child's thread needs.
    session.flush(Duration::from_secs(10)).expect("it runs");
    let child = fork(|| {
        recorder.instant("child");
        relay.disconnect();
        let own = Session::builder().start().expect("a session");
        let (other, of_parent) = (Relay::new(), session.recorder());
        let forked = |result| matches!(result, Err(SessionError::Forked));
        !recorder.is_on()
            && forked(relay.connect(&own.recorder()))
            && forked(other.connect(&of_parent))
            && forked(other.connect(&recorder))
            && other.connect(&own.recorder()).is_ok()
            && other.recorder().with(|_| ()).is_some()
    });
    assert_eq!(status_of(child), 0);
    recorder.instant("parent");
    let path = folder("relay").join("fork.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).events(3), 2);
}

#[test]
fn a_recorder_outlives_its_session_in_a_child_without_harm() {
    let folder = folder("fork-drop");
    let (session, recorder) = recorder(&folder);
    recorder.on_signals(&[libc::SIGUSR2]).expect("a handler");
    let mut held = Some((session, recorder));
    let child = fork(|| {
        let (session, recorder) = held.take().expect("both");
        recorder.trigger("child", Duration::ZERO);
        drop(session);
        let forked = matches!(recorder.snapshot("child"), Err(SessionError::Forked));
        drop(recorder);
        forked
    });
    assert_eq!(status_of(child), 0);
    assert!(held.is_some_and(|(_, recorder)| recorder.snapshot("parent").is_ok()));
    assert_eq!(find_snapshot(&folder, "child", 1), None);
}

#[test]
fn a_child_may_drop_what_was_its_parent_s_when_it_has_a_session_and_a_recorder_of_its_own() {
    let folder = folder("fork-own");
    let recorders = || {
        let (session, recorder) = recorder(&folder);
        recorder.on_signals(&[libc::SIGUSR2]).expect("a handler");
        (session, recorder)
    };
    let mut parents = Some(recorders());
    let child = fork(|| {
        let (session, recorder) = recorders();
        drop(parents.take());
        session.recorder().instant("child");
        let path = recorder.snapshot("own").expect("a snapshot");
        drop(recorder);
        session.stop().is_ok() && Trace::read(&path).contains("child")
    });
    assert_eq!(status_of(child), 0);
}

#[test]
fn a_signal_that_ends_the_program_after_a_snapshot_ends_a_child_at_once() {
    let folder = folder("fork-signal");
    let (_session, recorder) = recorder(&folder);
    recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
    assert_ended_by(fork(sleep), libc::SIGTERM);
    assert_eq!(find_snapshot(&folder, "SIGTERM", 1), None);
    // A child that has its own recorder writes a snapshot.
    let child = fork(|| {
        let (_session, recorder) = self::recorder(&folder);
        recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
        std::fs::write(folder.join("ready"), "").expect("a file");
        sleep()
    });
    wait_for(&folder.join("ready"));
    assert_ended_by(child, libc::SIGTERM);
    Trace::read(&find_snapshot(&folder, "SIGTERM", 1).expect("a trace")).assert_ends_with_stats();
    assert_eq!(recorder.status().written, 0);
}

#[test]
fn a_signal_ends_the_program_at_once_when_the_last_recorder_that_watched_it_is_gone() {
    let folder = folder("fork-gone");
    let child = fork(|| {
        let ((_session, recorder), (_other_session, other)) = (recorder(&folder), recorder(&folder));
        recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
        other.on_signals(&[libc::SIGTERM]).expect("a handler");
        drop(recorder);
        // SAFETY: this process has a handler for it, and a recorder that lets it go on.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        wait_for_snapshot(&folder, "SIGTERM", 1);
        drop(other);
        std::fs::write(folder.join("ready"), "").expect("a file");
        sleep()
    });
    wait_for(&folder.join("ready"));
    assert_ended_by(child, libc::SIGTERM);
    assert_eq!(find_snapshot(&folder, "SIGTERM", 2), None);
}

#[test]
fn however_many_recorders_there_were_a_signal_does_once_what_it_does_by_default() {
    let folder = folder("fork-many");
    let child = fork(|| {
        for _ in 0..3 {
            let (_session, recorder) = recorder(&folder);
            recorder.before_ending_on(&[libc::SIGTSTP]).expect("a handler");
        }
        // SAFETY: by default it stops the process.
        unsafe { libc::raise(libc::SIGTSTP) == 0 }
    });
    let (mut status, mut stops) = (0, 0);
    // SAFETY: waits for a child of this process.
    while unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) } == child && libc::WIFSTOPPED(status) {
        stops += 1;
        // SAFETY: it goes on.
        unsafe { libc::kill(child, libc::SIGCONT) };
    }
    assert_eq!((status, stops), (0, 1));
}

#[test]
fn a_signal_that_comes_just_before_its_recorder_is_gone_is_not_lost() {
    let folder = folder("fork-last");
    for _ in 0..20 {
        let child = fork(|| {
            let (_session, recorder) = recorder(&folder);
            recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
            // SAFETY: this process has a handler for it.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
            drop(recorder);
            false
        });
        assert_eq!(end_of(child), Some(libc::SIGTERM));
    }
}

#[test]
fn a_signal_that_comes_while_it_begins_to_be_watched_ends_the_program_or_is_in_a_snapshot() {
    let folder = folder("fork-begin");
    // Those that come first take their time.
    let mut signals = vec![libc::SIGHUP, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2];
    #[cfg(any(target_os = "linux", target_os = "android"))]
    signals.extend(libc::SIGRTMIN()..=libc::SIGRTMAX());
    signals.push(libc::SIGTERM);
    for round in 0..100 {
        let child = fork(|| {
            let (_session, recorder) = recorder(&folder);
            recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
            drop(recorder);
            let (_other_session, again) = self::recorder(&folder);
            let start = Arc::new(Barrier::new(2));
            let thread = std::thread::spawn({
                let start = start.clone();
                move || {
                    start.wait();
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(round * 5) {}
                    // SAFETY: this process has a handler for it.
                    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
                }
            });
            start.wait();
            again.before_ending_on(&signals).expect("handlers");
            thread.join().expect("it was sent");
            sleep()
        });
        assert_eq!(end_of(child), Some(libc::SIGTERM), "round {round}");
    }
}

#[test]
fn a_recorder_made_after_another_is_gone_watches_the_same_signal() {
    let folder = folder("fork-again");
    let child = fork(|| {
        let (session, recorder) = recorder(&folder);
        recorder.before_ending_on(&[libc::SIGTERM]).expect("a handler");
        drop(recorder);
        let again = FlightRecorder::new(&session, &folder).expect("a recorder");
        again.before_ending_on(&[libc::SIGTERM]).expect("a handler");
        std::fs::write(folder.join("ready"), "").expect("a file");
        sleep()
    });
    wait_for(&folder.join("ready"));
    assert_ended_by(child, libc::SIGTERM);
    Trace::read(&find_snapshot(&folder, "SIGTERM", 1).expect("a trace")).assert_ends_with_stats();
}

#[test]
fn a_signal_ends_the_program_at_once_if_it_could_not_be_watched_with_others() {
    let folder = folder("fork-error");
    let child = fork(|| {
        let (_session, recorder) = recorder(&folder);
        recorder.before_ending_on(&[libc::SIGTERM, 127]).expect_err("the second is none");
        std::fs::write(folder.join("ready"), "").expect("a file");
        sleep()
    });
    wait_for(&folder.join("ready"));
    assert_ended_by(child, libc::SIGTERM);
}
