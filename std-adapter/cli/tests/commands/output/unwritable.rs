//! Folders that are not there, and a disk without room.

use std::fs;

use tracebuf_session::{BufferConfig, Session};

use super::{command, fresh, name};
use crate::text;
use crate::trace::folder;

#[test]
fn commands_say_what_cannot_be_written() {
    let region = fresh("unwritable.region");
    let session =
        Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&region)).start().expect("a session");
    session.recorder().instant("event");
    session.stop().expect("a stop");
    let region = name(&region);
    let target = folder("unwritable target");
    let cases: [(&[&str], &str); 6] = [
        (&["inspect", region, "--svg", "/no such folder/x.svg"], "/no such folder/x.svg"),
        (&["inspect", region, "--svg", "/dev/full"], "No space left"),
        (&["recover", region, "-o", "/no such folder/x.pftrace"], "/no such folder/x.pftrace"),
        (&["recover", region, "-o", name(&target)], "cannot be written: there is a folder of that name"),
        (&["recover", region, "-o", "x.pftrace", "--after", "/no such file"], "/no such file"),
        (
            &["record", "--no-ftrace", "--duration", "100ms", "-o", "/no such folder/x.pftrace"],
            "/no such folder/x.pftrace",
        ),
    ];
    for (arguments, what) in cases {
        let output = command(arguments).output().expect("the command");
        let said = text(&output.stderr);
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert!(matches!(output.status.code(), Some(1..=2)), "{arguments:?}: {:?}", output.status);
    }
    // It fails before anything is done, and leaves no part of it next to the folder.
    let beside = fs::read_dir(target.parent().expect("a folder")).expect("a folder").flatten();
    let is_part = |name: &str| name.starts_with(".unwritable target");
    assert_eq!(beside.filter(|file| file.file_name().to_str().is_some_and(is_part)).count(), 0);
    fs::remove_file(region).expect("it is there");
}
