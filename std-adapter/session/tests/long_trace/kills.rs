//! Kills at any moment.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebuf_session::Session;

use crate::trace::{Trace, scratch};
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
