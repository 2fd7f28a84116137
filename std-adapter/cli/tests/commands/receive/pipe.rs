//! From pipes: a network's, a debug probe's, another program's.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracebuf_analysis::receive::{ReceiveOptions, receive};

use super::{line, received};
use crate::trace::{mkfifo, scratch};
use crate::{text, tracebuf, wait_until};

/// Where a trace may go, and a pipe.
fn trace_and_pipe(name: &str) -> [PathBuf; 2] {
    let [output, pipe] = ["pftrace", "pipe"].map(|kind| scratch(&format!("receive/{name}.{kind}")));
    let _ = std::fs::remove_file(&output);
    mkfifo(&pipe);
    [output, pipe]
}

#[test]
fn a_named_pipe_is_received_from_its_first_writer_until_its_last_is_gone() {
    let [output, pipe] = trace_and_pipe("named");
    let (stop, waiting) = (AtomicBool::new(false), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            receive(&ReceiveOptions::new(&pipe, &output), &stop, |report| {
                waiting.store(report.bytes == 0, Relaxed)
            })
        });
        // Without a writer for more than half a second.
        assert!(wait_until(30, || waiting.load(Relaxed)), "it said that it waits");
        let mut device = OpenOptions::new().write(true).open(&pipe).unwrap();
        let other = device.try_clone().unwrap();
        device.write_all(&line(40).concat()).unwrap();
        assert!(
            wait_until(30, || received(&output).len() == 40),
            "{} of 40 while it is silent",
            received(&output).len()
        );
        drop(device);
        assert!(!wait_until(1, || receiver.is_finished()), "another may write");
        drop(other);
        receiver.join().unwrap()
    });
    assert_eq!((report.unwrap().packets, received(&output).len()), (40, 40));
}

#[test]
fn of_a_named_pipe_that_nobody_writes_into_nothing_is_written_and_a_request_to_stop_is_heard() {
    let [output, pipe] = trace_and_pipe("nobody");
    let stop = AtomicBool::new(false);
    let end = receive(&ReceiveOptions::new(&pipe, &output), &stop, |_| stop.store(true, Relaxed));
    assert!(end.unwrap_err().to_string().ends_with(": not one intact frame came, so nothing is written"));
    assert!(!output.exists());
}

/// The command, with this as its standard input.
fn receiving(input: impl Into<Stdio>, output: &Path) -> Child {
    let mut command = tracebuf(&["receive", "-", "-o"]);
    command.arg(output).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn assert_whole(out: &Output, output: &Path) {
    let said = (text(&out.stdout), text(&out.stderr));
    assert!(
        said.0.starts_with("40 packets from ") && said.0.ends_with(", nothing lost on the line\n"),
        "{said:?}"
    );
    assert_eq!((out.status.code(), received(output).len()), (Some(0), 40), "{said:?}");
}

#[test]
fn standard_input_is_received_whatever_it_is() {
    let [output, input] = ["pftrace", "bin"].map(|kind| scratch(&format!("receive/stdin.{kind}")));
    let bytes = line(40).concat();
    std::fs::write(&input, &bytes).unwrap();
    assert_whole(&receiving(File::open(&input).unwrap(), &output).wait_with_output().unwrap(), &output);
    // A pipe that is read only when its writer has gone.
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&bytes).unwrap();
    drop(writer);
    assert_whole(&receiving(reader, &output).wait_with_output().unwrap(), &output);
    // The file to be written must not be the one that is read.
    let out = receiving(File::open(&input).unwrap(), &input).wait_with_output().unwrap();
    assert!(text(&out.stderr).ends_with("it is the file that is read\n"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read(&input).unwrap(), bytes);
    let out = receiving(Stdio::null(), &output).wait_with_output().unwrap();
    let error = "error: standard input: not one intact frame came, so nothing is written\n";
    assert_eq!((text(&out.stderr), out.status.code()), (error, Some(1)));
    assert_eq!(received(&output).len(), 40, "the trace of the time before");
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_it_though_the_pipe_is_silent() {
    let output = scratch("receive/signal.pftrace");
    let _ = std::fs::remove_file(&output);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let command = receiving(reader, &output);
    crate::wait_until_caught(&command, libc::SIGINT);
    writer.write_all(&line(40).concat()).unwrap();
    assert!(
        wait_until(30, || received(&output).len() == 40),
        "{} of 40 while it is silent",
        received(&output).len()
    );
    crate::send(&command, libc::SIGINT);
    assert_whole(&command.wait_with_output().unwrap(), &output);
    drop(writer);
}
