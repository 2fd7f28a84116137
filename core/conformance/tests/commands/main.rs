//! The command `tracebuf-conformance`, run as a user runs it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

mod ftrace;
mod replay;
mod smb;

/// The command with these arguments.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracebuf-conformance"));
    command.args(arguments);
    command
}

/// A file of these tests' own, in a folder that stays when they are over.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    path
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

/// The commands that print, with files of this test's own.
fn printing(test: &str) -> [Vec<String>; 3] {
    let [script, image] =
        ["script", "image"].map(|kind| scratch(&format!("printing/{test}-{kind}")).display().to_string());
    fs::write(&script, "new 4096 ring\n").expect("a file");
    fs::write(&image, [0; 4096]).expect("a file");
    let of = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    [of(&["replay", &script]), of(&["model", &script]), of(&["smb", "dump", &image, "4096"])]
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_of_any_command() {
    for arguments in printing("closed") {
        let output = command(&[]).args(&arguments).stdout(closed()).output().expect("the command");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("error"), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")] // for /dev/full
#[test]
fn an_output_that_takes_nothing_is_an_error_of_every_command() {
    for arguments in printing("full") {
        let full = || OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = command(&[]).args(&arguments).stdout(full()).output().expect("the command");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.starts_with("error: standard output: cannot be written: "), "{arguments:?}: {said}");
        // The same when nobody reads why.
        let status = command(&[]).args(&arguments).stdout(full()).stderr(closed()).status();
        assert_eq!(status.expect("the command").code(), Some(1), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_trace_and_an_image_may_go_to_standard_output() {
    let script = scratch("stdout/script").display().to_string();
    fs::write(&script, "new 4096 ring\ncopy 1 2 0 1 0 1 1000 -7 03220161\nread\n").expect("a file");
    for name in ["-", "/dev/stdout"] {
        let out = command(&["replay", &script, "--pftrace", name]).output().expect("the command");
        assert_eq!(out.status.code(), Some(0));
        assert!(text(&out.stderr).starts_with("ok\nok\npkt "), "{}", text(&out.stderr));
        let packets = tracebuf::proto::TracePackets::new(&out.stdout);
        assert_eq!(packets.filter(|packet| packet.is_ok()).count(), 2, "the packet, and what was lost");
        let out = command(&["smb", "sample", name, "8192", "4096", "1"]).output().expect("the command");
        assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 8192));
    }
}

#[test]
fn a_replay_s_trace_file_is_whole_also_when_nobody_reads_what_is_printed() {
    let [script, trace] = ["script", "long.pftrace"].map(|name| scratch(&format!("unread/{name}")));
    let chunk = |n| format!("copy 1 1 {n} 1 0 1 0 0 024003\nread\n");
    fs::write(&script, format!("new 65536 ring\n{}", (0..20_000).map(chunk).collect::<String>()))
        .expect("a file");
    let traces = [Stdio::null(), closed()].map(|stdout| {
        let mut replay = command(&["replay", script.to_str().expect("text"), "--pftrace"]);
        let output = replay.arg(&trace).stdout(stdout).output().expect("the command");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("read: 20000 packets"), "{}", text(&output.stderr));
        fs::read(&trace).expect("a trace")
    });
    assert!(traces[0].len() > 20_000 * 5 && traces[0] == traces[1]);
}

#[cfg(unix)]
#[test]
fn a_trace_is_not_written_into_its_script() {
    let [script, link, other] = ["script", "link", "other"].map(|name| scratch(&format!("same/{name}")));
    fs::write(&script, "new 4096 ring\n").expect("a file");
    let _ = (fs::remove_file(&link), fs::remove_file(&other));
    std::os::unix::fs::symlink(&script, &link).expect("a link");
    fs::hard_link(&script, &other).expect("another name");
    let name = script.to_str().expect("text");
    for (input, output) in [(name, &script), (name, &link), (name, &other), ("-", &script)] {
        let mut replay = command(&["replay", input, "--pftrace"]);
        let said = replay.arg(output).stdin(fs::File::open(&script).expect("a file")).output();
        let said = said.expect("the command");
        assert_eq!(said.status.code(), Some(1));
        assert!(text(&said.stderr).ends_with(": cannot be written: it is the file that is read\n"));
        assert_eq!(fs::read_to_string(&script).expect("a file"), "new 4096 ring\n");
    }
}

#[test]
fn the_model_prints_what_a_replay_prints() {
    let script = scratch("model/script").display().to_string();
    let lines = "new 4096 ring\ncopy 1 2 0 1 4 1 1000 -7 0500000000aa\npatch 1 2 0 0 1:01020304\nclone\nreadn 1\n\
                 copy 1 2 2 1 0 1 1000 -7 03220161\nread\nstats\noverwritten\n";
    fs::write(&script, lines).expect("a file");
    let [model, real] =
        ["model", "replay"].map(|name| command(&[name, &script]).output().expect("the command"));
    assert_eq!((model.status.code(), text(&model.stderr)), (Some(0), ""));
    // Their counters are not all the same ones.
    let lines = |out: &[u8]| {
        text(out)
            .lines()
            .map(|line| line.split('=').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&model.stdout), lines(&real.stdout));
    fs::write(&script, "new 4096 ring\nreed\n").expect("a file");
    let out = command(&["model", &script]).output().expect("the command");
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stderr), "error line 2: no operation is called 'reed'\n");
}
