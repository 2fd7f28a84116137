//! Kills at any moment.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebuf_session::Session;

use crate::rotation::files;
use crate::trace::{Trace, folder, scratch};
use crate::{COUNTER, quick};

/// How many times to kill; 300 with `TRACEBUF_KILLS=300`.
fn kills() -> u64 {
    std::env::var("TRACEBUF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[test]
#[ignore = "the process that the next test kills"]
fn recording_until_killed() {
    let Ok(path) = std::env::var("TRACEBUF_CHILD_TRACE") else { return };
    let session =
        Session::builder().ring(32 << 20).shared_memory(4 << 20).long_trace(quick(path.as_ref())).start();
    let session = session.expect("a session");
    for _ in 0..3 {
        let recorder = session.recorder();
        std::thread::spawn(move || {
            for value in 0.. {
                recorder.count(&COUNTER, value);
                if value % 256 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
    loop {
        println!("bytes {}", session.long_trace().expect("a long trace").bytes);
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn after_a_kill_the_file_holds_all_that_was_written_in_order_and_nothing_twice() {
    let path = scratch("killed.pftrace");
    let (mut events, mut longest) = (0, Vec::new());
    let mut random = u64::from(std::process::id()) | 1;
    for kill in 0..kills() {
        let _ = std::fs::remove_file(&path);
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["kills::recording_until_killed", "--exact", "--ignored", "--nocapture"])
            .env("TRACEBUF_CHILD_TRACE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let bytes = |line: String| line.strip_prefix("bytes ")?.parse::<u64>().ok();
        let mut said = output.lines().map_while(Result::ok).filter_map(bytes);
        let first = said.next().expect("it records");
        let reader = std::thread::spawn(move || said.last().unwrap_or(first));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 200_000));
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let promised = reader.join().expect("its last words");
        let trace = Trace::read_cut(&path);
        assert!(trace.whole as u64 >= promised, "kill {kill}: {} of {promised} bytes", trace.whole);
        assert_eq!(trace.losses(), 0, "kill {kill}");
        for (sequence, values) in trace.counters() {
            let expected: Vec<u64> = (0..values.len() as u64).collect();
            assert_eq!(values, expected, "kill {kill}, sequence {sequence}");
            events += values.len();
        }
        if trace.whole > longest.len() {
            longest = trace.bytes[..trace.whole].to_vec();
        }
    }
    assert!(events > 0, "some recorded something");
    // The whole part of the longest one, for other decoders to look at.
    std::fs::write(scratch("killed-whole.pftrace"), longest).expect("a file");
    std::fs::remove_file(&path).expect("it is there");
}

/// With some number of files behind it, and the newest cut anywhere.
const SIZE: u64 = 300_000;

#[test]
#[ignore = "the process that the next test kills"]
fn rotating_until_killed() {
    let (Ok(path), Ok(how)) = (std::env::var("TRACEBUF_CHILD_TRACE"), std::env::var("TRACEBUF_COMPRESSION"))
    else {
        return;
    };
    let trace = quick(path.as_ref()).rotate_at_size(SIZE);
    let trace = match &how[..] {
        #[cfg(feature = "deflate")]
        "deflate" => trace.compress(tracebuf_session::Compression::Deflate),
        #[cfg(feature = "zstd")]
        "zstd" => trace.compress(tracebuf_session::Compression::Zstd),
        _ => trace,
    };
    let session = Session::builder().ring(32 << 20).shared_memory(4 << 20).long_trace(trace).start();
    let session = session.expect("a session");
    println!("it records");
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let recorder = session.recorder();
            scope.spawn(move || {
                let _whole = recorder.enter_with("whole", |event| event.arg("thread", thread));
                for index in 0_u64.. {
                    recorder.slice_with("part", |event| event.arg("index", index), || ());
                    if index % 64 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
}

#[test]
fn after_a_kill_each_of_several_files_opens_and_together_they_have_nothing_twice() {
    let folder = folder("killed");
    let (mut random, mut rotated) = (u64::from(std::process::id()) | 1, 0);
    let codecs = ["none", "deflate", "zstd"];
    for kill in 0..kills() {
        files(&folder).iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["kills::rotating_until_killed", "--exact", "--ignored", "--nocapture"])
            .env("TRACEBUF_CHILD_TRACE", folder.join("long.pftrace"))
            .env("TRACEBUF_COMPRESSION", codecs[kill as usize % codecs.len()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let begins = output.lines().map_while(Result::ok).any(|line| line.contains("it records"));
        assert!(begins);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 600_000));
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let files = files(&folder);
        rotated += files.len() - 1;
        assert_follows(&files, kill);
    }
    assert!(rotated > 0, "some began a second file");
}

/// Each file has the slice that is open, with its arguments, and the parts go on where the file before ended.
fn assert_follows(files: &[PathBuf], kill: u64) {
    let mut next = BTreeMap::<i64, i64>::new();
    for path in files {
        let trace = tracebuf_analysis::Trace::open(path).expect("a trace");
        assert!(trace.faults().is_empty(), "kill {kill}, {}: {:?}", path.display(), trace.faults());
        assert!(trace.losses().sequences.values().all(|of| of.after_loss == 0 && of.unreadable == 0));
        let mut before = None;
        for part in trace.slices().filter(|slice| slice.name() == "part") {
            let argument = |event: &tracebuf_analysis::trace::Event<'_>, name| {
                event.argument(name).and_then(|value| value.as_i64()).expect("an argument")
            };
            let (thread, index) =
                (argument(&part.parent().expect("what is open"), "thread"), argument(&part, "index"));
            let expected = next.entry(thread).or_default();
            // One that is open between two files begins in both, first of all.
            let is_open = index + 1 == *expected && before != Some(thread);
            assert!(index == *expected || is_open, "kill {kill}, {}: {index}, {expected}", path.display());
            *expected = index + 1;
            before = Some(thread);
        }
    }
}
