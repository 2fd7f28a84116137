//! Programs that are killed at any moment, with their shared memory in the file of a buffer.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_session::{BufferConfig, LongTrace, Recorder, Session};

use super::COUNTER;
use super::appended::run;
use crate::trace::{Trace, folder};

const THREADS: u64 = 4;

/// How many times to kill; 300 with `TRACEBUF_KILLS=300`.
fn kills() -> u64 {
    std::env::var("TRACEBUF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8)
}

/// Counts, with other events in between, and after each notes what is finished in the file's page, which stays when the
/// process is gone.
fn record(recorder: &Recorder, progress: &File, thread: u64, values: std::ops::Range<u64>, longest: usize) {
    for value in values {
        // In many sizes, some over several chunks.
        let len = if value % 32 == 0 { longest } else { value as usize % 50 };
        let text = &"x".repeat(len);
        recorder.instant_with("filler", |event| event.arg("text", text.as_str()));
        recorder.count(&COUNTER, (thread << 32 | value) as i64);
        progress.write_at(&(value + 1).to_le_bytes(), 8 * thread).expect("a page");
        if value % 64 == 0 {
            sleep(Duration::from_micros(300));
        }
        // Four times this many take some 40 MB of the ring, which must still have the first of them if the kill comes
        // late.
        if value > 25_000 {
            sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "the process that the next tests kill"]
fn recording_until_killed() {
    let Ok(folder) = std::env::var("TRACEBUF_CHILD_FOLDER") else { return };
    // SAFETY: by default its signal ends the process, should nothing else.
    unsafe { libc::alarm(100) };
    let folder = Path::new(&folder);
    let longest = std::env::var("TRACEBUF_CHILD_LONGEST").expect("bytes").parse().expect("a number");
    let ring = BufferConfig::ring(64 << 20).in_file(folder.join("x.region"));
    let mut builder = Session::builder().buffer(ring).shared_memory_in_file();
    if std::env::var("TRACEBUF_CHILD_TRACE").is_ok() {
        let trace = LongTrace::to(folder.join("long.pftrace")).period(Duration::from_millis(10));
        builder = builder.long_trace(trace);
    }
    // Threads wait when shared memory is full, so that nothing is missing for that reason.
    let session = builder.exhaustion(Exhaustion::Stall).start().expect("a session");
    let progress = OpenOptions::new().write(true).open(folder.join("progress")).expect("the parent's file");
    std::thread::scope(|scope| {
        for thread in 1..THREADS {
            let (recorder, progress) = (session.recorder(), &progress);
            scope.spawn(move || record(&recorder, progress, thread, 0..u64::MAX, longest));
        }
        // Threads that come and go, whose writers get each other's numbers.
        for begin in (0..).step_by(5) {
            let (recorder, progress) = (session.recorder(), &progress);
            scope
                .spawn(move || record(&recorder, progress, 0, begin..begin + 5, longest))
                .join()
                .expect("it ends");
        }
    });
}

/// What each thread had finished when its process was killed.
fn kill_at_random(folder: &Path, longest: usize, with_trace: bool, random: u64) -> Vec<u64> {
    let path = folder.join("progress");
    fs::write(&path, [0; 8 * THREADS as usize]).expect("a file");
    for name in ["x.region", "x.region.previous", "long.pftrace"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["killed::recording_until_killed", "--exact", "--ignored"])
        .env("TRACEBUF_CHILD_FOLDER", folder)
        .env("TRACEBUF_CHILD_LONGEST", longest.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if with_trace {
        command.env("TRACEBUF_CHILD_TRACE", "1");
    }
    let mut child = command.spawn().expect("a child");
    let progress = || {
        let file = fs::read(&path).expect("a file");
        file.chunks_exact(8)
            .map(|count| u64::from_le_bytes(count.try_into().expect("eight")))
            .collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while progress().contains(&0) && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_micros(random % 60_000));
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    let progress = progress();
    assert!(!progress.contains(&0), "all have begun: {progress:?}");
    progress
}

fn check(name: &str, longest: usize, with_trace: bool) {
    let folder = folder(name);
    let [region, long, out] = ["x.region", "long.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let seed = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64 | 1;
    let mut random = seed;
    let mut brought_in = 0;
    for kill in 0..kills() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let finished = kill_at_random(&folder, longest, with_trace, random);
        let mut arguments = vec!["recover".as_ref(), region.as_path(), "-o".as_ref(), out.as_path()];
        if with_trace {
            arguments.extend(["--with".as_ref(), long.as_path()]);
        }
        let (code, said) = run(&arguments);
        assert_eq!(code, Some(0), "kill {kill}: {said}");
        brought_in += u64::from(said.contains(" brought in\n"));
        let trace = Trace::read(&out);
        let mut threads = BTreeMap::<u64, Vec<u64>>::new();
        for (sequence, values) in trace.counters() {
            assert!(values.is_sorted(), "kill {kill}, sequence {sequence}: in another order");
            for value in values {
                threads.entry(value >> 32).or_default().push(value as u32 as u64);
            }
        }
        for (thread, finished) in (0..).zip(finished) {
            let mut there = threads.remove(&thread).unwrap_or_default();
            there.sort_unstable();
            let whole = there == Vec::from_iter(0..there.len() as u64);
            let first = there.windows(2).find(|pair| pair[1] != pair[0] + 1);
            assert!(whole, "kill {kill}, thread {thread}: twice or missing at {first:?}; {said}");
            let count = there.len() as u64;
            assert!(
                (finished..=finished + 1).contains(&count),
                "kill {kill}, thread {thread}: {count} of {finished}; {said}"
            );
        }
        // What waited for a longer one's size is given up, and that is reported.
        assert!(longest > 1900 || trace.losses() == 0, "kill {kill}: {said}");
    }
    assert!(brought_in > 0);
}

#[test]
fn after_a_kill_all_that_any_thread_had_finished_is_there_once() {
    check("killed", 1900, false);
}

#[test]
fn beside_a_long_trace_too() {
    check("killed beside a trace", 1900, true);
}

#[test]
#[ignore = "takes more than five seconds"]
fn and_beside_events_of_many_chunks() {
    check("killed within many chunks", 9000, false);
    check("killed within many chunks", 9000, true);
}
