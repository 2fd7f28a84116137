//! Buffers in mapped files: what survives a kill, alone and alongside a long trace.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::trace::{self, Trace, scratch};
use tracebuf::producer::Exhaustion;
use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session, Stopped};

use super::COUNTER;

pub(super) fn in_file(path: &Path, bytes: u64) -> BufferConfig {
    let _ = std::fs::remove_file(path);
    BufferConfig::ring(bytes).in_file(path)
}

pub(super) fn recover(arguments: &[&Path]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracebuf"));
    let output = command.arg("recover").args(arguments).output().expect("the command runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_was_committed_is_in_the_file_while_the_session_still_runs() {
    let (region, out) = (scratch("alive.region"), scratch("alive.pftrace"));
    let session = Session::builder().buffer(in_file(&region, 1 << 20)).start().expect("a session");
    for value in 0..5000 {
        session.recorder().count(&COUNTER, value);
    }
    session.flush(Duration::from_secs(5)).expect("a flush");
    // The command is for use after its end: until then packets move on.
    let (ok, said) = recover(&[&region, "-o".as_ref(), &out]);
    let why = "alive.region: another session is using it; when that has ended it can be recovered";
    assert!(!ok && said.contains(why), "{said}");
    Survivor::open(&region).expect("the buffer").write_to(&out).expect("a trace");
    let trace = Trace::read(&out);
    let values = trace.counters().into_values().next().expect("a counter");
    assert_eq!(values, (0..5000).collect::<Vec<u64>>());
    trace.assert_ends_with_stats();
    assert!(trace.time_of_day_of_first_state() > 1_600_000_000_000_000_000, "with the clocks of its session");
    let inspect =
        Command::new(env!("CARGO_BIN_EXE_tracebuf")).arg("inspect").arg(&region).output().expect("it");
    assert!(String::from_utf8_lossy(&inspect.stdout).contains("trace buffer at 0x1000"));
    drop(session);
    let (ok, said) = recover(&[&region, "-o".as_ref(), &out]);
    assert!(ok && said.contains("buffer in a file"), "{said}");
}

#[test]
fn a_second_session_cannot_have_the_file_and_a_later_one_keeps_what_it_held() {
    let region = scratch("taken.region");
    let previous = scratch("taken.region.previous");
    let _ = std::fs::remove_file(&previous);
    let start = |config: BufferConfig| Session::builder().buffer(config).start();
    let first = start(in_file(&region, 1 << 20)).expect("a session");
    first.recorder().instant("alpha");
    let error = start(BufferConfig::ring(1 << 20).in_file(&region)).expect_err("it is taken").to_string();
    assert!(error.contains("another session is using it") && error.contains("taken.region"), "{error}");
    drop(first);
    let second = start(BufferConfig::ring(1 << 20).in_file(&region)).expect("it is free");
    second.recorder().instant("omega");
    let out = scratch("previous.pftrace");
    Survivor::open(&previous).expect("what the first left").write_to(&out).expect("a trace");
    let trace = Trace::read(&out);
    assert!(trace.contains("alpha") && !trace.contains("omega"));
}

#[test]
fn a_file_that_cannot_be_had_is_an_error_before_anything_is_recorded() {
    let error = |path: &Path| {
        let builder = Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(path));
        builder.start().expect_err("an error").to_string()
    };
    assert!(error("/no such folder/x".as_ref()).contains("/no such folder/x"));
    assert!(error("/dev/full".as_ref()).contains("no file"));
    assert!(error("/".as_ref()).contains("a buffer in /"));
    // Nor is the other end of a pipe waited for.
    let pipe = scratch("pipe.region");
    trace::mkfifo(&pipe);
    assert!(error(&pipe).contains("no file"));
    let other = scratch("somebody's");
    std::fs::write(&other, "somebody's own file").expect("a file");
    assert!(error(&other).contains("which no session made"));
    assert_eq!(std::fs::read(&other).expect("it is there"), b"somebody's own file");
}

/// A limit on the size of files, as on a full disk: no page without a block is touched.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_room_for_the_buffer_is_an_error_and_leaves_no_file() {
    let region = scratch("too large.region");
    let script = "ulimit -f 1024; exec \"$0\" \"$@\"";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .args(["region_file::session_in_a_small_disk", "--exact", "--ignored", "--nocapture"])
        .env("TRACEBUF_CHILD_REGION", &region)
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("no session: a buffer in "), "{said} {:?}", child.status);
    assert!(!region.exists());
}

#[test]
#[ignore = "run with a limit by the test before it"]
fn session_in_a_small_disk() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_REGION") else { return };
    // SAFETY: without the signal the write is an error, as it is on a full disk.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    match Session::builder().buffer(in_file(path.as_ref(), 64 << 20)).start() {
        Ok(_) => println!("a session"),
        Err(error) => println!("no session: {error}"),
    }
}

/// A session that has counted to 100,000 in a buffer with room for it. Threads wait when shared memory is full: whether
/// disk and processor keep up is not the question here.
fn stopped_after_100_000(buffer: BufferConfig, trace: LongTrace) -> Stopped {
    let builder = Session::builder().buffer(buffer).exhaustion(Exhaustion::Stall);
    let trace = trace.period(Duration::from_millis(10));
    let session = builder.long_trace(trace).start().expect("a session");
    for value in 0..100_000 {
        session.recorder().count(&COUNTER, value);
        if value % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    session.stop().expect("a stop")
}

#[test]
fn after_a_clean_end_all_is_in_the_long_trace_and_nothing_is_left() {
    let (region, long, out) =
        (scratch("clean.region"), scratch("clean-long.pftrace"), scratch("clean.pftrace"));
    let stopped = stopped_after_100_000(in_file(&region, 8 << 20), LongTrace::to(&long));
    let trace = Trace::read(&long);
    assert_eq!(stopped.file.expect("a file").packets, trace.packets().count() as u64);
    assert_eq!(stopped.file.expect("a file").bytes, trace.bytes.len() as u64);
    let values = trace.counters().into_values().next().expect("a counter");
    assert_eq!(values, (0..100_000).collect::<Vec<u64>>());
    trace.assert_ends_with_stats();
    // The buffer's counters go on over all turns.
    let stats = stopped.summary().buffers[0];
    assert!(stats.bytes_written > 1 << 20 && stats.chunks_read >= stats.chunks_written, "{stats:?}");
    Survivor::open(&region)
        .expect("the buffer")
        .after(&long)
        .expect("a trace")
        .write_to(&out)
        .expect("a file");
    assert!(Trace::read(&out).counters().is_empty());
}

#[test]
fn what_a_full_disk_did_not_take_stays_in_the_file_of_the_buffer() {
    let (region, out) = (scratch("full.region"), scratch("full.pftrace"));
    let stopped = stopped_after_100_000(in_file(&region, 4 << 20), LongTrace::to("/dev/full"));
    assert!(stopped.long_trace.expect("a status").error.is_some());
    Survivor::open(&region).expect("the buffer").write_to(&out).expect("a file");
    let values = Trace::read(&out).counters().into_values().next().expect("a counter");
    assert_eq!(values, (0..100_000).collect::<Vec<u64>>());
}
