//! Signals that ask a command to end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{FRAMES, assert_whole, command, ended, fresh, ignoring, mkfifo, name, recording};
use crate::{send, wait_until_caught};

/// As the terminal's end is under `nohup`, and Ctrl-C for what a script starts with `&`.
#[test]
fn a_recording_goes_on_whatever_comes_that_it_was_started_to_ignore() {
    for (ignored, caught) in
        [(libc::SIGHUP, libc::SIGTERM), (libc::SIGINT, libc::SIGHUP), (libc::SIGTERM, libc::SIGHUP)]
    {
        let trace = fresh("ignoring");
        let start = Instant::now();
        let mut recording = ignoring(&mut recording(&trace, "1200ms", Stdio::null()), Some(ignored));
        wait_until_caught(&recording, caught);
        // Of these handlers, the one for SIGHUP would be set last.
        std::thread::sleep(Duration::from_millis(100));
        send(&recording, ignored);
        assert_eq!(ended(&mut recording).code(), Some(0), "{ignored}");
        assert!(start.elapsed() >= Duration::from_millis(1200), "{ignored}: {:?}", start.elapsed());
        assert_whole(&trace);
    }
}

/// `timeout` sends its signal to the process and then to the group it is in.
#[test]
fn a_request_to_end_that_comes_more_than_once_is_one() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let trace = fresh("twice");
        let mut recording = ignoring(&mut recording(&trace, "60s", Stdio::null()), None);
        wait_until_caught(&recording, libc::SIGHUP);
        for _ in 0..5 {
            send(&recording, signal);
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(ended(&mut recording).code(), Some(0), "{signal}");
        assert_whole(&trace);
    }
}

#[test]
fn who_asks_again_after_a_while_ends_a_command_that_waits() {
    let (frames, pipe) = (fresh("waiting-frames"), fresh("waiting-pipe"));
    fs::write(&frames, FRAMES).expect("a file");
    mkfifo(&pipe);
    let asked = [libc::SIGTERM, libc::SIGINT].map(|signal| {
        // Nobody reads the pipe, so it cannot even be opened.
        let mut waiting = command(&["receive", name(&frames), "-o", name(&pipe)]);
        let waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command");
        wait_until_caught(&waiting, libc::SIGTERM);
        send(&waiting, signal);
        (waiting, signal)
    });
    std::thread::sleep(Duration::from_millis(700));
    for (mut waiting, signal) in asked {
        assert!(waiting.try_wait().expect("it is there").is_none(), "it was asked once");
        send(&waiting, signal);
        assert_eq!(ended(&mut waiting).signal(), Some(signal));
    }
}
