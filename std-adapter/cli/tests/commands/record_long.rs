//! `tracebuf record --long`: pipes whose readers go, and compressed files.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tracebuf_analysis::Trace;

use crate::text;
use crate::trace::scratch;

#[test]
fn a_recording_into_a_pipe_ends_when_nobody_reads_it_any_more() {
    let mut command = crate::tracebuf(&["record", "--long", "--duration", "60s", "-o", "-"]);
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
    let mut begin = [0; 20];
    child.stdout.take().expect("a pipe").read_exact(&mut begin).expect("a trace");
    // The reader is gone now.
    let output = child.wait_with_output().expect("its end");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not be written: nobody reads it any more"), "{said}");
}

#[test]
fn a_compressed_recording_has_less_than_a_third_and_all_of_it_can_be_read() {
    let path = scratch("record/compressed.pftrace");
    // Times and numbers of the kernel's events, several thousand a second, are not in it: they take more.
    let args =
        ["record", "--no-ftrace", "--long", "--compress", "--duration", "2s", "--interval", "10ms", "-o"];
    let output = crate::tracebuf(&args).arg(&path).output().expect("the command");
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("lost: nothing"), "{said}{}", text(&output.stderr));
    let trace = Trace::open(&path).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    assert!(trace.counters().count() > 5);
    let (packed, all) = (std::fs::metadata(&path).expect("a file").len(), trace.losses().bytes);
    assert!(packed * 10 < all * 3, "{packed} of {all} bytes");
    // The command looks into it, too.
    let stats = crate::tracebuf(&["stats"]).arg(&path).output().expect("the command");
    assert!(stats.status.success(), "{}", text(&stats.stdout));
    let count = format!("{} packets of ", trace.losses().packets);
    assert!(text(&stats.stdout).starts_with(&count), "{count}: {}", text(&stats.stdout));
}

#[test]
fn what_the_command_cannot_compress_with_is_refused() {
    for (args, why) in [
        (&["--long", "--compress=lzma"][..], "none, deflate and zstd are known"),
        (&["--compress"], "--long"),
        #[cfg(not(feature = "zstd"))]
        (&["--long", "--compress=zstd"], "built without the feature zstd"),
    ] {
        let output =
            crate::tracebuf(&["record", "--duration", "1ms"]).args(args).output().expect("the command");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}
