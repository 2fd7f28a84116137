//! `tracebuf recover` onto a disk without room.

use std::fs;
use std::os::unix::process::CommandExt;

use super::region;
use crate::trace::folder;
use crate::{text, tracebuf};

#[test]
fn a_trace_that_has_no_room_leaves_the_one_that_was_there() {
    let folder = folder("recover full");
    let [dump, trace] = ["dump", "trace"].map(|name| folder.join(name));
    fs::write(&dump, region()).expect("a file");
    fs::write(&trace, "of the crash before").expect("a file");
    let mut command = tracebuf(&["recover"]);
    command.arg(&dump).arg("-o").arg(&trace);
    // SAFETY: between fork and exec only two system calls are made.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 16, rlim_max: 16 };
            // Without the signal a write beyond it is an error, as on a full disk.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            Ok(())
        });
    }
    let output = command.output().expect("the command");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot be written: "), "{}", text(&output.stderr));
    assert_eq!(fs::read(&trace).expect("it is there"), b"of the crash before");
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 2, "and nothing else");
}
