//! A file that a session is writing into.

use std::fs;

use tracebuf_session::{LongTrace, Session};

use super::{FRAMES, command, fresh, name};
use crate::trace::Trace;
use crate::{recover, text};

#[test]
fn no_command_writes_over_a_trace_that_a_session_is_writing() {
    let [path, frames, dump] = ["taken.pftrace", "taken-frames", "taken-dump"].map(fresh);
    let session = Session::builder().long_trace(LongTrace::to(&path)).start().expect("a session");
    session.recorder().instant("theirs");
    fs::write(&frames, FRAMES).expect("a file");
    fs::write(&dump, recover::region()).expect("a file");
    let out = name(&path);
    let parts = || {
        let folder = fs::read_dir(path.parent().expect("a folder")).expect("a folder");
        let is_part = |name: &str| name.starts_with(".taken.pftrace");
        folder.flatten().filter(|file| file.file_name().to_str().is_some_and(is_part)).count()
    };
    let before = parts();
    for arguments in [
        &["record", "--no-ftrace", "--duration", "100ms", "-o", out][..],
        &["record", "--no-ftrace", "--long", "--duration", "100ms", "-o", out],
        &["receive", name(&frames), "-o", out],
        &["recover", name(&dump), "-o", out],
        &["inspect", name(&dump), "--svg", out],
    ] {
        let output = command(arguments).output().expect("the command");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("taken.pftrace: cannot be written: another session is using it"), "{said}");
    }
    assert_eq!(parts(), before, "a part is left");
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("theirs"));
}
