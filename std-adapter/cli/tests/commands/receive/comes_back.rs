//! Ports that are not there yet, or go and come back, as those of a device with USB of its own do when it is reset.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serialport::{SerialPort, TTYPort};

use super::{FIRST, WHOLE, frame, received};
use crate::trace::folder;
use crate::{keep_from_commands, text, tracebuf, wait_until};

/// A device under this name, in the place of the one before.
fn device(link: &Path) -> (TTYPort, TTYPort) {
    let (device, port) = TTYPort::pair().expect("a pseudo-terminal");
    keep_from_commands(&device);
    keep_from_commands(&port);
    let _ = std::fs::remove_file(link);
    symlink(port.name().expect("a name"), link).expect("a link");
    (device, port)
}

/// A packet of a track event's size, at a time; the first one of its sequence says so.
fn packet(time: u8, is_first: bool) -> Vec<u8> {
    let first: &[u8] = if is_first { &[0xB8, 0x05, 1] } else { &[] };
    let content = [&[0x40, time, 0x50, 2][..], first].concat();
    [&[0x0A, content.len() as u8][..], &content].concat()
}

fn receiving(port: &Path, output: &Path) -> Child {
    let mut command = tracebuf(&["receive"]);
    command.arg(port).arg("-o").arg(output).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command")
}

/// Ends the command; returns its status, what it said and what was wrong.
fn end(command: Child) -> (Option<i32>, String, String) {
    // SAFETY: a child that was not waited for.
    assert_eq!(unsafe { libc::kill(command.id() as i32, libc::SIGINT) }, 0);
    let out = command.wait_with_output().expect("its end");
    (out.status.code(), text(&out.stdout).to_owned(), text(&out.stderr).to_owned())
}

/// Sends frames from this number on until one arrives in this file; returns the next number.
fn arrives(device: &mut TTYPort, output: &Path, begin: u16) -> u16 {
    let number = (begin..begin + 500).find(|number| {
        let is_first = *number == 1;
        device.write_all(&frame(WHOLE, *number, &packet(*number as u8, is_first))).expect("a line");
        // What is sent before the port is open may be thrown away.
        wait_until(1, || received(output).len() as u16 > 0)
    });
    number.expect("one arrives") + 1
}

fn paths(test: &str) -> [PathBuf; 3] {
    let folder = folder(&format!("receive/{test}"));
    ["port", "trace.pftrace", "trace-2.pftrace"].map(|name| folder.join(name))
}

#[test]
fn a_port_that_is_not_there_yet_is_waited_for() {
    let [port, trace, _] = paths("absent");
    let mut command = receiving(&port, &trace);
    assert!(!wait_until(1, || command.try_wait().expect("a child").is_some()), "it waits");
    let (mut device, kept) = device(&port);
    arrives(&mut device, &trace, 1);
    let (code, said, errors) = end(command);
    assert!(code == Some(0) && errors == format!("waiting for {}\n", port.display()), "{said} {errors}");
    drop(kept);
    // One that never comes is said to have sent nothing.
    std::fs::remove_file(&port).expect("a link");
    std::fs::remove_file(&trace).expect("a trace");
    let command = receiving(&port, &trace);
    std::thread::sleep(std::time::Duration::from_millis(700));
    let (code, _, errors) = end(command);
    assert!(code == Some(1) && errors.contains("so nothing is written") && !trace.exists(), "{errors}");
}

#[test]
fn a_device_that_is_reset_and_comes_back_has_a_file_for_each_of_its_starts() {
    let [port, trace, second] = paths("comes-back");
    let (mut first, kept) = device(&port);
    let command = receiving(&port, &trace);
    let next = arrives(&mut first, &trace, 1);
    // A frame that is cut short by the reset.
    let cut = frame(FIRST, next, &packet(9, false));
    first.write_all(&cut[..cut.len() / 2]).expect("a line");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = received(&trace).len();
    drop((first, kept));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (mut again, kept) = device(&port);
    // Text of a boot loader.
    again.write_all(b"rst:0x1 (POWERON_RESET)\r\n\0").expect("a line");
    let begin = std::time::Instant::now();
    while received(&second).is_empty() {
        // As after another reset, whenever the first frames were lost.
        again.write_all(&frame(WHOLE, 1, &packet(1, true))).expect("a line");
        again.write_all(&frame(WHOLE, 2, &packet(2, false))).expect("a line");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(begin.elapsed().as_secs() < 30, "it comes back");
    }
    let (code, said, errors) = end(command);
    assert_eq!(code, Some(0), "{said} {errors}");
    assert!(said.contains("; the port was gone 1 time; the device restarted"), "{said}");
    assert!(said.contains("the input ended within a frame"), "{said}");
    assert_eq!(received(&trace).len(), before, "{said}");
    drop(kept);
}
