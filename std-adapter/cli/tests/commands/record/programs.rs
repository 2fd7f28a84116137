//! Programs that connect to a recording of this machine.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracebuf_ipc::Connection;

use super::{assert_described, assert_success, command, names_of};
use crate::trace::{Trace, scratch};
use crate::{send, text, wait_until};

/// Runs until it is told to end, and then says what it did; programs connect to a socket.
fn recording(socket: &Path, more: &[&str], path: &Path) -> Child {
    let mut command = command();
    command.args(["--duration", "forever", "--listen"]).arg(socket).args(more).arg("-o").arg(path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command")
}

/// What a program with Perfetto's SDK says first: which service it wants, who it is, where it hears, what it has.
const PERFETTO_PROGRAM: &[u8] = b"\x12\0\0\0\x10\x01\x1A\x0E\x0A\x0CProducerPort\
    \x0C\0\0\0\x10\x02\x2A\x08\x08\x01\x10\x01\x1A\x02\x48\x01\x08\0\0\0\x10\x03\x2A\x04\x08\x01\x10\x05\
    \x19\0\0\0\x10\x04\x2A\x15\x08\x01\x10\x02\x1A\x0F\x0A\x0D\x0A\x0Btrack_event";

#[test]
fn programs_with_perfettos_sdk_are_told_what_to_record() {
    let socket = std::env::temp_dir().join(format!("tracebuf-record-pf-{}", std::process::id()));
    let (mut named, mut of_environment) = (command(), command());
    named.arg(format!("--perfetto={}", socket.display()));
    of_environment.arg("--perfetto").env("PERFETTO_PRODUCER_SOCK_NAME", &socket);
    are_told(named, &socket);
    are_told(of_environment, &socket);
}

/// Checks what such a command tells programs that come to this socket.
fn are_told(mut command: Command, socket: &Path) {
    let path = scratch("record/perfetto.pftrace");
    command.args(["--categories", "net,ui.*", "--duration", "forever"]);
    let child = command.arg("-o").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the command");
    let mut program = None;
    assert!(wait_until(30, || {
        program = UnixStream::connect(socket).ok();
        program.is_some()
    }));
    let mut program = program.expect("it listens");
    program.write_all(PERFETTO_PROGRAM).expect("it is there");
    program.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    let mut heard = Vec::new();
    while !heard.windows(4).any(|window| window == b"ui.*") {
        let mut bytes = [0; 4096];
        let len = program.read(&mut bytes).expect("what to do");
        assert_ne!(len, 0);
        heard.extend_from_slice(&bytes[..len]);
    }
    assert!(heard.windows(3).any(|window| window == b"net"));
    drop(program);
    send(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("its end");
    assert_success(&output);
    let said = text(&output.stdout);
    assert!(said.contains(", and of 1 program; ") && said.contains("lost: nothing"), "{said}");
    assert!(!socket.exists());
    Trace::read(&path).assert_ends_with_stats();
}

#[test]
fn programs_record_into_the_same_trace() {
    for long in [None, Some("--long")] {
        let path = scratch("record/programs.pftrace");
        let socket = std::env::temp_dir().join(format!("tracebuf-record-{}", std::process::id()));
        let child = recording(&socket, long.as_slice(), &path);
        let mut connection = None;
        assert!(wait_until(30, || {
            connection = Connection::builder().process_name("a program").open(&socket).ok();
            connection.is_some()
        }));
        let connection = connection.expect("a connection");
        connection.recorder().instant("of a program");
        std::thread::sleep(Duration::from_millis(200));
        let recorder = child.id();
        send(&child, libc::SIGINT);
        let output = child.wait_with_output().expect("its end");
        assert_success(&output);
        let said = text(&output.stdout);
        assert!(said.contains(", and of 1 program; ") && said.contains("lost: nothing"), "{said}");
        assert!(wait_until(30, || !connection.is_connected()) && !socket.exists());
        let trace = Trace::read(&path);
        for name in ["load of a minute", "a program", "of a program", "look at /proc"] {
            assert!(trace.contains(name), "{name}");
        }
        assert_eq!(names_of(&trace, recorder), HashSet::from(["tracebuf record"]));
        assert_described(&trace);
        trace.assert_ends_with_stats();
    }
}

#[test]
fn a_ring_that_is_not_full_has_a_place_for_every_program() {
    let path = scratch("record/many.pftrace");
    let socket = std::env::temp_dir().join(format!("tracebuf-record-many-{}", std::process::id()));
    let child = recording(&socket, &[], &path);
    assert!(wait_until(30, || socket.exists()));
    // One after the other, more than a buffer's table has places for by default.
    for _ in 0..1500 {
        let mut connection = None;
        assert!(wait_until(30, || {
            connection = Connection::builder().open(&socket).ok();
            connection.is_some()
        }));
        connection.expect("a connection").recorder().instant("of a short program");
    }
    std::thread::sleep(Duration::from_millis(200));
    send(&child, libc::SIGINT);
    let output = child.wait_with_output().expect("its end");
    assert_success(&output);
    let said = text(&output.stdout);
    assert!(said.contains(", and of 1500 programs; ") && said.contains("lost: nothing"), "{said}");
}

#[test]
fn no_trace_takes_a_socket_s_place() {
    let socket = std::env::temp_dir().join(format!("tracebuf-record-place-{}", std::process::id()));
    for more in [&[][..], &["--long"]] {
        let output = recording(&socket, more, &socket).wait_with_output().expect("its end");
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.starts_with(&format!("error: {}: cannot be written: ", socket.display())), "{said}");
        assert!(!socket.exists());
    }
}

#[test]
fn a_socket_that_another_recording_has_is_said_before_anything_is_recorded() {
    let (path, other) = (scratch("record/first.pftrace"), scratch("record/second"));
    let socket = std::env::temp_dir().join(format!("tracebuf-record-twice-{}", std::process::id()));
    let first = recording(&socket, &[], &path);
    assert!(wait_until(30, || Connection::builder().open(&socket).is_ok()));
    std::fs::write(&other, "an older trace").expect("a file");
    let second = recording(&socket, &["--long"], &other).wait_with_output().expect("its end");
    assert_eq!(second.status.code(), Some(1));
    let said = text(&second.stderr);
    assert!(said.starts_with(&format!("error: the socket {}: ", socket.display())), "{said}");
    assert_eq!(std::fs::read_to_string(&other).expect("a file"), "an older trace");
    send(&first, libc::SIGTERM);
    assert_success(&first.wait_with_output().expect("its end"));
}
