//! Dumps of much memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use super::region;
use crate::text;
use crate::trace::scratch;

#[test]
#[ignore = "takes more than five seconds"]
fn a_raw_dump_is_in_memory_once() {
    let [dump, output] = ["dump", "pftrace"].map(|kind| scratch(&format!("recover/large.{kind}")));
    let file = File::create(&dump).expect("a file");
    file.set_len(192 << 20).expect("a hole");
    file.write_all_at(&region(), 1 << 20).expect("room");
    for command in
        [&["recover", "-o"][..], &["recover", "--address", "0x100000", "-o"], &["inspect", "--svg"]]
    {
        let run = Command::new("sh")
            .args(["-c", "ulimit -v 300000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tracebuf")])
            .args(command)
            .args([&output, &dump])
            .output()
            .expect("sh");
        assert_eq!(run.status.code(), Some(0), "{command:?}: {}", text(&run.stderr));
        let said = [run.stdout, run.stderr].concat();
        assert!(text(&said).contains("buffer at 0x100000: "), "{}", text(&said));
    }
    let _ = [&dump, &output].map(std::fs::remove_file);
}
