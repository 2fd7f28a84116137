//! `tracebuf-conformance ftrace` and `ftrace-pages`.

use tracebuf::proto::TracePackets;

use super::*;

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/ftrace").join(name).display().to_string()
}

#[test]
fn a_recording_becomes_a_trace_with_or_without_lists() {
    let lens = ["", "--verbose"].map(|verbose| {
        let out = scratch(&format!("ftrace/rounds{verbose}.pftrace"));
        let fixture = data("rounds-1.tar.gz");
        let arguments = ["ftrace", &fixture, out.to_str().expect("text"), verbose];
        let arguments: Vec<_> = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
        let output = command(&arguments).output().expect("the command");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        let trace = fs::read(out).expect("a trace");
        assert!(TracePackets::new(&trace).all(|packet| packet.is_ok()));
        trace.len()
    });
    assert!(lens[0] > 1000 && lens[0] < lens[1], "{lens:?}");
}

#[test]
fn malformed_pages_are_told_a_line_each() {
    let output = command(&["ftrace-pages", &data("malformed-1.json.gz")]).output().expect("the command");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 23);
    assert_eq!((lines[0], lines[22]), ("size 0\t4\t0", "only a time_extend\t-\t0"));
}

#[test]
fn what_is_no_recording_is_an_error() {
    let file = scratch("ftrace/rubbish.tar.gz");
    fs::write(&file, gzipped(b"rubbish")).expect("a file");
    let file = file.display().to_string();
    let out = scratch("ftrace/none.pftrace").display().to_string();
    for arguments in [&["ftrace", &file, &out][..], &["ftrace", "none", &out], &["ftrace-pages", &file]] {
        let output = command(arguments).output().expect("the command");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text(&output.stderr).starts_with(&format!("error: {}: ", arguments[1])),
            "{}",
            text(&output.stderr)
        );
    }
    assert!(!Path::new(&out).exists());
}
