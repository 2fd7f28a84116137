//! `tracebuf record`: what this machine does, with its losses and its limits.

mod programs;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tracebuf_machine::{RecordOptions, record};

use crate::trace::{Trace, message, number, scratch};
use crate::{send, text, wait_until, wait_until_caught};

/// Without the kernel's events, which are different ones on each machine, or none.
fn command() -> Command {
    crate::tracebuf(&["record", "--no-ftrace"])
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Descriptions of tracks.
fn descriptions(trace: &Trace) -> impl Iterator<Item = &[u8]> {
    trace.packets().filter_map(|packet| message(packet, 60))
}

/// Every event lies on a track that is described somewhere in the trace, and so are those above it. Counters are
/// described before their first value: readers drop values of those that were not.
fn assert_described(trace: &Trace) {
    let mut before = HashSet::new();
    for packet in trace.packets() {
        before.extend(message(packet, 60).and_then(|track| number(track, 1)));
        let value = message(packet, 11).filter(|event| number(event, 9) == Some(4));
        let track = value.and_then(|value| number(value, 11));
        assert!(
            track.is_none_or(|track| before.contains(&track)),
            "{track:?} is described before its values"
        );
    }
    let described: HashSet<u64> = descriptions(trace).filter_map(|track| number(track, 1)).collect();
    let counters = trace.packets().filter_map(|packet| number(message(packet, 11)?, 11));
    let counters: HashSet<u64> = counters.collect();
    assert!(counters.len() > 6, "{counters:?}");
    assert!(counters.is_subset(&described), "{counters:?} {described:?}");
    let parents: HashSet<u64> = descriptions(trace).filter_map(|track| number(track, 5)).collect();
    assert!(parents.len() > 2 && parents.is_subset(&described), "{parents:?} {described:?}");
}

/// Keeps a core busy until it is dropped.
struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let work = move || while !until.load(Ordering::Relaxed) {};
        Self(stop, Some(std::thread::spawn(work)))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// The names of a process's counters.
fn counters_of(trace: &Trace, pid: u32) -> HashSet<&str> {
    let is = |track: &&[u8]| message(track, 3).and_then(|process| number(process, 1)) == Some(pid.into());
    let process = descriptions(trace).find(is).and_then(|track| number(track, 1));
    let process = process.unwrap_or_else(|| panic!("process {pid} is described"));
    let of_process = descriptions(trace).filter(|track| number(track, 5) == Some(process));
    of_process.filter_map(|track| message(track, 2)).map(text).collect()
}

/// The names that a process has in the trace.
fn names_of(trace: &Trace, pid: u32) -> HashSet<&str> {
    let processes = descriptions(trace).filter_map(|track| message(track, 3));
    let named = processes.filter(|process| number(process, 1) == Some(pid.into()));
    named.filter_map(|process| message(process, 6)).map(text).collect()
}

/// What the command says and writes when it records for this long while a process is busy.
fn busy_time(duration: &str, file: &str) -> (Output, Trace) {
    let path = scratch(file);
    let busy = Busy::new();
    let output = command().args(["--duration", duration, "-o"]).arg(&path).output().expect("the command");
    drop(busy);
    assert_success(&output);
    (output, Trace::read(&path))
}

#[test]
fn some_seconds_of_this_machine_show_its_cores_its_memory_and_its_processes() {
    // It is followed from the first look on that has it among the busiest; a thread has values from the next one on.
    let (output, trace) = busy_time("5s", "record/second.pftrace");
    let said = text(&output.stdout);
    assert!(said.contains("lost: nothing") && said.contains("ui.perfetto.dev"), "{said}");
    for name in ["context switches", "load of a minute", "look at /proc"] {
        assert!(trace.contains(name), "{name}");
    }
    let counters = counters_of(&trace, std::process::id());
    assert!(counters.is_superset(&HashSet::from(["page faults", "major page faults"])), "{counters:?}");
    // Without events of the kernel, how long threads run.
    assert!(
        counters.iter().any(|name| name.starts_with("thread ") && name.ends_with(" waits to run")),
        "{counters:?}"
    );
    let has = |number| trace.packets().filter(|packet| message(packet, number).is_some()).count();
    // What the machine is, and does; processes, and what they use.
    assert_eq!((has(45), has(1), has(34)), (1, 0, 0));
    assert!(has(7) >= 10 && has(9) >= 2 && has(2) >= 2, "{} {} {}", has(7), has(9), has(2));
    assert!(trace.events(4) > 50);
    assert_described(&trace);
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
}

#[test]
fn the_shortest_recording_has_processes_too() {
    let (_, trace) = busy_time("400ms", "record/short.pftrace");
    // Which ones they are depends on what else was busy.
    let processes = descriptions(&trace).filter_map(|track| number(message(track, 3)?, 1));
    let mut counters = processes.map(|pid| counters_of(&trace, pid as u32));
    assert!(counters.any(|counters| counters.contains("page faults")));
}

#[test]
fn what_a_small_ring_keeps_can_be_read_and_the_loss_is_told() {
    let path = scratch("record/small.pftrace");
    let output = command()
        .args(["--duration", "2s", "--interval", "20ms", "--ring", "32KiB", "-o"])
        .arg(&path)
        .output()
        .expect("the command");
    assert_success(&output);
    assert!(text(&output.stdout).contains("lost: the beginning"), "{}", text(&output.stdout));
    assert_described(&Trace::read(&path));
}

#[test]
fn ctrl_c_ends_a_recording_with_all_that_it_has() {
    for long in [false, true] {
        let path = scratch("record/interrupted.pftrace");
        let mut command = command();
        command.args(["--duration", "forever", "-o"]).arg(&path).args(long.then_some("--long"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
        wait_until_caught(&child, libc::SIGTERM);
        std::thread::sleep(Duration::from_millis(200));
        send(&child, libc::SIGINT);
        let output = child.wait_with_output().expect("its end");
        assert_success(&output);
        assert!(text(&output.stdout).contains("lost: nothing"));
        let trace = Trace::read(&path);
        assert_described(&trace);
        trace.assert_ends_with_stats();
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_recorded() {
    for long in [false, true] {
        for path in ["/no such folder/trace.pftrace", "/"] {
            let mut command = command();
            let output =
                command.args(["-o", path]).args(long.then_some("--long")).output().expect("the command");
            assert_eq!(output.status.code(), Some(1));
            let said = text(&output.stderr);
            assert!(said.starts_with(&format!("error: {path}: cannot be written: ")), "{said}");
        }
    }
}

#[test]
fn an_interval_longer_than_any_recording_leaves_the_looks_at_its_ends() {
    let path = scratch("record/interval.pftrace");
    let arguments = ["--interval", "10000000000000000000s", "--duration", "100ms", "-o"];
    let output = command().args(arguments).arg(&path).output().expect("the command");
    assert_success(&output);
    let trace = Trace::read(&path);
    assert!(trace.contains("look at /proc"));
    assert_eq!(trace.events(1), 2, "each look is a slice");
}

#[test]
fn a_disk_that_is_full_is_an_error() {
    let mut command = command();
    let output =
        command.args(["--long", "--duration", "100ms", "-o", "/dev/full"]).output().expect("the command");
    assert_eq!(output.status.code(), Some(1));
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn a_disk_that_stays_full_is_told_in_a_report_of_all_the_time() {
    let mut command = command();
    let output =
        command.args(["--long", "--duration", "1600ms", "-o", "/dev/full"]).output().expect("the command");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let (time, _) = said.split_once(" s of this machine").expect("a time");
    let seconds: f64 = time.rsplit(' ').next().and_then(|time| time.parse().ok()).expect("a number");
    assert!(seconds >= 1.6 && said.contains("lost: the end: "), "{said}");
    assert!(said.contains("No space left"), "{said}");
    // As soon as it is known, and only once, when no line of progress is shown.
    let told = text(&output.stderr);
    assert_eq!((told.lines().count(), told.matches("No space left").count()), (1, 1), "{told}");
}

#[test]
fn standard_output_that_takes_nothing_is_told_by_that_name_and_to_have_no_trace() {
    for (more, told) in [
        (None, "error: standard output: cannot be written: No space left on device"),
        (Some("--long"), "standard output: "),
    ] {
        let mut command = command();
        command.args(["--duration", "100ms", "-o", "-"]).args(more);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let output = command.stdout(full).stderr(Stdio::piped()).output().expect("the command");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.lines().any(|line| line.starts_with(told)), "{said}");
        assert!(!said.contains("/dev/stdout") && !said.contains("open it"), "{said}");
    }
}

#[test]
fn a_file_that_takes_nothing_for_a_while_ends_no_recording() {
    let path = scratch("record/full-for-a-while.pftrace");
    // A soft limit that the shell's child has from its start. Going beyond it is an error, not a signal that ends it.
    let limited =
        "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" record --no-ftrace --long --duration 60s -o \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_tracebuf")]).arg(&path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
    let (mut stderr, mut told) = (BufReader::new(child.stderr.take().expect("a pipe")), String::new());
    stderr.read_line(&mut told).expect("a line");
    assert!(told.contains("File too large"), "{told}");
    assert_eq!(std::fs::metadata(&path).expect("a file").len(), 0);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let pid = child.id() as i32;
    // SAFETY: the child was not waited for yet, so the number is its own; the limits are there for both calls.
    let done = unsafe {
        let read = libc::prlimit(pid, libc::RLIMIT_FSIZE, std::ptr::null(), &mut limit);
        limit.rlim_cur = limit.rlim_max;
        [read, libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut())]
    };
    assert_eq!(done, [0, 0], "{}", std::io::Error::last_os_error());
    assert!(wait_until(30, || std::fs::metadata(&path).expect("a file").len() > 0));
    send(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("its end");
    assert_success(&output);
    assert!(text(&output.stdout).contains("lost: nothing"), "{}", text(&output.stdout));
    Trace::read(&path).assert_ends_with_stats();
}

#[test]
fn a_ring_that_holds_nothing_or_that_cannot_be_is_refused_before_anything_is_recorded() {
    let path = scratch("record/ring.pftrace");
    let _ = std::fs::remove_file(&path);
    for ring in ["4095", "4GiB", "0"] {
        let output = command().args(["--ring", ring, "-o"]).arg(&path).output().expect("the command");
        assert_eq!(output.status.code(), Some(2), "{ring}");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("'{ring}' for '--ring <RING>': a ring has 4 KiB at least")), "{said}");
    }
    // Programs hear it from the library.
    for ring in [4095, 4 << 30, 0] {
        let error = record(&RecordOptions::new(&path).ring(ring), &AtomicBool::new(false), |_| ());
        let said = error.err().map(|error| error.to_string());
        let ring =
            format!("in the size of the ring, {ring} bytes: it is 4 KiB at least, and less than 4 GiB");
        assert_eq!(said, Some(ring));
    }
    assert!(!path.exists());
}

#[test]
fn durations_and_sizes_that_are_none_are_refused() {
    for arguments in
        [["--duration", "soon"], ["--ring", "4 apples"], ["--interval", "-1s"], ["--interval", "9ms"]]
    {
        let output = command().args(arguments).output().expect("the command");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let output = command().args(["--duration", "99999999999999999999h"]).output().expect("the command");
    let said = text(&output.stderr);
    assert!(said.contains("for '--duration <DURATION>': 5124095576030430h is the longest"), "{said}");
}
