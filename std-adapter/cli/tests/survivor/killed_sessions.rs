//! Sessions that are killed at any moment: what they committed is in the long trace and in the file of the buffer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_analysis::inspect::Inspection;
use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session};

use super::COUNTER;
use super::region_file::{in_file, recover};
use crate::trace::{self, Trace, scratch};

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
        .args(["killed_sessions::recording_until_killed", "--exact", "--ignored", "--nocapture"])
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
    let region = scratch("again.region");
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
