//! Folders that are not there, and a disk without room.

use std::fs;

use tracebuf_std::session::{BufferConfig, Session};

use super::{command, fresh, name};
use crate::text;

#[test]
fn commands_say_what_cannot_be_written() {
    let region = fresh("unwritable.region");
    let session =
        Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&region)).start().expect("a session");
    session.recorder().instant("event");
    session.stop().expect("a stop");
    let region = name(&region);
    let cases: [(&[&str], &str); 5] = [
        (&["inspect", region, "--svg", "/no such folder/x.svg"], "/no such folder/x.svg"),
        (&["inspect", region, "--svg", "/dev/full"], "No space left"),
        (&["recover", region, "-o", "/no such folder/x.pftrace"], "/no such folder/x.pftrace"),
        (&["recover", region, "-o", "x.pftrace", "--after", "/no such file"], "/no such file"),
        (&["record", "--duration", "100ms", "-o", "/no such folder/x.pftrace"], "/no such folder/x.pftrace"),
    ];
    for (arguments, what) in cases {
        let output = command(arguments).output().expect("the command");
        let said = text(&output.stderr);
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert!(matches!(output.status.code(), Some(1..=2)), "{arguments:?}: {:?}", output.status);
    }
    fs::remove_file(region).expect("it is there");
}
