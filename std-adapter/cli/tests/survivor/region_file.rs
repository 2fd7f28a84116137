//! Buffers in mapped files: what survives a kill, alone and alongside a long trace.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::trace::{self, Trace, scratch};
use tracebuf::producer::Exhaustion;
use tracebuf_analysis::inspect::Inspection;
use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session, Stopped};

use super::COUNTER;

fn in_file(path: &Path, bytes: u64) -> BufferConfig {
    let _ = std::fs::remove_file(path);
    BufferConfig::ring(bytes).in_file(path)
}

fn recover(arguments: &[&Path]) -> (bool, String) {
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

/// How many times to kill; 300 with `TRACEBUF_KILLS=300`.
fn kills() -> u64 {
    std::env::var("TRACEBUF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

const THREADS: usize = 3;

/// Records as much as it can and says how many values are certain to be committed: `committed COUNT COUNT COUNT`.
#[test]
#[ignore = "the process that the next tests kill"]
fn recording_until_killed() {
    let Ok(region) = std::env::var("TRACEBUF_CHILD_REGION") else { return };
    let ring = std::env::var("TRACEBUF_CHILD_RING").expect("bytes").parse().expect("a number");
    let mut builder = Session::builder().buffer(in_file(region.as_ref(), ring)).shared_memory(2 << 20);
    // Threads wait when shared memory is full, so that nothing is missing for that reason.
    builder = builder.exhaustion(Exhaustion::Stall);
    if let Ok(trace) = std::env::var("TRACEBUF_CHILD_TRACE") {
        builder = builder.long_trace(LongTrace::to(&trace).period(Duration::from_millis(10)));
    }
    let session = builder.start().expect("a session");
    static RECORDED: [AtomicU64; THREADS] = [const { AtomicU64::new(0) }; THREADS];
    for recorded in &RECORDED {
        let recorder = session.recorder();
        std::thread::spawn(move || {
            for value in 0.. {
                recorder.with(|tracer| {
                    // In many sizes, some over several chunks.
                    let long = if value % 64 == 0 { 5000 } else { (value % 50) as usize };
                    let text = &"x".repeat(long);
                    let track = tracer.on(&COUNTER);
                    track.count(value);
                    tracer.track().instant_with("filler", |event| event.arg("text", text.as_str()));
                });
                recorded.store(value as u64 + 1, Ordering::Release);
                if value % 128 == 0 {
                    std::thread::sleep(Duration::from_micros(500));
                }
            }
        });
    }
    let mut output = std::io::stdout().lock();
    loop {
        let before = RECORDED.each_ref().map(|recorded| recorded.load(Ordering::Acquire));
        if session.flush(Duration::from_secs(1)).is_ok() {
            let [a, b, c] = before;
            writeln!(output, "committed {a} {b} {c}").expect("a pipe");
            output.flush().expect("a pipe");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

struct Kill {
    /// How many values each thread had certainly committed, smallest first.
    committed: Vec<u64>,
}

fn kill_at_random(random: &mut u64, ring: u64, region: &Path, trace: Option<&Path>) -> Kill {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["region_file::recording_until_killed", "--exact", "--ignored", "--nocapture"])
        .env("TRACEBUF_CHILD_REGION", region)
        .env("TRACEBUF_CHILD_RING", ring.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(trace) = trace {
        let _ = std::fs::remove_file(trace);
        command.env("TRACEBUF_CHILD_TRACE", trace);
    }
    let mut child = command.spawn().expect("a child");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let reader = std::thread::spawn(move || {
        let said = |line: String| {
            let (_, rest) = line.split_once("committed ")?;
            rest.split(' ').map(|value| value.parse().ok()).collect::<Option<Vec<u64>>>()
        };
        output.lines().map_while(Result::ok).filter_map(said).last().unwrap_or_default()
    });
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    std::thread::sleep(Duration::from_micros(60_000 + *random % 250_000));
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    let mut committed = reader.join().expect("its last words");
    committed.sort_unstable();
    Kill { committed }
}

/// The values of each sequence, from the first on without a hole; sorted by where they end.
fn runs(counters: &BTreeMap<u64, Vec<u64>>, kill: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = counters
        .iter()
        .map(|(sequence, values)| {
            let (first, last) = (values[0], *values.last().expect("some"));
            let expected: Vec<u64> = (first..first + values.len() as u64).collect();
            assert_eq!(
                *values, expected,
                "kill {kill}, sequence {sequence}: twice, missing or in another order"
            );
            (last, first)
        })
        .collect();
    runs.sort_unstable();
    runs
}

/// What packets say was lost before them: their place, their sequence and the causes.
fn causes(trace: &Trace) -> Vec<(usize, u64, u64)> {
    let number = |packet, field| trace::number(packet, field).unwrap_or(0);
    let told = trace.packets().enumerate().map(|(at, packet)| (at, number(packet, 10), number(packet, 42)));
    told.filter(|(_, _, causes)| *causes != 0).collect()
}

/// Each thread's values reach as far as was promised. Threads are told apart by how far they came.
fn assert_reached(runs: &[(u64, u64)], committed: &[u64], kill: u64) {
    for (count, place) in committed.iter().rev().zip(1..).filter(|(count, _)| **count > 0) {
        let run = runs.len().checked_sub(place).and_then(|at| runs.get(at));
        assert!(
            run.is_some_and(|(last, _)| last + 1 >= *count),
            "kill {kill}: {runs:?}, committed {committed:?}"
        );
    }
}

fn random() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    now.as_nanos() as u64 | 1
}

#[test]
#[ignore = "takes more than five seconds"]
fn after_a_kill_the_long_trace_and_the_buffer_hold_all_that_was_committed_once() {
    let (region, long) = (scratch("killed.region"), scratch("killed-long.pftrace"));
    let (out, both) = (scratch("killed.pftrace"), scratch("killed-both.pftrace"));
    let mut random = random();
    let (mut promised, mut in_buffer, mut in_file) = (0, 0, 0);
    // On a machine that is busy with other things, most may be killed before they have got anywhere.
    for kill in 0..10 * kills() {
        if kill >= kills() && promised > 0 && in_file > 0 && in_buffer > 0 {
            break;
        }
        // Room for more than they record until they are killed: if the disk is slow, nothing else keeps it until it is
        // in the file.
        let Kill { committed } = kill_at_random(&mut random, 32 << 20, &region, Some(&long));
        // From then on the file is one that recovery knows.
        let had_started = std::fs::read(&region).is_ok_and(|file| file.starts_with(b"TRACEMAP"));
        if !had_started {
            assert!(committed.is_empty());
            continue;
        }
        let (ok, said) = recover(&[&region, "-o".as_ref(), &out, "--after".as_ref(), &long]);
        assert!(ok, "kill {kill}: {said}");
        let (file, rest) = (Trace::read_cut(&long), Trace::read(&out));
        let mut counters = file.counters();
        in_file += counters.values().map(Vec::len).sum::<usize>();
        for (sequence, values) in rest.counters() {
            in_buffer += values.len();
            counters.entry(sequence).or_default().extend(values);
        }
        let runs = runs(&counters, kill);
        assert!(runs.iter().all(|(_, first)| *first == 0), "kill {kill}: {runs:?}");
        if !committed.is_empty() {
            assert_reached(&runs, &committed, kill);
        }
        promised += committed.iter().sum::<u64>();
        assert_eq!(causes(&file), [], "kill {kill}: {said}");
        // A packet whose size was still to be patched is given up, and the next one of its thread says so.
        if !["without its end", "without their end"].iter().any(|cut| said.contains(cut)) {
            assert_eq!(causes(&rest), [], "kill {kill}: {said}");
        }
        // A single trace of both is the same.
        let (ok, said) = recover(&[&region, "-o".as_ref(), &both, "--with".as_ref(), &long]);
        assert!(ok, "kill {kill}: {said}");
        assert_eq!(Trace::read(&both).counters(), counters, "kill {kill}");
    }
    println!("promised {promised}, in files {in_file}, in buffers {in_buffer}");
    assert!(promised > 0 && in_file > 0 && in_buffer > 0, "{promised} {in_file} {in_buffer}");
    // Cut wherever the last kill came: no trace to be decoded by others. Nor is it there if that came too early.
    let _ = std::fs::remove_file(&long);
}

#[test]
fn after_a_kill_a_lapped_ring_holds_all_that_was_not_overwritten() {
    let (region, out) = (scratch("lapped.region"), scratch("lapped.pftrace"));
    let mut random = random();
    let (mut lapped, mut kept) = (0, 0);
    for kill in 0..10 * kills() {
        if kill >= kills() && lapped > 0 && kept > 0 {
            break;
        }
        let ring = 256 << 10;
        let Kill { committed } = kill_at_random(&mut random, ring, &region, None);
        if committed.is_empty() {
            continue;
        }
        let (ok, said) = recover(&[&region, "-o".as_ref(), &out]);
        assert!(ok, "kill {kill}: {said}");
        let trace = Trace::read(&out);
        let runs = runs(&trace.counters(), kill);
        // Threads that were kept from running may be overwritten entirely, whichever they are; of the others, the
        // newest values are there. So the first of these came at least as far as the first of all had, and so on.
        assert!(!runs.is_empty() && runs.len() <= committed.len(), "kill {kill}: {runs:?}, {committed:?}");
        let reached = runs.iter().zip(&committed).all(|((last, _), count)| last + 1 >= *count);
        assert!(reached, "kill {kill}: {runs:?}, committed {committed:?}");
        if runs.iter().any(|(_, first)| *first > 0) {
            lapped += 1;
            // What was not overwritten is there. Overwriting something takes along what its sequence has before it,
            // which lies somewhat behind it after a scrape of a dozen chunks of 2 KiB in the order of their addresses.
            let inspection =
                Inspection::of_file(&std::fs::read(&region).expect("the file")).expect("a buffer");
            let chunks: u64 = inspection.sequences.iter().map(|sequence| sequence.bytes).sum();
            let survivor = Survivor::open(&region).expect("a buffer");
            let readable = survivor.salvage().bytes_unreadable == 0;
            let map = inspection.map(64, 64, false);
            assert!(chunks > ring * 7 / 8 && readable, "kill {kill}: {said}{inspection}{map}");
        }
        kept += runs.len();
    }
    assert!(lapped > 0 && kept > 0, "{lapped} {kept}");
}

/// A service that starts anew after it was killed.
#[test]
fn a_service_that_starts_again_finds_what_the_killed_one_left() {
    let region: PathBuf = scratch("again.region");
    let mut random = random();
    let start = Instant::now();
    let committed = loop {
        let Kill { committed } = kill_at_random(&mut random, 8 << 20, &region, None);
        if !committed.is_empty() {
            break committed;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it records");
    };
    let session = Session::builder().buffer(BufferConfig::ring(8 << 20).in_file(&region)).start();
    let session = session.expect("the file is free again");
    session.recorder().instant("the next one");
    let (previous, out) = (scratch("again.region.previous"), scratch("again.pftrace"));
    let survivor = Survivor::open(&previous).expect("what the killed one left");
    survivor.write_to(&out).expect("a trace");
    let runs = runs(&Trace::read(&out).counters(), 0);
    assert_reached(&runs, &committed, 0);
}
