//! Files, the locks on them, and memory in files, after a fork.

use std::fs::File;
use std::path::Path;

use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session, SessionError};
use tracebuf_testing::fork::{assert_ended_by, fork, status_of};
use tracebuf_testing::trace::{Trace, folder, wait_for};

use super::sleep;

/// A session with a buffer in a file.
fn in_file(region: &Path) -> Result<Session, SessionError> {
    Session::builder().buffer(BufferConfig::ring(1 << 16).in_file(region)).start()
}

#[test]
fn a_file_is_free_when_its_session_is_gone_though_a_child_lives_on() {
    let region = folder("fork-file").join("x.region");
    let session = in_file(&region).expect("a session");
    let child = fork(sleep);
    let meanwhile = in_file(&region).err().map(|error| error.to_string());
    drop(session);
    let next = in_file(&region).map(drop);
    assert_ended_by(child, libc::SIGKILL);
    assert!(meanwhile.is_some_and(|error| error.contains("another session is using it")));
    next.expect("it is free");
}

#[test]
fn a_long_trace_is_free_when_its_session_has_stopped_though_a_child_lives_on() {
    let path = folder("fork-trace").join("x.pftrace");
    let start = || Session::builder().long_trace(LongTrace::to(&path)).start();
    let session = start().expect("a session");
    let child = fork(sleep);
    let meanwhile = start().is_ok();
    session.stop().expect("a stop");
    let next = start().map(drop);
    assert_ended_by(child, libc::SIGKILL);
    assert!(!meanwhile);
    next.expect("it is free");
}

#[test]
fn a_file_is_free_when_its_session_s_process_was_killed_though_a_child_of_that_lives_on() {
    let folder = folder("fork-kill");
    let region = folder.join("x.region");
    let master = fork(|| {
        let _session = in_file(&region).expect("a session");
        let worker = fork(|| {
            // Its copy of its parent's lock is closed by then.
            std::fs::write(folder.join("runs"), "").expect("a file");
            sleep()
        });
        std::fs::write(folder.join("worker"), worker.to_string()).expect("a file");
        std::fs::write(folder.join("ready"), "").expect("a file");
        sleep()
    });
    wait_for(&folder.join("ready"));
    wait_for(&folder.join("runs"));
    assert_ended_by(master, libc::SIGKILL);
    let next = in_file(&region).map(drop);
    let worker = std::fs::read_to_string(folder.join("worker")).expect("a number");
    // SAFETY: the worker sleeps.
    let lived = unsafe { libc::kill(worker.parse().expect("a number"), libc::SIGKILL) };
    assert_eq!(lived, 0, "the worker lived on");
    next.expect("it is free");
}

#[test]
fn in_a_child_no_file_is_closed_but_those_that_keep_its_parent_s_locked() {
    let folder = folder("fork-left");
    // Some of them have the numbers that files of locks had: one that is gone and, in the child, its parent's.
    let open = || (0..16).map(|_| File::open(&folder).expect("a folder")).collect::<Vec<_>>();
    drop(in_file(&folder.join("gone.region")).expect("a session"));
    let before = open();
    let mut stopped = in_file(&folder.join("x.region")).expect("a session").stop().ok();
    assert!(stopped.is_some());
    let child = fork(|| {
        let are_open = |files: &[File]| files.iter().all(|file| file.metadata().is_ok());
        let before = are_open(&before);
        let after = open();
        drop(stopped.take());
        before && are_open(&after)
    });
    assert_eq!(status_of(child), 0);
    assert!(in_file(&folder.join("x.region")).is_err(), "and the parent has the lock still");
}

/// A session with its shared memory in the buffer's file.
fn all_in_file(region: &Path) -> Session {
    let buffer = BufferConfig::ring(1 << 20).in_file(region);
    Session::builder().buffer(buffer).shared_memory_in_file().start().expect("a session")
}

#[test]
fn who_forks_within_an_event_writes_into_its_own_memory_in_each_process() {
    let folder = folder("fork-within");
    let (region, left, out) = (folder.join("x.region"), folder.join("left"), folder.join("x.pftrace"));
    let session = all_in_file(&region);
    let mut writer = session.recorder().packet_writer().expect("a writer");
    session.recorder().instant("before");
    let (of_parent, of_child) = ("p".repeat(100), "c".repeat(5000));
    let mut child = None;
    session.recorder().instant_with("within", |event| {
        // SAFETY: the child ends the event, and then itself without unwinding.
        let forked = unsafe { libc::fork() };
        child = Some(forked);
        if forked == 0 {
            // SAFETY: by default its signal ends the process.
            unsafe { libc::alarm(10) };
            // Into this chunk, and into others.
            event.arg("text", &*of_child)
        } else {
            // The child goes first.
            assert_eq!(status_of(forked), 0);
            event.arg("text", &*of_parent)
        }
    });
    if child == Some(0) {
        session.recorder().instant("after");
        writer.packet(|packet| {
            packet.message(900).string(1, "child");
        });
        drop((writer, session));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    session.recorder().instant("after");
    std::fs::copy(&region, &left).expect("room");
    let survivor = Survivor::open(&left).expect("a buffer");
    // The packet writer has written nothing.
    assert_eq!(survivor.shared().map(|shared| (shared.chunks, shared.writers)), Some((1, 1)));
    survivor.write_to(&out).expect("a trace");
    let trace = Trace::read(&out);
    assert!(["before", "within", "after", &of_parent].iter().all(|text| trace.contains(text)));
    assert!(!trace.contains("cccc") && trace.losses() == 0);
    assert_eq!(trace.events(3), 3);
    drop(writer);
    session.stop().expect("a stop");
}

#[test]
fn what_a_child_drops_changes_nothing_in_its_parent_s_shared_memory() {
    let folder = folder("fork-drops");
    let region = folder.join("x.region");
    let session = all_in_file(&region);
    let (recorder, in_thread) = (session.recorder(), session.recorder());
    let slice = recorder.enter("slice");
    let writer = recorder.packet_writer().expect("a writer");
    let mut all = Some((session, slice, writer));
    // The table of 32,768 writers, and shared memory, a mebibyte each; the drain thread writes into the ring.
    let part = || {
        let file = std::fs::read(&region).expect("a file");
        file[file.len() - (2 << 20)..].to_vec()
    };
    let before = part();
    let child = fork(|| {
        recorder.instant("child");
        drop(all.take());
        std::thread::spawn(move || in_thread.packet_writer().is_none()).join().expect("no panic")
    });
    assert_eq!(status_of(child), 0);
    assert!(before == part() && before.iter().any(|byte| *byte != 0));
    drop(all);
}
