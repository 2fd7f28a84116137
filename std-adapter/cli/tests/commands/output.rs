//! Outputs that nobody takes, or that take nothing.

mod signals;
mod stdout;
mod taken;
#[cfg(target_os = "linux")] // for /dev/full
mod unwritable;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use object::Endianness;
use serialport::{SerialPort, TTYPort};

use crate::recover::{self, cores::elf};
use crate::trace::{Trace, mkfifo, scratch};
use crate::{keep_from_commands, text, tracebuf as command, wait_until, wait_until_caught};
use tracebuf::proto::TracePackets;
use tracebuf_session::{BufferConfig, Session};

fn name(path: &Path) -> &str {
    path.to_str().expect("a name")
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

/// Frames, the last packet of which has timestamp 5 and sequence 2.
const FRAMES: &[u8] = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";

/// Every command that prints, with arguments with which it succeeds and files of this test's own.
fn printing(test: &str) -> Vec<Vec<String>> {
    let file = |name: &str| scratch(&format!("output/{test}-{name}"));
    let [frames, trace, out] = ["frames", "trace", "out"].map(file);
    fs::write(&frames, FRAMES).expect("a file");
    Session::builder().start().expect("a session").stop().expect("its end").write_to(&trace).expect("a file");
    let [frames, trace, out] = [&frames, &trace, &out].map(|path| name(path));
    let all = vec![
        vec!["stats", trace],
        vec!["inspect", trace],
        vec!["size", "--rate", "2MB"],
        vec!["receive", frames, "-o", out],
        vec!["record", "--no-ftrace", "--duration", "50ms", "-o", out],
        vec!["--help"],
        vec!["--version"],
    ];
    all.into_iter().map(|command| command.into_iter().map(str::to_owned).collect()).collect()
}

fn run(arguments: &[String], stdout: Stdio) -> Output {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    command(&arguments).stdout(stdout).output().expect("the command")
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_of_any_command() {
    for arguments in printing("closed") {
        let output = run(&arguments, closed());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("error"), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_output_that_takes_nothing_is_an_error_of_every_command() {
    for arguments in printing("full") {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = run(&arguments, full.into());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("cannot be written: "),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_a_trace_lost_is_in_the_exit_status_also_when_nobody_reads_it() {
    let trace = fresh("lossy.pftrace");
    // A trace that ends without statistics may lack its end.
    fs::write(&trace, b"\x0A\x02\x50\x02").expect("a file");
    let arguments = ["stats", name(&trace)].map(str::to_owned);
    for stdout in [Stdio::null(), closed()] {
        let output = run(&arguments, stdout);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), ""));
    }
}

/// How a command ends when nobody reads what it says on standard error.
fn end_unread(arguments: &[&str], stdout: Stdio) -> Option<i32> {
    command(arguments).stdout(stdout).stderr(closed()).status().expect("the command").code()
}

#[test]
fn commands_do_their_work_also_when_nobody_reads_what_they_say_about_it() {
    let [dump, region, trace] = ["dump", "region", "trace"].map(|name| fresh(&format!("unread-{name}")));
    fs::write(&dump, recover::region()).expect("a file");
    make_region(&region);
    let [dump, region, out] = [&dump, &region, &trace].map(|path| name(path));
    for arguments in [["recover", dump, "-o", out], ["recover", region, "-o", out]] {
        let _ = fs::remove_file(&trace);
        assert_eq!(end_unread(&arguments, closed()), Some(0), "{arguments:?}");
        let trace = fs::read(&trace).expect("a trace");
        assert!(!trace.is_empty() && TracePackets::new(&trace).all(|packet| packet.is_ok()), "{arguments:?}");
    }
}

#[test]
fn commands_that_fail_say_so_by_their_end_when_nobody_reads_why() {
    let none = "/no such file";
    for arguments in [
        &["stats", none][..],
        &["inspect", none],
        &["receive", "--once", none, "-o", "/dev/null"],
        &["recover", none, "-o", "/dev/null"],
        &["record", "-o", "/no such folder/trace"],
    ] {
        assert_eq!(end_unread(arguments, Stdio::null()), Some(1), "{arguments:?}");
    }
    for arguments in printing("unread") {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
        assert_eq!(end_unread(&arguments, full.into()), Some(1), "{arguments:?}");
    }
}

/// A recording for this long, or until it is told to end, that reports its progress on `stderr`.
fn recording(trace: &Path, duration: &str, stderr: Stdio) -> Command {
    let mut recording = command(&["record", "--no-ftrace", "--duration", duration, "-o", name(trace)]);
    recording.stdout(Stdio::null()).stderr(stderr);
    recording
}

/// Checks that a recording's trace reaches its end.
fn assert_whole(trace: &Path) {
    Trace::read(trace).assert_ends_with_stats();
}

/// Starts a command that ignores this signal and no other of those that end it, whatever the tests themselves ignore:
/// they may run under `nohup`.
fn ignoring(command: &mut Command, ignored: Option<i32>) -> Child {
    let set = move || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            let disposition = if ignored == Some(signal) { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: sets one of the two dispositions that are no handlers.
            unsafe { libc::signal(signal, disposition) };
        }
        Ok(())
    };
    // SAFETY: setting signals is allowed between fork and exec.
    unsafe { command.pre_exec(set) }.spawn().expect("the command")
}

/// How the command ends; it has half a minute to do so.
fn ended(child: &mut Child) -> ExitStatus {
    if !wait_until(30, || child.try_wait().expect("it is there").is_some()) {
        child.kill().expect("it is there");
        panic!("it does not end");
    }
    child.wait().expect("its end")
}

/// A terminal: the window's end, the program's end, and the latter as opened by a program.
fn terminal() -> (TTYPort, TTYPort, File) {
    let (window, terminal) = TTYPort::pair().expect("a terminal");
    keep_from_commands(&window);
    // It must not become the terminal of this process, if that has none.
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(libc::O_NOCTTY).open(terminal.name().expect("a name"));
    (window, terminal, opened.expect("a terminal"))
}

/// The terminal is where the recording reports its progress, not the one it was started from, so no signal comes.
#[test]
fn a_terminal_that_nobody_can_be_told_on_any_more_ends_no_recording() {
    let trace = fresh("no-terminal");
    let (mut window, terminal, stderr) = terminal();
    let mut recording = recording(&trace, "700ms", stderr.into()).spawn().expect("the command");
    // It has reported its progress once, and will again.
    window.set_timeout(Duration::from_secs(30)).expect("a terminal");
    window.read_exact(&mut [0]).expect("a word");
    drop((window, terminal));
    assert_eq!(recording.wait().expect("its end").code(), Some(0));
    assert_whole(&trace);
}

/// A terminal can be narrower than the message is long, and tell nobody its width.
#[test]
fn how_it_goes_is_said_in_one_row_of_any_terminal() {
    let trace = fresh("narrow");
    let (mut window, terminal, stderr) = terminal();
    let mut recording = recording(&trace, "700ms", stderr.into()).spawn().expect("the command");
    drop(terminal);
    window.set_timeout(Duration::from_secs(30)).expect("a terminal");
    let mut said = Vec::new();
    // The system may report its end as an error.
    let _ = window.read_to_end(&mut said);
    assert_eq!(recording.wait().expect("its end").code(), Some(0));
    let lines: Vec<_> = text(&said).trim_end().split('\r').skip(1).collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.starts_with("\x1b[?7l") && line.ends_with("\x1b[?7h"), "{line:?}");
        assert!(!line.contains('\n'), "{line:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_what_was_started_from_it_with_its_trace() {
    let trace = fresh("hung-up");
    let (window, terminal, stderr) = terminal();
    // Nobody can read any more what it says at its end.
    let stdout = stderr.try_clone().expect("a terminal");
    let mut recording = recording(&trace, "60s", stderr.into());
    recording.stdout(stdout);
    let lead = || {
        // SAFETY: makes standard error, which is a terminal, that of a new session of this process.
        match unsafe { libc::setsid() != -1 && libc::ioctl(libc::STDERR_FILENO, libc::TIOCSCTTY, 0) != -1 } {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: both calls are allowed between fork and exec.
    unsafe { recording.pre_exec(lead) };
    let mut recording = ignoring(&mut recording, None);
    wait_until_caught(&recording, libc::SIGHUP);
    drop((window, terminal));
    assert_eq!(ended(&mut recording).code(), Some(0));
    assert_whole(&trace);
}

/// What `record` says after writing there.
fn record_into(path: &Path) -> Output {
    let output = command(&["record", "--no-ftrace", "--duration", "50ms", "-o", name(path)])
        .output()
        .expect("the command");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

/// A name for something that is not there yet.
fn fresh(name: &str) -> PathBuf {
    let path = scratch(&format!("output/{name}"));
    let _ = fs::remove_file(&path);
    path
}

/// A session's buffer in a file.
fn make_region(path: &Path) {
    let in_file = BufferConfig::ring(64 << 10).in_file(path);
    Session::builder().buffer(in_file).start().expect("a session").stop().expect("its end");
}

#[test]
fn a_pipe_is_written_into_and_stays_one() {
    let pipe = fresh("pipe");
    mkfifo(&pipe);
    // It is open already, so nobody waits; the trace is smaller than a pipe's capacity.
    let mut reader =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).expect("a pipe");
    record_into(&pipe);
    assert!(fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
    let mut trace = Vec::new();
    reader.read_to_end(&mut trace).expect("the trace");
    assert!(TracePackets::new(&trace).filter(|packet| packet.is_ok()).count() > 10);
}

#[test]
fn the_target_of_a_link_is_replaced_or_made_and_the_link_stays() {
    let (link, second, target) = (fresh("link"), fresh("second-link"), fresh("target"));
    symlink("second-link", &link).expect("a link");
    symlink(&target, &second).expect("a link");
    for before in [None, Some("an older trace")] {
        before.inspect(|text| fs::write(&target, text).expect("a file"));
        record_into(&link);
        let is_link = |path| fs::symlink_metadata(path).expect("it is there").is_symlink();
        assert!(is_link(&link) && is_link(&second) && !is_link(&target));
        let trace = fs::read(&target).expect("a trace");
        assert!(TracePackets::new(&trace).all(|packet| packet.is_ok()));
    }
    symlink(&link, fresh("target")).expect("a link");
    let output = command(&["record", "--no-ftrace", "--duration", "50ms", "-o", name(&link)])
        .output()
        .expect("the command");
    assert_eq!(output.status.code(), Some(1), "links in a circle lead nowhere");
}

#[test]
fn the_file_that_is_read_is_not_written_into_by_any_name() {
    let (input, link, other) = (fresh("input"), fresh("input-link"), fresh("input-other-name"));
    let (region, dump) = (fresh("input-region"), fresh("input-dump"));
    // A program, followed by frames.
    let contents = [elf(Endianness::Little, false, 0xF0, &[0; 64], "TRACE"), FRAMES.to_vec()].concat();
    fs::write(&input, &contents).expect("a file");
    fs::write(&dump, [vec![0xEE; 0x100], recover::region()].concat()).expect("a file");
    make_region(&region);
    let (region, dump) = (name(&region), name(&dump));
    symlink(&input, &link).expect("a link");
    fs::hard_link(&input, &other).expect("another name");
    for output in [&input, &link, &other].map(|path| name(path)) {
        let read = name(&input);
        let commands: [&[&str]; 5] = [
            &["receive", read, "-o", output],
            &["recover", read, "-o", output],
            &["recover", "-", "-o", output],
            &["recover", region, "--after", read, "-o", output],
            &["recover", dump, "--symbol", "TRACE", "--program", read, "-o", output],
        ];
        for arguments in commands {
            let stdin = File::open(&input).expect("a file");
            let said = command(arguments).stdin(stdin).output().expect("the command");
            assert_eq!(said.status.code(), Some(1), "{arguments:?}");
            let refused = format!("error: {output}: cannot be written: it is the file that is read\n");
            assert!(text(&said.stderr).ends_with(&refused), "{arguments:?}: {}", text(&said.stderr));
            assert!(fs::read(&input).expect("a file") == contents, "{arguments:?}");
        }
    }
}
