//! Traces that go to standard output.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Output, Stdio};

use super::{FRAMES, command, fresh, name};
use crate::text;
use crate::trace::Trace;

/// What a command says of a trace that it writes to a file, and the trace; `into` is what it is told to write to.
fn into_file(arguments: &[&str], into: &str) -> (Output, Trace) {
    let path = fresh("stdout.pftrace");
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
    // It has the other end too.
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
    let demo = ["demo", "--numbers", "100", "--sources", env!("CARGO_MANIFEST_DIR")];
    for (arguments, said) in [
        (&["receive", name(&frames), "-o"][..], "nothing lost"),
        (&["record", "--duration", "50ms", "-o"], "lost: nothing"),
        (&["record", "--duration", "50ms", "--long", "-o"], "lost: nothing"),
        (&demo, "the numbers agree"),
    ] {
        let mut all = vec![into_file(arguments, "/dev/stdout"), into_file(arguments, "")];
        // What is in the file is compared, and cannot be read back from a pipe.
        if arguments != demo {
            all.push(into_pipe(arguments));
        }
        for (output, trace) in all {
            assert_eq!(output.status.code(), Some(0), "{arguments:?}");
            assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
            assert!(trace.packets().count() > 0, "{arguments:?}");
        }
    }
}
