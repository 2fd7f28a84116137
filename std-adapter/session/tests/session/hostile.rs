//! Surroundings that fail: disks that fill up and empty again, readers that go away, storms of signals. An error or a
//! counted loss each time, never a crash, never silence.
#![cfg(target_os = "linux")]

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, LongTraceStatus, Session};
use tracebuf_testing::trace::{Trace, folder, mkfifo, scratch};

static COUNTER: Track<'static> = Track::counter("events", Unit::Count);

fn quick(path: &Path) -> LongTrace {
    LongTrace::to(path).period(Duration::from_millis(10))
}

/// Records until the long trace is in a state; returns how many values that took.
fn record_until(session: &Session, mut value: i64, is: impl Fn(&LongTraceStatus) -> bool) -> i64 {
    let recorder = session.recorder();
    for _ in 0..2000 {
        (0..200).for_each(|_| {
            recorder.count(&COUNTER, value);
            value += 1;
        });
        if is(&session.long_trace().expect("a long trace")) {
            return value;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("ten seconds are over: {:?}", session.long_trace());
}

/// Runs an ignored test of this file in a process of its own.
fn in_child(test: &str, path: &Path) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args([&format!("hostile::{test}"), "--exact", "--ignored", "--nocapture"])
        .env("TRACEBUF_CHILD_TRACE", path)
        .output()
        .expect("a child")
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_nothing_but_time() {
    for test in ["disk_full_for_a_while", "disk_full_for_a_while_beside_a_buffer_in_a_file"] {
        let path = scratch(&format!("{test}.pftrace"));
        let output = in_child(test, &path);
        let said = String::from_utf8_lossy(&output.stdout);
        let recorded = said.lines().find_map(|line| line.split_once("recorded ")?.1.parse().ok());
        let recorded: u64 =
            recorded.unwrap_or_else(|| panic!("{said} {}", String::from_utf8_lossy(&output.stderr)));
        let trace = Trace::read(&path);
        let values = trace.counters().into_values().next().expect("a counter");
        assert_eq!(values, (0..recorded).collect::<Vec<u64>>(), "{test}");
        assert_eq!(trace.losses(), 0, "{test}");
        trace.assert_ends_with_stats();
    }
}

/// Limits the size of files, as a full disk does.
fn limit_files_to(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid limit; without the signal a write beyond it is an error.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

fn full_for_a_while(buffer: BufferConfig) {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    let session =
        Session::builder().buffer(buffer).long_trace(quick(path.as_ref())).start().expect("a session");
    limit_files_to(100_000);
    let value = record_until(&session, 0, |status| status.error.is_some());
    limit_files_to(libc::RLIM_INFINITY);
    let value = record_until(&session, value, |status| status.error.is_none() && status.bytes > 100_000);
    session.stop().expect("a stop");
    println!("recorded {value}");
}

#[test]
#[ignore = "run by the test above"]
fn disk_full_for_a_while() {
    full_for_a_while(BufferConfig::ring(16 << 20));
}

#[test]
#[ignore = "run by the test above"]
fn disk_full_for_a_while_beside_a_buffer_in_a_file() {
    let region = scratch("hostile.region");
    let _ = std::fs::remove_file(&region);
    full_for_a_while(BufferConfig::ring(16 << 20).in_file(region));
}

#[test]
fn what_a_full_disk_does_not_take_at_the_end_is_told_and_leaves_no_hole() {
    for test in ["disk_full_at_the_end", "disk_full_at_the_end_beside_a_buffer_in_a_file"] {
        let output = in_child(test, &scratch(&format!("{test}.pftrace")));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("no hole"), "{test}: {said} {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Records some pieces, none or one of which has room, and stops. Returns how many values were recorded.
fn full_at_the_end(path: &Path, buffer: BufferConfig, room: libc::rlim_t) -> u64 {
    let trace = LongTrace::to(path).period(Duration::MAX);
    let builder = Session::builder().buffer(buffer).exhaustion(Exhaustion::Stall).long_trace(trace);
    let (session, mut recorded) = (builder.start().expect("a session"), 0);
    while session.summary().expect("a summary").buffers[0].bytes_written < 3 << 20 {
        (recorded..recorded + 1000).for_each(|value| session.recorder().count(&COUNTER, value));
        recorded += 1000;
    }
    limit_files_to(room);
    let stopped = session.stop().expect("a stop");
    limit_files_to(libc::RLIM_INFINITY);
    let (status, file) = (stopped.long_trace.expect("a status"), stopped.file.expect("a file"));
    assert!(status.error.is_some() && status.bytes_given_up > 1 << 20, "{status:?}");
    let trace = Trace::read(path);
    assert_eq!((file.packets, file.bytes), (trace.packets().count() as u64, trace.bytes.len() as u64));
    assert_eq!(trace.bytes.is_empty(), room < 1 << 20);
    let values = trace.counters().into_values().next().unwrap_or_default();
    assert_eq!(values, (0..values.len() as u64).collect::<Vec<u64>>());
    recorded as u64
}

#[test]
#[ignore = "run by the test above"]
fn disk_full_at_the_end() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    for room in [500_000, 1_500_000] {
        full_at_the_end(path.as_ref(), BufferConfig::ring(16 << 20), room);
    }
    println!("no hole");
}

#[test]
#[ignore = "run by the test above"]
fn disk_full_at_the_end_beside_a_buffer_in_a_file() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    let (region, both) = (scratch("at the end.region"), scratch("at the end.pftrace"));
    for room in [500_000, 1_500_000] {
        let _ = std::fs::remove_file(&region);
        // A quarter of it, a mebibyte, is read at once.
        let recorded = full_at_the_end(path.as_ref(), BufferConfig::ring(4 << 20).in_file(&region), room);
        let survivor = Survivor::open(&region).and_then(|survivor| survivor.after(&path));
        survivor.expect("the buffer").write_with(&path, &both).expect("a file");
        let values = Trace::read(&both).counters().into_values().next().expect("a counter");
        assert_eq!(values, (0..recorded).collect::<Vec<u64>>(), "room for {room}");
    }
    println!("no hole");
}

#[test]
fn a_snapshot_without_room_on_the_disk_is_an_error_and_leaves_nothing_behind() {
    let folder = folder("no room");
    let output = in_child("snapshot_without_room", &folder.join("trace.pftrace"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("no snapshot: File too large"), "{said} {:?}", output.status);
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0);
}

#[test]
#[ignore = "run by the test above"]
fn snapshot_without_room() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    let session = Session::builder().start().expect("a session");
    (0..10_000).for_each(|value| session.recorder().count(&COUNTER, value));
    limit_files_to(1000);
    match session.snapshot().expect("a snapshot").write_to(path) {
        Ok(_) => println!("a snapshot"),
        Err(error) => println!("no snapshot: {error}"),
    }
    assert!(session.recorder().is_on(), "and recording goes on");
}

#[test]
fn a_reader_that_goes_away_is_told_and_recording_goes_on() {
    let path = scratch("gone.fifo");
    mkfifo(&path);
    // For reading and writing, so that opening waits for nobody.
    let reader = OpenOptions::new().read(true).write(true).open(&path).expect("the reader's end");
    let session = Session::builder().ring(1 << 20).long_trace(quick(&path)).start().expect("a session");
    let value = record_until(&session, 0, |status| status.bytes > 1000);
    drop(reader);
    record_until(&session, value, |status| {
        status.error.as_deref().is_some_and(|error| error.contains("Broken pipe"))
    });
    assert!(session.recorder().is_on());
    let status = session.stop().expect("a stop").long_trace.expect("a status");
    assert!(status.error.is_some() && status.bytes_given_up > 0, "{status:?}");
}

#[test]
fn a_storm_of_signals_interrupts_calls_and_loses_nothing() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn seen(_: libc::c_int) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler does one atomic addition. Without SA_RESTART, so that calls are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = seen as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
    let path = scratch("storm.fifo");
    mkfifo(&path);
    let mut reader = OpenOptions::new().read(true).write(true).open(&path).expect("the reader's end");
    let session = Session::builder().ring(16 << 20).shared_memory(8 << 20).long_trace(quick(&path)).start();
    let session = session.expect("a session");
    let stop = Arc::new(AtomicBool::new(false));
    let ends = stop.clone();
    let storm = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            // It goes to any thread of the process that does not block it. SAFETY: this process has a handler for it.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    // A slow reader, so that writing waits, and is interrupted.
    let received = std::thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 16_384]);
        while !bytes.ends_with(b"THE END") {
            let len = loop {
                match reader.read(&mut part) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other.expect("the pipe"),
                }
            };
            bytes.extend_from_slice(&part[..len]);
            std::thread::sleep(Duration::from_micros(500));
        }
        bytes.truncate(bytes.len() - 7);
        bytes
    });
    let value = record_until(&session, 0, |status| status.bytes > 500_000);
    let stopped = session.stop().expect("a stop");
    stop.store(true, Ordering::Relaxed);
    storm.join().expect("the storm");
    std::fs::write(&path, "THE END").expect("the pipe is open");
    let copy = scratch("storm.pftrace");
    std::fs::write(&copy, received.join().expect("the trace")).expect("a file");
    assert_eq!(stopped.long_trace.expect("a status").error, None);
    let trace = Trace::read(&copy);
    assert_eq!(
        trace.counters().into_values().next().expect("a counter"),
        (0..value as u64).collect::<Vec<u64>>()
    );
    assert_eq!(trace.losses(), 0);
    assert!(SEEN.load(Ordering::Relaxed) > 100, "{SEEN:?} signals");
}
