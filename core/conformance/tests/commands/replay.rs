//! `replay`: operations from a script, run over a real buffer.

use std::io::{Read, Write};
use std::process::{Output, Stdio};

use crate::{command, gzipped, scratch, text};

const SCRIPT: &str = "\
# one packet of three bytes
new 4096 ring
copy 1 2 0 1 0 1 1000 -7 03616263
readn 1
read
stats
";

const PACKET: &str = "pkt 1 2 1000 -7 0 1 616263";

/// Runs `replay` with these arguments and this standard input.
fn replay(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(&["replay"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The command may stop reading at a malformed line.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the command ends")
}

#[test]
fn a_script_prints_its_results_and_a_summary_apart() {
    let out = replay(&["-"], SCRIPT.as_bytes());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let lines: Vec<&str> = text(&out.stdout).lines().collect();
    assert_eq!(lines[..5], ["ok", "ok", PACKET, "limit", "end"]);
    assert!(lines[5].starts_with("stats buffer_size=4096 bytes_written="), "{}", lines[5]);
    assert_eq!(lines.len(), 6);
    let summary = text(&out.stderr);
    assert!(summary.contains("read: 1 packet, 3 bytes, none after a loss"), "{summary}");
    assert!(summary.contains("1 written"), "{summary}");
}

#[test]
fn gzipped_scripts_are_known_by_their_content_in_files_and_on_standard_input() {
    // In two members, each with zeros behind it.
    let (begin, end) = SCRIPT.split_at(SCRIPT.len() / 2);
    let packed = [begin, end].map(|part| [gzipped(part.as_bytes()), vec![0; 70_000]].concat()).concat();
    let file = scratch("replay/script");
    std::fs::write(&file, &packed).expect("a file");
    for out in [replay(&["-"], &packed), replay(&[file.to_str().expect("text")], b"")] {
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(text(&out.stdout).contains(PACKET));
    }
}

#[test]
fn the_help_says_what_a_line_may_have() {
    let help = replay(&["--help"], b"").stdout;
    let help = text(&help);
    for operation in ["new", "copy", "patch", "read", "readn", "clone", "stats", "overwritten"] {
        assert!(help.contains(&format!("\n{operation} ")), "{operation}: {help}");
    }
}

#[test]
fn a_malformed_line_is_told_by_number_and_reason_and_exits_2() {
    for (script, message) in [
        ("new 4096 ring\n\n# fine so far\nreadn x\nread\n", "error line 4: the count is not a number: 'x'\n"),
        ("\nread\n", "error line 2: no buffer was made yet\n"),
        ("new 4096 ring\nnew 4096 ring\n", "error line 2: the buffer was made already\n"),
        (
            "new 4096 ring\ncopy 65536 1 0 0 0 1 0 0 -",
            "error line 2: the producer is out of range: '65536'\n",
        ),
        ("fly", "error line 1: no operation is called 'fly'\n"),
    ] {
        let out = replay(&["-"], script.as_bytes());
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(2), message));
        // What the lines before it said is not withheld.
        assert_eq!(text(&out.stdout), if script.starts_with("new") { "ok\n" } else { "" });
    }
}

#[test]
fn a_script_that_is_not_text_is_malformed() {
    let out = replay(&["-"], b"new 4096 ring\n\xFF\xFE\x00\n");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).starts_with("error line 2: "), "{}", text(&out.stderr));
}

#[test]
fn a_line_of_more_than_16_mib_is_malformed_and_not_read() {
    let comment = |len: usize| format!("new 4096 ring\n#{}", " ".repeat(len - 1)).into_bytes();
    let longest = [comment(16 << 20), b"\nread\n".to_vec()].concat();
    let out = replay(&["-"], &gzipped(&longest));
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "ok\nend\n"), "{}", text(&out.stderr));
    for script in [comment((16 << 20) + 1), [comment(20 << 20), b"\nread\n".to_vec()].concat()] {
        let out = replay(&["-"], &gzipped(&script));
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(2), "ok\n"));
        assert_eq!(text(&out.stderr), "error line 2: it has more than 16777216 bytes\n");
    }
}

#[test]
fn a_buffer_that_cannot_be_made_is_told_and_another_may_be_made() {
    let out = replay(&["-"], b"new 0xFFFFFFFFFFFFFFFF ring\nnew 4096 discard\nread\n");
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "fail\nok\nend\n"));
    let why = "\nno buffer was made: a ring of 18446744073709551615 bytes: it has to be less than 4 GiB\n";
    assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    let out = replay(&["-"], b"new 0xFFFFFFFFFFFFFFFF ring\nread\n");
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(2), "fail\n"));
    assert_eq!(text(&out.stderr), format!("error line 2: {}", &why[1..]));
    let out = replay(&["-"], b"new 8 ring\n");
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), "fail\n"));
    assert!(text(&out.stderr).contains(": a ring of 8 bytes: it is too small for any chunk\n"), "{out:?}");
}

#[test]
fn an_unreadable_script_exits_1() {
    let out = replay(&["/there/is/no/such/script"], b"");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).starts_with("error: /there/is/no/such/script: "));
    let mut cut = gzipped(SCRIPT.as_bytes());
    cut.truncate(cut.len() / 2);
    let out = replay(&["-"], &cut);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).starts_with("error: standard input: "), "{}", text(&out.stderr));
}

#[test]
fn wrong_arguments_exit_2_and_say_how_to_call_it() {
    let out = command(&["replay"]).output().expect("the command starts");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("Usage: tracebuf-conformance replay"), "{}", text(&out.stderr));
}

#[test]
fn a_reader_that_goes_away_ends_the_replay_quietly() {
    let payload = format!("7f{}", "00".repeat(127));
    let mut script = String::from("new 65536 ring\n");
    for chunk in 0..20_000 {
        script += &format!("copy 1 1 {chunk} 1 0 1 0 0 {payload}\nread\n");
    }
    let file = scratch("replay/long.tbops");
    std::fs::write(&file, script).expect("a file");
    let mut child = command(&["replay"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut first = [0; 2];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
    let out = child.wait_with_output().expect("the command ends");
    assert_eq!((first, out.status.code(), text(&out.stderr)), (*b"ok", Some(0), ""));
}

#[test]
fn overwritten_packets_are_printed_once_and_in_order() {
    // Chunks of more than 1,002 bytes: at most four of the five fit in the ring.
    let packet = |digit: &str| format!("e807{}", digit.repeat(2000));
    let script = format!(
        "new 4096 ring\ncopy 1 1 0 1 0 1 5 6 {}\ncopy 1 1 1 1 0 1 5 6 {}\ncopy 1 1 2 1 0 1 5 6 {}\n\
         copy 1 1 3 1 0 1 5 6 {}\ncopy 1 1 4 1 0 1 5 6 {}\noverwritten\noverwritten\nread\n",
        packet("a"),
        packet("b"),
        packet("c"),
        packet("d"),
        packet("e")
    );
    let out = replay(&["-"], script.as_bytes());
    let kinds: Vec<String> =
        text(&out.stdout).lines().map(|line| line.chars().take(19).collect::<String>()).collect();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(kinds[..6], ["ok"; 6]);
    let rest: Vec<&str> = kinds[6..].iter().map(String::as_str).collect();
    let gone = rest.iter().take_while(|line| line.starts_with("opkt 1 1 5 6 1 ")).count();
    assert!(gone >= 2, "{rest:?}");
    assert_eq!(rest[gone..gone + 2], ["oend", "oend"]);
    assert!(rest[gone + 2].starts_with("pkt 1 1 5 6 65 1 "), "{rest:?}");
    assert!(text(&out.stderr).contains("1 after a loss (overwrite 1)"), "{}", text(&out.stderr));
}

#[test]
fn a_trace_stays_as_it_was_when_a_later_line_of_the_script_is_malformed() {
    let trace = scratch("replay/kept.pftrace");
    std::fs::write(&trace, "an older trace").expect("a file");
    let name = trace.to_str().expect("text");
    let out = replay(&["-", "--pftrace", name], format!("{SCRIPT}fly\n").as_bytes());
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stderr), "error line 7: no operation is called 'fly'\n");
    assert!(text(&out.stdout).contains(PACKET), "{}", text(&out.stdout));
    assert_eq!(std::fs::read(&trace).expect("a file"), b"an older trace");
    assert_eq!(replay(&["-", "--pftrace", name], SCRIPT.as_bytes()).status.code(), Some(0));
    assert_ne!(std::fs::read(&trace).expect("a file"), b"an older trace");
}

#[test]
fn what_a_trace_did_not_take_is_told_also_of_a_script_that_fails_if_the_trace_is_there() {
    // A packet that forges its user's number.
    let script = "new 4096 ring\ncopy 1 2 0 1 0 1 1000 7 021805\nread\nfly\n";
    let line = "error line 4: no operation is called 'fly'\n";
    let left_out = format!("{}\n", tracebuf_conformance::replay::LeftOut(1));
    let file = scratch("replay/forged.pftrace");
    for (trace, more) in [("/dev/null", &left_out[..]), (file.to_str().expect("text"), "")] {
        let out = replay(&["-", "--pftrace", trace], script.as_bytes());
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(2), &*format!("{line}{more}")));
    }
    assert!(!file.exists());
}

#[test]
fn a_trace_stays_as_it_was_when_what_is_named_as_the_script_is_none() {
    let [script, trace, comments] =
        ["swapped", "swapped.pftrace", "comments"].map(|name| scratch(&format!("replay/{name}")));
    let [script, trace, comments] = [&script, &trace, &comments].map(|path| path.to_str().expect("text"));
    std::fs::write(script, SCRIPT).expect("a file");
    assert_eq!(replay(&[script, "--pftrace", trace], b"").status.code(), Some(0));
    let written = std::fs::read(trace).expect("a trace");
    // A script may begin with as many comments as it likes.
    std::fs::write(comments, [&b"# nothing\n".repeat(100_000)[..], SCRIPT.as_bytes()].concat())
        .expect("a file");
    assert_eq!(replay(&[comments, "--pftrace", trace], b"").status.code(), Some(0));
    assert_eq!(std::fs::read(trace).expect("a trace"), written);

    let out = replay(&[trace, "--pftrace", script], b"");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no operation is called"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_to_string(script).expect("it is there"), SCRIPT);
}
