//! `tracebuf recover` of a gzipped dump, and of one that comes on standard input.

use std::io::Write;
use std::process::Stdio;

use super::{recover, region};
use crate::trace::scratch;
use crate::tracebuf;

#[test]
fn a_dump_may_be_gzipped_or_come_on_standard_input() {
    let dump = [&[0xEE; 16], &region()[..]].concat();
    let packed = crate::gzipped(&dump);
    let output = scratch("recover/from-stdin.pftrace");
    for (content, code) in [(&dump[..], 0), (&packed, 0), (&packed[..packed.len() - 8], 3)] {
        let (_, said, trace) = recover("gzipped", content, &[]);
        assert!(said.contains("buffer at 0x10: ") && said.contains("3 packets"), "{said}");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(content).expect("room");
        drop(writer);
        let run = tracebuf(&["recover", "-", "-o"]).arg(&output).stdin(reader).output().expect("the command");
        assert_eq!(run.status.code(), Some(code), "{}", crate::text(&run.stderr));
        assert_eq!(crate::text(&run.stderr).contains("cannot be unpacked to its end"), code == 3);
        assert_eq!(std::fs::read(&output).expect("a trace"), trace);
    }
    let run = tracebuf(&["recover", "-", "-o"]).arg(&output).stdin(Stdio::null()).output().expect("it");
    let said = "error: standard input: no trace buffer found\n";
    assert_eq!((run.status.code(), crate::text(&run.stderr)), (Some(1), said));
}

#[cfg(unix)]
#[test]
fn what_is_wrong_with_a_dump_on_standard_input_is_told_by_that_name() {
    use tracebuf_session::{BufferConfig, Session};

    let [file, output] = ["cut.region", "cut.pftrace"].map(|name| scratch(&format!("recover/{name}")));
    let in_file = BufferConfig::ring(64 << 10).in_file(&file);
    Session::builder().buffer(in_file).start().expect("a session").stop().expect("its end");
    let cut = std::fs::OpenOptions::new().read(true).write(true).open(&file).expect("the buffer's file");
    // In the middle of the ring, most of which was never used.
    cut.set_len(cut.metadata().expect("a length").len() - 20_000).expect("the test's own");
    let run = tracebuf(&["recover", "-", "-o"]).arg(&output).stdin(cut).output().expect("the command");
    let said = crate::text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.starts_with("standard input: the file of a buffer is cut short: "), "{said}");
}
