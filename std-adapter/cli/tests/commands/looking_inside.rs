//! `tracebuf stats` and `tracebuf size`: what was lost and why, and how large buffers must be.

use std::process::Output;

use crate::trace::scratch;
use crate::{gzipped, text};
use tracebuf_session::Session;

fn command(arguments: &[&str]) -> Output {
    crate::tracebuf(arguments).output().expect("the command")
}

/// A trace of a small ring that was lapped, or not.
fn trace_of(name: &str, events: u32) -> String {
    let session = Session::builder().ring(64 << 10).start().expect("a session");
    for event in 0..events {
        session.recorder().instant("event");
        if event % 1000 == 0 {
            session.flush(std::time::Duration::from_secs(5)).expect("a flush");
        }
    }
    let path = scratch(&format!("looking_inside/{name}"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn a_trace_without_losses_is_told_to_have_none() {
    let output = command(&["stats", &trace_of("whole.pftrace", 100)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("nothing was lost"));
}

#[test]
fn a_trace_of_a_lapped_ring_names_the_cause_and_what_to_do() {
    let output = command(&["stats", &trace_of("lapped.pftrace", 20_000)]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stdout);
    for part in [
        "overwrite: before",
        "process ",
        "chunks_overwritten of buffer 0 is",
        "give it more bytes",
        "more sequences",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn of_traces_in_a_row_each_one_s_losses_are_told() {
    // One with statistics that report five packets lost by writers, and one that lost nothing.
    let lossy = b"\x0A\x0A\x9A\x02\x07\x0A\x05\x10\x09\x98\x01\x05";
    let clean = std::fs::read(trace_of("clean.pftrace", 100)).expect("a file");
    let path = scratch("looking_inside/in_a_row.pftrace");
    for (trace, code) in [(&lossy[..], 3), (&clean, 0), (&[&lossy[..], &clean].concat(), 3)] {
        std::fs::write(&path, trace).expect("a file");
        let output = command(&["stats", path.to_str().expect("a path")]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("trace_writer_packet_loss of buffer 0 is 5\n"), code == 3, "{said}");
    }
    // Others look at the traces left here, which must be whole.
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn what_a_line_lost_is_listed_though_nobody_named_a_cause() {
    let [input, trace] = ["line.bin", "line.pftrace"].map(|name| scratch(&format!("looking_inside/{name}")));
    let [input, trace] = [&input, &trace].map(|path| path.to_str().expect("a path"));
    let mut frames = crate::receive::line(12);
    frames.remove(2);
    std::fs::write(input, frames.concat()).expect("a file");
    assert!(command(&["receive", input, "-o", trace]).status.success());
    let (stats, inspect) = (command(&["stats", trace]), command(&["inspect", trace]));
    assert_eq!((stats.status.code(), inspect.status.code()), (Some(3), Some(0)));
    for said in [text(&stats.stdout), text(&inspect.stdout)] {
        assert!(said.contains("no cause named: before 3 packets\n  whoever lost them"), "{said}");
        // All three sequences miss something.
        for sequence in 2..5 {
            assert!(said.contains(&format!("\n  sequence {sequence}: 1 of its ")), "{said}");
        }
    }
    // Its packets are not those of a trace, and others look at what is left here.
    std::fs::remove_file(trace).expect("it is there");
}

#[test]
fn a_gzipped_trace_that_is_cut_is_told_as_far_as_it_goes() {
    let plain = std::fs::read(trace_of("to-gzip.pftrace", 1000)).expect("a file");
    let path = scratch("looking_inside/cut.pftrace.gz");
    let name = path.to_str().expect("a path");
    let whole = gzipped(&plain);
    let mut wrong = whole.clone();
    // The checksum of what it unpacks to.
    let checksum = wrong.len() - 8;
    wrong[checksum] ^= 1;
    let half = &whole[..whole.len() / 2];
    let more = [&whole[..], b"more"].concat();
    // As in whole blocks of a disk or a tape.
    let zeros = [&whole[..], &[0; 5000]].concat();
    for (content, is_whole) in
        [(half, false), (&whole[..whole.len() - 1], false), (&wrong, false), (&more, false), (&zeros, true)]
    {
        std::fs::write(&path, content).expect("a file");
        for (name_of_command, lossy) in [("stats", 3), ("inspect", 0)] {
            let output = command(&[name_of_command, name]);
            let (said, told) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(if is_whole { 0 } else { lossy }), "{said} {told}");
            assert!(said.contains(" packets"), "{said}");
            let is_told = said.contains("it could not be read to its end");
            assert!(
                name_of_command == "inspect" || is_told != is_whole && is_told != said.contains("nothing")
            );
            assert_eq!(
                told.contains(&format!("{name} cannot be unpacked to its end: ")),
                !is_whole,
                "{told}"
            );
        }
    }
    std::fs::write(&path, half).expect("a file");
    let mut cut = crate::tracebuf(&["stats", "-"]);
    let cut = cut.stdin(std::fs::File::open(&path).expect("it is there")).output().expect("the command");
    assert!(text(&cut.stderr).starts_with("standard input cannot be unpacked to its end: "), "{cut:?}");
    // Nothing can be said of what has not even begun.
    std::fs::write(&path, &whole[..8]).expect("a file");
    let output = command(&["stats", name]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).starts_with(&format!("error: {name}: ")), "{output:?}");
    std::fs::remove_file(path).expect("it is there");
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_may_be_larger_than_memory() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let mut stats = Command::new("sh")
        .args(["-c", "ulimit -v 150000; exec \"$0\" stats -", env!("CARGO_BIN_EXE_tracebuf")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh");
    let mut trace = stats.stdin.take().expect("a pipe");
    // Sequence 2, with a string of a mebibyte, whose size is written redundantly.
    let packet = [&[0x0A, 0x87, 0x80, 0x40, 0x50, 2, 0x22, 0x80, 0x80, 0xC0, 0][..], &[0; 1 << 20]].concat();
    (0..300).for_each(|_| trace.write_all(&packet).expect("it is read"));
    drop(trace);
    let output = stats.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("300 packets of 1 sequence, 314576100 bytes\n"), "{said}");
}

#[test]
fn what_is_no_trace_is_an_error() {
    for path in ["/no such file", env!("CARGO_BIN_EXE_tracebuf")] {
        let output = command(&["stats", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        assert!(text(&output.stderr).contains(path));
    }
    let empty = scratch("looking_inside/empty.trace");
    for content in [vec![], gzipped(b"")] {
        std::fs::write(&empty, content).expect("a file");
        let output = command(&["stats", empty.to_str().expect("a path")]);
        let said = format!("error: {}: it is empty, and no trace\n", empty.display());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), &*said));
    }
}

#[test]
fn what_no_memory_is_large_enough_for_is_an_error() {
    let ring = "error: no ring can be so large, nor several together\n";
    let cases: [(&[&str], &str); 5] = [
        (&["--rate", "100GB", "--seconds", "1000000h"], ring),
        (&["--rate", "100GB", "--drain-period", "1000000h"], ring),
        (&["--rate", "100GB", "--blocked", "1000000h"], "error: no shared memory can be so large\n"),
        (&["--rate", "99999999999999999999GB"], "error: nothing can write so fast\n"),
        (&["--rate", "1MB", "--buffer", "99999999999999999999GB"], "there are fewer than 2⁶⁴ bytes"),
    ];
    for (arguments, told) in cases {
        let output = command(&[&["size"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told) && output.stdout.is_empty(), "{said}");
    }
}

#[test]
fn sizes_are_those_of_the_rules() {
    let output = command(&["size", "--rate", "8MB/s", "--seconds", "10s", "--buffer", "16MiB"]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    // 8 MB/s for 10 ms are 80 KB, and with the sizes of packets of 16 bytes 85 KB; twice that are 84 chunks.
    assert!(said.contains("172032 bytes"), "{said}");
    assert!(said.contains("lasts 10 s"), "{said}");
    assert!(said.contains("a ring of 16777216 bytes lasts 1.9 s"), "{said}");
    let long = command(&["size", "--rate", "2MB/s", "--drain-period", "5s", "--packet", "400"]);
    // 5 s of 2 MB/s are 10 MB, and 10.1 MB with the sizes: 4,988 chunks, which take 2,060 bytes each.
    assert!(text(&long.stdout).contains("10276864 bytes"), "{}", text(&long.stdout));
    // As much as firmware has, mostly in milliseconds. 18 chunks have room for 101 bytes, sizes included.
    let small = &["size", "--rate", "100KB", "--chunk", "120", "--buffer", "2472B", "--blocked", "0.4ms"];
    let said = command(small);
    let said = text(&said.stdout);
    assert!(said.contains("lasts 17.1 ms") && said.contains("running for 400 µs"), "{said}");
    for no_rate in ["--rate=fast", "--rate=-5MB", "--rate=nanMB", "--rate=infMB"] {
        assert_eq!(command(&["size", no_rate]).status.code(), Some(2), "{no_rate}");
    }
    for (chunk, code) in [("31", 2), ("32", 0), ("65536", 0), ("65537", 2)] {
        assert_eq!(
            command(&["size", "--rate", "1MB", "--chunk", chunk]).status.code(),
            Some(code),
            "{chunk}"
        );
    }
    for (more, code) in [(&[][..], true), (&["--seconds", "1s"], false), (&["--buffer", "1MiB"], false)] {
        let output = command(&[&["size", "--rate", "1MB"], more].concat());
        let hint = "for a ring, say how far it is to reach back, --seconds, or how often a long trace is written, \
                    --drain-period";
        assert_eq!(text(&output.stdout).contains(hint), code, "{}", text(&output.stdout));
    }
    for (buffer, said) in [
        ("8GiB", "lasts 3973.6 s: a ring is smaller than 4 GiB: several are needed"),
        ("0", "lasts 0 s: too small for a chunk of 2044, which takes 2060"),
        ("5", "lasts 0 s: too small"),
        ("2060", "lasts 953 µs\n"),
    ] {
        let output = command(&["size", "--rate", "2MB", "--buffer", buffer]);
        assert!(text(&output.stdout).contains(said), "{}", text(&output.stdout));
    }
    let nothing = command(&["size", "--rate", "0", "--seconds", "10s", "--buffer", "1MiB"]);
    assert_eq!(text(&nothing.stdout).matches("lasts for ever").count(), 2, "{nothing:?}");
}
