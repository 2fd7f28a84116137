//! A file that a session is writing into.

use std::fs;

use tracebuf_std::session::{LongTrace, Session};

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
    for arguments in [
        &["record", "--duration", "100ms", "-o"][..],
        &["record", "--long", "--duration", "100ms", "-o"],
        &["receive", name(&frames), "-o"],
        &["recover", name(&dump), "-o"],
    ] {
        let output = command(arguments).arg(&path).output().expect("the command");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("taken.pftrace: another session is using it"), "{said}");
    }
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("theirs"));
}
