//! `tracebuf demo`: eight threads that trace themselves, every packet accounted for.

use std::fs;
use tracebuf::proto::TracePackets;
use tracebuf_std::demo::{Options, run};

use crate::trace::scratch;
use crate::tracebuf;

/// Runs the demonstration; returns what it prints, and the number of packets in its file.
fn demo(name: &str, arguments: &[&str]) -> (String, usize) {
    let file = scratch(&format!("demo/{name}.pftrace"));
    let output = tracebuf(&["demo", file.to_str().unwrap(), "--sources", env!("CARGO_MANIFEST_DIR")])
        .args(arguments)
        .output()
        .expect("the command starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), errors.as_ref()), (Some(0), ""), "{text}");
    let bytes = fs::read(&file).unwrap();
    let packets = TracePackets::new(&bytes[..]).map(|packet| packet.expect("a whole packet"));
    let count = packets.count();
    fs::remove_file(file).unwrap();
    (text, count)
}

/// The numbers in a line of the table: written, read, dropped, evicted, broken, states.
fn numbers(text: &str, row: &str) -> Vec<u64> {
    let line = text.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row}: {text}"));
    line[row.len()..].split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

#[test]
fn nothing_is_lost_when_writers_wait_and_the_ring_is_large() {
    let (text, packets) = demo("stall", &["--numbers", "200000"]);
    let all = numbers(&text, "all");
    assert!(all[0] > 10_000, "{text}");
    assert_eq!((all[1], &all[2..5]), (all[0], &[0, 0, 0][..]), "{text}");
    assert_eq!(packets as u64, all[1] + 1);
    assert!(text.contains("lost: nothing") && text.ends_with("the numbers agree\n"), "{text}");
    let sum: u64 = (0..8).map(|index| numbers(&text, &format!("worker {index}"))[0]).sum();
    assert_eq!(sum, all[0]);
}

#[test]
fn what_a_small_ring_overwrites_is_accounted_for() {
    let (text, packets) = demo("ring", &["--numbers", "400000", "--ring", "64KiB"]);
    let all = numbers(&text, "all");
    assert_eq!((all[2], packets as u64), (0, all[1] + 1), "{text}");
    assert!(all[3] > all[1], "{text}");
    // One for every quarter of the ring, for each of eight threads, and the ring has lapped a few times.
    assert!(all[5] > 16, "{text}");
}

#[test]
fn what_writers_drop_is_accounted_for() {
    let (text, _) = demo("drop", &["--numbers", "400000", "--when-full", "drop"]);
    assert_eq!(numbers(&text, "all")[3..5], [0, 0], "{text}");
    assert!(text.ends_with("the numbers agree\n"), "{text}");
}

#[test]
fn as_many_numbers_are_sorted_as_were_asked_for() {
    for (numbers, said) in [("0", "0 numbers"), ("1", "1 number"), ("1003", "1003 numbers")] {
        let (text, _) = demo("share", &["--numbers", numbers]);
        assert!(text.starts_with(&format!("8 threads sorted {said} and counted ")), "{text}");
    }
}

#[test]
fn what_goes_to_a_device_is_not_counted_and_the_other_numbers_agree() {
    for out in ["/dev/null", "-"] {
        let mut run = tracebuf(&["demo", out, "--numbers", "1000", "--sources", env!("CARGO_MANIFEST_DIR")]);
        if out == "-" {
            run.stdout(fs::File::options().write(true).open("/dev/null").expect("a device"));
        }
        let output = run.output().expect("the command starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("\ntrace file: not counted, since "), "{said}");
        assert!(said.ends_with("\nthe numbers agree\n"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said() {
    let arguments = ["demo", "/nonexistent/demo.pftrace", "--numbers", "100", "--sources", "."];
    assert_fails(&arguments, "error: /nonexistent/demo.pftrace: cannot be written: No such file");
}

#[test]
fn sources_that_cannot_be_read_are_said() {
    let file = scratch("demo/sources");
    let arguments = ["demo", file.to_str().unwrap(), "--numbers", "100", "--sources", "/nonexistent"];
    assert_fails(&arguments, "error: /nonexistent: No such file");
}

#[test]
fn a_ring_that_holds_no_chunk_is_refused_and_the_file_left_as_it_is() {
    let file = scratch("demo/too_small");
    fs::write(&file, "as it was").unwrap();
    for ring in ["0", "512B", "4GiB"] {
        let output = tracebuf(&["demo", "--ring", ring]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("'{ring}' for '--ring <SIZE>': a ring has 4 KiB at least")), "{said}");
    }
    // Programs hear it from the library.
    let mut options = Options::new(&file);
    options.ring = Options::LEAST_RING - 1;
    assert_eq!(run(&options).unwrap_err().to_string(), "a ring has 4 KiB at least");
    assert_eq!(fs::read(&file).unwrap(), b"as it was");
    fs::remove_file(file).unwrap();
}

#[test]
fn more_numbers_than_there_is_memory_for_are_refused_and_the_file_left_as_it_is() {
    let file = scratch("demo/too_many");
    fs::write(&file, "as it was").unwrap();
    for numbers in [usize::MAX / 16, usize::MAX / 2, usize::MAX].map(|numbers| numbers.to_string()) {
        let arguments = ["demo", file.to_str().unwrap(), "--numbers", &numbers, "--sources", "."];
        assert_fails(&arguments, &format!("error: no memory for {numbers} numbers"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"as it was");
    fs::remove_file(file).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_there_is_no_memory_for_is_said_to_be_what_there_is_none_for() {
    let file = scratch("demo/no_memory");
    let limited = "ulimit -v 500000 && exec \"$0\" demo \"$1\" --numbers 100 --ring 1GiB --sources \"$2\"";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_tracebuf")])
        .arg(&file)
        .arg(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: memory for a ring of 1073741824 bytes: "), "{said}");
    assert!(!file.exists());
}

fn assert_fails(arguments: &[&str], said: &str) {
    let output = tracebuf(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with(said), "{output:?}");
}

/// Stacks of 256 MiB: a limit of 1 GiB leaves no room for nine of them.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_cannot_be_started_is_said_and_the_others_end() {
    let file = scratch("demo/threads");
    let limited = "ulimit -v 1000000 && exec timeout -k 1 60 \"$0\" demo \"$1\" --sources \"$2\"";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_tracebuf")])
        .arg(&file)
        .arg(env!("CARGO_MANIFEST_DIR"))
        .env("RUST_MIN_STACK", (256 << 20).to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.starts_with("error: ")), (Some(1), true), "{output:?}");
    let _ = fs::remove_file(file);
}
