//! `tracebuf record -- COMMAND`: a command that is recorded until it ends; and events of the kernel.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::trace::{Trace, message, number, scratch};
use crate::{send, text, wait_until_caught};

/// What is said of a recording of this shell script, and the trace.
fn recorded(script: &str, file: &str) -> (Output, Trace) {
    let path = scratch(file);
    let mut command = crate::tracebuf(&["record", "--no-ftrace", "-o"]);
    command.arg(&path).args(["--", "sh", "-c", script]);
    let output = command.output().expect("the command");
    (output, Trace::read(&path))
}

#[test]
fn a_command_is_recorded_until_it_ends_and_its_exit_status_is_passed_on() {
    let begun = Instant::now();
    let (output, trace) = recorded("echo \"it's\" output; sleep 0.3; exit 7", "record/command.pftrace");
    assert!(begun.elapsed() < Duration::from_secs(9), "not the ten seconds of a recording without one");
    assert_eq!(output.status.code(), Some(7));
    // Standard output is the command's; the report is beside it.
    assert_eq!(text(&output.stdout), "it's output\n");
    assert!(text(&output.stderr).contains("lost: nothing"), "{}", text(&output.stderr));
    // Its process has a slice, with the words.
    assert!(trace.contains("command") && trace.contains("sleep 0.3; exit 7"));
    trace.assert_ends_with_stats();
}

#[test]
fn a_command_that_a_signal_ends_has_the_status_that_shells_have() {
    let (output, trace) = recorded("kill -KILL $$", "record/command-killed.pftrace");
    assert_eq!(output.status.code(), Some(128 + 9), "{}", text(&output.stderr));
    trace.assert_ends_with_stats();
}

#[test]
fn a_command_that_cannot_be_run_is_told_with_the_status_that_shells_have_and_no_file_is_made() {
    let path = scratch("record/command-none.pftrace");
    for (command, code) in [("no such program", 127), ("/no such program", 127), ("/", 126)] {
        let mut recording = crate::tracebuf(&["record", "--no-ftrace", "--long", "-o"]);
        let output = recording.arg(&path).args(["--", command]).output().expect("the command");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).starts_with(&format!("error: running {command}: ")),
            "{}",
            text(&output.stderr)
        );
        assert!(!path.exists());
    }
    let output =
        crate::tracebuf(&["record", "--duration", "1s", "--", "true"]).output().expect("the command");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_recording_that_is_told_to_end_ends_its_command() {
    let path = scratch("record/command-ended.pftrace");
    let mut command = crate::tracebuf(&["record", "--no-ftrace", "-o"]);
    command.arg(&path).args(["--", "sleep", "1000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the command");
    wait_until_caught(&child, libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    send(&child, libc::SIGTERM);
    let output = child.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    Trace::read(&path).assert_ends_with_stats();
}

#[test]
fn events_that_no_kernel_has_are_refused() {
    for (events, code, why) in [("shed", 2, "is no set"), ("sched,../x", 2, "is no set")] {
        let output = crate::tracebuf(&["record", "--events", events]).output().expect("the command");
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    let path = scratch("record/no-events.pftrace");
    let mut command = crate::tracebuf(&["record", "--events", "no/such", "-o"]);
    let output = command.arg(&path).output().expect("the command");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: events of the kernel: "), "{}", text(&output.stderr));
    assert!(!path.exists());
}

mod of_a_kernel {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    fn instances() -> BTreeSet<String> {
        let entries = fs::read_dir("/sys/kernel/tracing/instances").expect("a tracefs").flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// As root: `mount -t tracefs nodev /sys/kernel/tracing`, then
    /// `cargo test -p tracebuf-cli --test commands of_a_kernel -- --ignored --test-threads 1`.
    #[test]
    #[ignore = "needs root and a tracefs"]
    fn scheduling_is_in_the_trace_and_stats_says_that_nothing_was_lost() {
        let before = instances();
        let path = scratch("record/kernel.pftrace");
        let mut command = crate::tracebuf(&["record", "--kernel-buffer", "64MiB", "-o"]);
        let output = command.arg(&path).args(["--", "sleep", "0.5"]).output().expect("the command");
        assert_eq!(output.status.code(), Some(0));
        let said = text(&output.stderr);
        assert!(said.contains(" kernel events; ") && said.contains("lost: nothing"), "{said}");
        let trace = Trace::read(&path);
        let bundles = trace.packets().filter_map(|packet| message(packet, 1));
        assert!(bundles.filter_map(|bundle| message(bundle, 4)).any(|lists| !lists.is_empty()));
        assert!(
            trace.packets().filter_map(|packet| message(packet, 34)).any(|stats| number(stats, 1) == Some(2))
        );
        let stats = crate::tracebuf(&["stats"]).arg(&path).output().expect("the command");
        assert_eq!(stats.status.code(), Some(0), "{}", text(&stats.stdout));
        assert_eq!(instances(), before);
    }

    #[test]
    #[ignore = "needs root and a tracefs"]
    fn after_a_kill_the_next_recording_removes_what_is_left_and_nothing_else() {
        let other = "/sys/kernel/tracing/instances/of-somebody-else";
        let _ = fs::create_dir(other);
        let before = instances();
        let path = scratch("record/kernel-killed.pftrace");
        let mut command = crate::tracebuf(&["record", "--duration", "100s", "-o"]);
        let mut child =
            command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command");
        let has_more = || instances().len() > before.len();
        assert!(crate::wait_until(30, has_more));
        child.kill().expect("a kill");
        child.wait().expect("its end");
        assert!(has_more(), "the kernel goes on recording");
        let output = crate::tracebuf(&["record", "--duration", "100ms", "-o"]).arg(&path).output();
        assert!(output.expect("the command").status.success());
        assert_eq!(instances(), before);
        let _ = fs::remove_dir(other);
    }

    #[test]
    #[ignore = "needs root and a tracefs"]
    fn what_the_kernel_lost_is_told_by_processor_and_with_what_to_do() {
        let path = scratch("record/kernel-lost.pftrace");
        let mut command =
            crate::tracebuf(&["record", "--events", "syscalls/*", "--kernel-buffer", "64KiB", "-o"]);
        let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo x; done >/dev/null";
        let output = command.arg(&path).args(["--", "sh", "-c", script]).output().expect("the command");
        let said = text(&output.stderr);
        if said.contains("lost: nothing") {
            // A machine that reads as fast as this one writes.
            return;
        }
        assert!(said.contains("lost: in between: ") && said.contains("--kernel-buffer"), "{said}");
        let stats = crate::tracebuf(&["stats"]).arg(&path).output().expect("the command");
        let told = text(&stats.stdout);
        assert_eq!(stats.status.code(), Some(3));
        assert!(told.contains(" overwritten in the kernel\n") && told.contains("  processor "), "{told}");
    }
}
