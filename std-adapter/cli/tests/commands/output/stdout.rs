//! Traces that go to standard output.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use super::{FRAMES, command, fresh, make_region, name};
use crate::trace::Trace;
use crate::{recover, text};

/// What a command says of a trace that it writes to a file, and the trace; `into` is what it is told to write to.
fn into_file(arguments: &[&str], into: &str) -> (Output, Trace) {
    let path = fresh(&format!("stdout-of-{}.pftrace", arguments[0]));
    let stdout = File::create(&path).expect("a file");
    let into = if into.is_empty() { name(&path) } else { into };
    let output = command(arguments).arg(into).stdout(stdout).output().expect("the command");
    (output, Trace::read(&path))
}

fn into_pipe(arguments: &[&str]) -> (Output, Trace) {
    let path = fresh("piped.pftrace");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = command(arguments);
    let child =
        command.arg("/dev/stdout").stdout(writer).stderr(Stdio::piped()).spawn().expect("the command");
    // It holds the other end too.
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("what it writes");
    fs::write(&path, bytes).expect("a file");
    (child.wait_with_output().expect("its end"), Trace::read(&path))
}

#[test]
fn a_trace_on_standard_output_has_nothing_else_in_it() {
    let frames = fresh("stdout-frames");
    fs::write(&frames, FRAMES).expect("a file");
    for (arguments, said) in [
        (&["receive", name(&frames), "-o"][..], "nothing lost on the line"),
        (&["record", "--no-ftrace", "--duration", "50ms", "-o"], "lost: nothing"),
        (&["record", "--no-ftrace", "--duration", "50ms", "--long", "-o"], "lost: nothing"),
    ] {
        for (output, trace) in [
            into_file(arguments, "/dev/stdout"),
            into_file(arguments, "-"),
            into_file(arguments, ""),
            into_pipe(arguments),
        ] {
            assert_eq!(output.status.code(), Some(0), "{arguments:?}");
            assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
            assert!(trace.packets().count() > 0, "{arguments:?}");
        }
    }
}

/// A socket cannot be opened by a name, as a pipe of another user cannot.
#[test]
fn standard_output_may_be_a_socket() {
    let [frames, region, dump] = inputs("socket");
    for (arguments, begins_with) in [
        (&["receive", name(&frames), "-o", "-"][..], &b"\x0A"[..]),
        (&["record", "--no-ftrace", "--duration", "50ms", "-o", "-"], b"\x0A"),
        (&["record", "--no-ftrace", "--duration", "50ms", "--long", "-o", "-"], b"\x0A"),
        (&["record", "--no-ftrace", "--duration", "50ms", "-o", "/dev/stdout"], b"\x0A"),
        (&["recover", name(&region), "-o", "-"], b"\x0A"),
        (&["recover", name(&dump), "-o", "-"], b"\x0A"),
        (&["inspect", name(&region), "--svg", "-"], b"<svg"),
    ] {
        let (mut reader, stdout) = UnixStream::pair().expect("sockets");
        // Someone else's setting, with which a full socket would be an error.
        stdout.set_nonblocking(true).expect("a socket");
        let mut command = command(arguments);
        let child = command.stdout(OwnedFd::from(stdout)).stderr(Stdio::piped()).spawn();
        let child = child.expect("the command");
        // It holds the other end too.
        drop(command);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("what it writes");
        let output = child.wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(bytes.len() > 4 && bytes.starts_with(begins_with), "{arguments:?}");
    }
}

/// A line's frames, a buffer's file, and a dump.
fn inputs(test: &str) -> [PathBuf; 3] {
    let [frames, region, dump] = ["frames", "region", "dump"].map(|kind| fresh(&format!("{test}-{kind}")));
    fs::write(&frames, FRAMES).expect("a file");
    make_region(&region);
    fs::write(&dump, recover::region()).expect("a file");
    [frames, region, dump]
}

#[test]
fn a_picture_on_standard_output_has_nothing_else_in_it() {
    let [_, region, _] = inputs("beside");
    for into in ["/dev/stdout", "-"] {
        let output = command(&["inspect", name(&region), "--svg", into]).output().expect("the command");
        assert_eq!(output.status.code(), Some(0));
        let (picture, said) = (text(&output.stdout).trim_end(), text(&output.stderr));
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>"), "{picture}");
        assert!(said.contains("buffer"), "{said}");
    }
}

#[test]
fn what_is_in_the_file_of_standard_output_is_not_written_over() {
    let path = fresh("appended");
    fs::write(&path, "something").expect("a file");
    let [frames, region, dump] = inputs("appended");
    for arguments in [
        &["receive", name(&frames), "-o"][..],
        &["record", "--no-ftrace", "--duration", "50ms", "-o"],
        &["record", "--no-ftrace", "--duration", "50ms", "--long", "-o"],
        &["inspect", name(&region), "--svg"],
        &["recover", name(&region), "-o"],
        &["recover", name(&dump), "-o"],
    ] {
        let stdout = OpenOptions::new().append(true).open(&path).expect("a file");
        let mut command = command(arguments);
        let output = command.arg("/dev/stdout").stdout(stdout).output().expect("the command");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains("cannot be written: it is standard output, with something in it"), "{said}");
        assert_eq!(fs::read(&path).expect("it is there"), b"something", "{arguments:?}");
    }
}
