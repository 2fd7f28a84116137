//! A file that is another command's.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::trace::scratch;
use crate::{text, tracebuf};

const LINE: &str =
    ": it seems to be what came over a serial line, of which `tracebuf receive` makes a trace\n";
const GZIPPED: &str = ": it seems to be gzipped, and `gunzip` unpacks it\n";
const TRACE: &str = ": it seems to be a trace, which `tracebuf stats` and `tracebuf inspect` look into\n";
const MEMORY: &str =
    ": it seems to be memory with a trace buffer in it, out of which `tracebuf recover` takes a trace\n";

/// What a command says about a file that it cannot use.
fn refusal(command: &str, content: &[u8], more: &[&str]) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let [file, output] = ["bin", "none"].map(|kind| scratch(&format!("wrong_command/{number}.{kind}")));
    std::fs::write(&file, content).expect("a file");
    let mut run = tracebuf(&[command]);
    run.arg(&file).args(more);
    if ["recover", "receive"].contains(&command) {
        run.arg("-o").arg(output);
    }
    let out = run.output().expect("the command");
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
    let error = text(&out.stderr).to_owned();
    assert!(error.starts_with(&format!("error: {}: ", file.display())), "{command}: {error}");
    error
}

#[test]
fn what_a_file_seems_to_be_is_said_and_which_command_reads_it() {
    // As a device sends it: with another zero before its first frame.
    let line = [vec![0], crate::receive::line(400).concat()].concat();
    let trace: Vec<u8> = b"\x0A\x04\x50\x02\x40\x05".repeat(3);
    let memory = [&[0xEE; 16], &crate::recover::region()[..]].concat();
    for (command, content, said) in [
        ("receive", &crate::gzipped(&line), GZIPPED),
        ("stats", &line, LINE),
        ("stats", &memory, MEMORY),
        ("inspect", &line, LINE),
        ("recover", &line, LINE),
        ("recover", &trace, TRACE),
        ("receive", &trace, TRACE),
        ("receive", &memory, MEMORY),
    ] {
        let error = refusal(command, content, &[]);
        assert!(error.ends_with(said), "{command}: {error}");
    }
}

#[test]
fn what_would_control_a_terminal_in_a_name_is_shown() {
    let file = scratch("wrong_command/red\x1b[31m\x07");
    let out = tracebuf(&["stats"]).arg(&file).output().expect("the command");
    let said = text(&out.stderr);
    assert!(said.contains("red\\u{1b}[31m\\u{7}: ") && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn an_error_is_one_line_whatever_is_in_the_name() {
    let file = scratch("wrong_command/two\nlines");
    std::fs::write(&file, "text of some kind").expect("a file");
    let out = tracebuf(&["stats"]).arg(&file).output().expect("the command");
    let said = text(&out.stderr);
    assert!(said.starts_with("error: ") && said.ends_with("/two\\nlines: it is no trace\n"), "{said:?}");
}

/// Programs show these as they are.
#[cfg(target_os = "linux")]
#[test]
fn so_is_an_error_of_the_library() {
    use std::sync::Arc;
    use tracebuf_analysis::recover::{Dump, Place};
    use tracebuf_ipc::Connection;
    use tracebuf_session::{BufferConfig, FlightRecorder, LongTrace, Session};

    fn told<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
        result.err().expect("there is nothing of that name").to_string()
    }
    const NAME: &str = "no\nsuch \x1b[31mname";
    let folder = scratch("wrong_command/nothing").with_file_name(NAME);
    let (file, builder, memory) = (folder.join("file"), Session::builder, [0xEE; 64]);
    let session = Arc::new(builder().start().expect("a session"));
    for error in [
        told(builder().long_trace(LongTrace::to(&file)).start()),
        told(builder().buffer(BufferConfig::ring(1 << 16).in_file(&file)).start()),
        told(builder().data_source(NAME, 7).start()),
        told(builder().data_source(NAME, 0).data_source(NAME, 0).start()),
        told(Connection::builder().open(&file)),
        told(FlightRecorder::new(&session, &folder)),
        told(Dump::parse(&memory).expect("raw").find(Place::Symbol(NAME.to_owned()))),
    ] {
        let is_one_line = !error.contains(char::is_control);
        assert!(is_one_line && error.contains("no\\nsuch \\u{1b}[31mname"), "{error:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_would_control_a_terminal_in_a_name_is_shown_in_a_report_too() {
    let file = scratch("wrong_command/recorded\n\x1b[31m");
    let out = tracebuf(&["record", "--no-ftrace", "--duration", "10ms", "-o"])
        .arg(&file)
        .output()
        .expect("the command");
    let said = text(&out.stdout);
    assert!(said.contains("recorded\\n\\u{1b}[31m: ") && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn of_what_is_nothing_that_is_known_no_more_is_said_than_that() {
    for (command, more, said) in [
        ("stats", &[][..], "it is no trace\n"),
        ("inspect", &[], "neither a trace nor memory with a trace buffer in it\n"),
        ("recover", &[], "no trace buffer found\n"),
        ("receive", &[], "so nothing is written\n"),
    ] {
        for content in [&[0; 999][..], b"text of some kind, long enough to be anything", &[0, 0]] {
            let error = refusal(command, content, more);
            assert!(error.ends_with(said), "{command}: {error}");
        }
    }
    // A frame on its way through a device's memory.
    let device = [&crate::receive::line(1).concat()[..], &[0; 999]].concat();
    let error = refusal("recover", &device, &[]);
    assert!(error.ends_with("no trace buffer found\n"), "{error}");
    // A buffer elsewhere is not what is wrong.
    let memory = crate::recover::region();
    let error = refusal("recover", &memory, &["--address", "512"]);
    assert!(error.ends_with("no trace buffer found\n"), "{error}");
}
