//! From a serial port. A pseudo-terminal behaves like one: opened by name, set to a speed, silent at times, gone in the
//! end.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serialport::{SerialPort, TTYPort};
use tracebuf_analysis::receive::{ReceiveOptions, ReceiveReport, receive};

use super::{FIRST, LAST, WHOLE, content, frame, line, packet, received};
use crate::trace::{folder, scratch};
use crate::{keep_from_commands, tracebuf, wait_until};

#[test]
fn a_port_is_received_until_the_device_is_gone_and_all_is_in_the_file_when_it_is_silent() {
    let output = scratch("receive/port.pftrace");
    let _ = std::fs::remove_file(&output);
    let (mut device, port) = TTYPort::pair().unwrap();
    let name = port.name().unwrap();
    let (stop, listening) = (AtomicBool::new(false), AtomicBool::new(false));
    let (end, told) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut told = ReceiveReport::default();
            let end = receive(&ReceiveOptions::new(&name, &output).baud(9600), &stop, |report| {
                told = report.clone();
                listening.store(true, Relaxed);
            });
            (end, told)
        });
        // What is sent before the port is open may be thrown away.
        assert!(wait_until(30, || listening.load(Relaxed)));
        let mut frames = line(40);
        // After the last packet, and sent with it, the beginning of one that never ends.
        let number = frames.len() as u16 + 1;
        frames.last_mut().unwrap().extend(frame(FIRST, number, &[]));
        for frame in frames {
            device.write_all(&frame).unwrap();
        }
        assert!(wait_until(30, || received(&output).len() == 40), "{} of 40", received(&output).len());
        drop((device, port));
        receiver.join().unwrap()
    });
    assert!(end.is_err(), "a device that is gone is not the end of a file: {end:?}");
    assert_eq!(received(&output).len(), 40);
    assert_eq!((told.packets, told.packets_incomplete), (40, 1), "{told}");
}

#[test]
fn the_command_tells_what_was_lost_and_then_that_the_device_is_gone() {
    let output = scratch("receive/unplugged.pftrace");
    let _ = std::fs::remove_file(&output);
    let (mut device, port) = TTYPort::pair().unwrap();
    let name = port.name().unwrap();
    keep_from_commands(&device);
    let command = tracebuf(&["receive", "--once", &name, "-o"])
        .arg(&output)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What is sent before the port is open may be thrown away.
    let arrives = |number: &u16| {
        device.write_all(&frame(WHOLE, *number, &packet(0))).unwrap();
        wait_until(1, || !received(&output).is_empty())
    };
    let number = (1..30).find(arrives).expect("a packet");
    let after_a_gap = [frame(LAST, number + 3, &packet(1)), frame(WHOLE, number + 4, &packet(3))].concat();
    device.write_all(&after_a_gap).unwrap();
    let sent = content(&packet(3));
    assert!(wait_until(30, || received(&output).iter().any(|packet| packet.starts_with(&sent))));
    drop((device, port));
    let out = command.wait_with_output().unwrap();
    let (report, error) = (crate::text(&out.stdout), crate::text(&out.stderr));
    assert!(report.contains(" 2 lost") && report.ends_with(", 1 packet incomplete\n"), "{report}");
    assert!(error.starts_with(&format!("error: {name}: ")), "{error}");
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn of_a_device_that_says_nothing_there_is_no_trace() {
    let output = scratch("receive/silent.pftrace");
    std::fs::write(&output, "a trace").unwrap();
    let (_device, port) = TTYPort::pair().unwrap();
    let stop = AtomicBool::new(false);
    let end = receive(&ReceiveOptions::new(port.name().unwrap(), &output).baud(9600), &stop, |_| {
        stop.store(true, Relaxed);
    });
    let error = end.expect_err("it said nothing").to_string();
    assert!(error.ends_with(": not one intact frame came, so nothing is written"), "{error}");
    assert_eq!(std::fs::read(&output).unwrap(), b"a trace");
}

#[test]
fn a_link_to_a_port_may_have_a_name_that_is_no_text() {
    let (output, link) =
        (scratch("receive/linked.pftrace"), folder("receive/links").join(OsStr::from_bytes(b"\xFF")));
    let (_device, port) = TTYPort::pair().unwrap();
    std::os::unix::fs::symlink(port.name().unwrap(), &link).unwrap();
    let stop = AtomicBool::new(false);
    let end = receive(&ReceiveOptions::new(&link, &output).baud(9600), &stop, |_| stop.store(true, Relaxed));
    let error = end.expect_err("it said nothing").to_string();
    assert!(error.ends_with(": not one intact frame came, so nothing is written"), "{error}");
}

#[test]
fn a_trace_that_is_renamed_before_the_first_packet_comes_is_kept() {
    let (output, kept) = (scratch("receive/renamed.pftrace"), scratch("receive/renamed-to.pftrace"));
    std::fs::write(&output, "a trace").unwrap();
    let _ = std::fs::remove_file(&kept);
    let (mut device, port) = TTYPort::pair().unwrap();
    let stop = AtomicBool::new(false);
    let end = receive(&ReceiveOptions::new(port.name().unwrap(), &output).baud(9600), &stop, |report| {
        if report.packets > 0 {
            stop.store(true, Relaxed);
        } else if std::fs::rename(&output, &kept).is_ok() {
            device.write_all(&frame(WHOLE, 1, &packet(0))).unwrap();
        }
    });
    assert_eq!((end.unwrap().packets, received(&output).len()), (1, 1));
    assert_eq!(std::fs::read(&kept).unwrap(), b"a trace");
}

#[test]
fn a_port_that_is_not_there_is_a_failure_that_says_so() {
    let out = tracebuf(&["receive", "--once", "/dev/no-such-port", "-o", "/dev/null"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(crate::text(&out.stderr).contains("/dev/no-such-port"));
}

#[test]
fn what_is_neither_a_port_nor_a_file_is_told_to_be_neither() {
    for other in ["/dev/null", "/dev"] {
        let out = tracebuf(&["receive", other, "-o", "/dev/null"]).output().unwrap();
        let error = format!("error: {other}: it is neither a serial port nor a file of what came over one\n");
        assert_eq!((crate::text(&out.stderr), out.status.code()), (&error[..], Some(1)));
    }
}
