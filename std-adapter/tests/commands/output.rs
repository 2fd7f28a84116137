//! What the commands do when nobody takes what they print or write.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use object::Endianness;
use serialport::{SerialPort, TTYPort};

use crate::recover::{self, elf};
use crate::trace::scratch;
use crate::{keep_from_commands, text, tracebuf as command};
use tracebuf::proto::TracePackets;
use tracebuf_std::session::{BufferConfig, Session};

fn name(path: &Path) -> &str {
    path.to_str().expect("a name")
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

/// Frames, the last packet of which has timestamp 5 and sequence 2.
const FRAMES: &[u8] = b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0";

/// Every command that prints, as it succeeds, with files of this test's own.
fn printing(test: &str) -> Vec<Vec<String>> {
    let file = |name: &str| scratch(&format!("output/{test}-{name}"));
    let (frames, script, image) = (file("frames"), file("script"), file("image"));
    fs::write(&frames, FRAMES).expect("a file");
    fs::write(&script, "new 4096 ring\n").expect("a file");
    fs::write(&image, [0; 4096]).expect("a file");
    let (frames, script, image) = (name(&frames), name(&script), name(&image));
    let (trace, out) = (file("trace"), file("out"));
    Session::builder().start().expect("a session").stop().expect("its end").write_to(&trace).expect("a file");
    let (trace, out) = (name(&trace), name(&out));
    let all = vec![
        vec!["stats", trace],
        vec!["inspect", trace],
        vec!["size", "--rate", "2MB"],
        vec!["receive", frames, "-o", out],
        vec!["replay", script],
        vec!["smb", "dump", image, "4096"],
        vec!["demo", out, "--numbers", "100", "--sources", env!("CARGO_MANIFEST_DIR")],
        vec!["record", "--duration", "50ms", "-o", out],
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
        assert!(text(&output.stderr).contains("error writing"), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_replay_s_trace_file_is_whole_also_when_nobody_reads_what_is_printed() {
    let (script, trace) = (scratch("output/long-script"), scratch("output/long.pftrace"));
    let chunk = |n| format!("copy 1 1 {n} 1 0 1 0 0 024003\nread\n");
    fs::write(&script, format!("new 65536 ring\n{}", (0..20_000).map(chunk).collect::<String>()))
        .expect("a file");
    let traces = [Stdio::null(), closed()].map(|stdout| {
        let output = command(&["replay", name(&script), "--pftrace", name(&trace)]).stdout(stdout).output();
        let output = output.expect("the command");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("read: 20000 packets"), "{}", text(&output.stderr));
        fs::read(&trace).expect("a trace")
    });
    assert!(traces[0].len() > 20_000 * 5 && traces[0] == traces[1]);
}

/// How a command ends when nobody reads what it says on standard error.
fn end_unread(arguments: &[&str], stdout: Stdio) -> Option<i32> {
    command(arguments).stdout(stdout).stderr(closed()).status().expect("the command").code()
}

#[test]
fn commands_do_their_work_also_when_nobody_reads_what_they_say_about_it() {
    let [script, dump, region, trace] =
        ["script", "dump", "region", "trace"].map(|name| fresh(&format!("unread-{name}")));
    fs::write(&script, "new 4096 ring\ncopy 1 1 0 1 0 1 0 0 024003\nread\n").expect("a file");
    fs::write(&dump, recover::region()).expect("a file");
    make_region(&region);
    let [script, dump, region, out] = [&script, &dump, &region, &trace].map(|path| name(path));
    for arguments in [
        &["recover", dump, "-o", out][..],
        &["recover", region, "-o", out],
        &["replay", script, "--pftrace", out],
    ] {
        let _ = fs::remove_file(&trace);
        assert_eq!(end_unread(arguments, closed()), Some(0), "{arguments:?}");
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
        &["replay", none],
        &["smb", "dump", none, "4096"],
        &["receive", none, "-o", "/dev/null"],
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

#[test]
fn a_terminal_that_goes_away_ends_no_recording() {
    let trace = fresh("no-terminal");
    let (window, terminal) = TTYPort::pair().expect("a terminal");
    keep_from_commands(&window);
    let stderr = OpenOptions::new().write(true).open(terminal.name().expect("a name")).expect("a terminal");
    let mut recording = command(&["record", "--duration", "1200ms", "-o", name(&trace)]);
    let mut recording = recording.stdout(Stdio::null()).stderr(stderr).spawn().expect("the command");
    std::thread::sleep(Duration::from_millis(300));
    drop((window, terminal));
    assert_eq!(recording.wait().expect("its end").code(), Some(0));
    assert!(TracePackets::new(&fs::read(&trace).expect("a trace")).all(|packet| packet.is_ok()));
}

/// What `record` says after writing there.
fn record_into(path: &Path) -> Output {
    let output = command(&["record", "--duration", "50ms", "-o", name(path)]).output().expect("the command");
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
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("the command").success());
    // It is open already, so that nobody waits; the trace is smaller than what a pipe holds.
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
    let output = command(&["record", "--duration", "50ms", "-o", name(&link)]).output().expect("the command");
    assert_eq!(output.status.code(), Some(1), "links in a circle lead nowhere");
}

#[test]
fn the_file_that_is_read_is_not_written_into_by_any_name() {
    let (input, link, other) = (fresh("input"), fresh("input-link"), fresh("input-other-name"));
    let (region, dump) = (fresh("input-region"), fresh("input-dump"));
    // A program, and frames behind it.
    let contents = [elf(Endianness::Little, false, 0xF0, &[0; 64], "TRACE"), FRAMES.to_vec()].concat();
    fs::write(&input, &contents).expect("a file");
    fs::write(&dump, [vec![0xEE; 0x100], recover::region()].concat()).expect("a file");
    make_region(&region);
    let (region, dump) = (name(&region), name(&dump));
    symlink(&input, &link).expect("a link");
    fs::hard_link(&input, &other).expect("another name");
    for output in [&input, &link, &other].map(|path| name(path)) {
        let read = name(&input);
        let commands: [&[&str]; 6] = [
            &["replay", read, "--pftrace", output],
            &["replay", "-", "--pftrace", output],
            &["receive", read, "-o", output],
            &["recover", read, "-o", output],
            &["recover", region, "--after", read, "-o", output],
            &["recover", dump, "--symbol", "TRACE", "--program", read, "-o", output],
        ];
        for arguments in commands {
            let stdin = File::open(&input).expect("a file");
            let said = command(arguments).stdin(stdin).output().expect("the command");
            assert_eq!(said.status.code(), Some(1), "{arguments:?}");
            let refused = text(&said.stderr).contains(&format!("{output}: it is the file that is read"));
            assert!(refused, "{arguments:?}: {}", text(&said.stderr));
            assert!(fs::read(&input).expect("a file") == contents, "{arguments:?}");
        }
    }
}
