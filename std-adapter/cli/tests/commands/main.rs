//! The command `tracebuf`, run as a user runs it.

use std::io::Write;
#[cfg(target_os = "linux")]
use std::process::Child;
use std::process::Command;
#[cfg(unix)]
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

mod damaged;
mod inspect;
#[cfg(unix)]
mod looking_inside;
use tracebuf_testing::mix;
#[cfg(target_os = "linux")]
mod output;
mod receive;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod record_command;
#[cfg(target_os = "linux")]
mod record_long;
mod recover;
#[cfg(target_os = "linux")]
mod serve;
use tracebuf_testing::trace;
mod wrong_command;

/// The command with these arguments.
fn tracebuf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracebuf"));
    command.args(arguments);
    command
}

/// A command that also had one end of a terminal would keep it open, and nobody at the other end would see it go.
#[cfg(unix)]
fn keep_from_commands(end: &impl std::os::fd::AsRawFd) {
    // SAFETY: the number is that of an open file.
    assert_eq!(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
}

#[cfg(unix)]
fn wait_until(seconds: u64, mut what: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !what() {
        if start.elapsed() > Duration::from_secs(seconds) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(target_os = "linux")]
fn send(child: &Child, signal: i32) {
    // SAFETY: the child was not waited for yet, so the number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Waits until the command has a handler for the signal.
#[cfg(target_os = "linux")]
fn wait_until_caught(child: &Child, signal: i32) {
    let is_caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        u64::from_str_radix(mask.trim(), 16).expect("a number") >> (signal - 1) & 1 == 1
    };
    assert!(wait_until(30, is_caught), "it catches {signal}");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn the_help_of_each_command_says_how_it_ends() {
    for command in ["receive", "record", "serve", "inspect", "stats", "size", "recover"] {
        let help = tracebuf(&[command, "--help"]).output().expect("the command").stdout;
        assert!(text(&help).contains("Exit status: 0"), "{command}");
    }
}

#[test]
fn the_help_lists_the_commands_in_the_order_of_the_documentation() {
    let help = tracebuf(&["--help"]).output().expect("the command").stdout;
    // Lines that begin further to the right are the rest of a long one.
    let told = text(&help).lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let told: Vec<_> = told.filter(|word| !["", "help"].contains(word) && !word.starts_with('-')).collect();
    let page =
        include_str!("../../../../docs/commands.md").split_once("| `tracebuf …` |").expect("a table").1;
    let table = page.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = table.filter_map(|line| line.split('|').nth(1)).flat_map(|names| names.split(','));
    let names: Vec<_> = names.map(|name| name.trim().trim_matches('`')).collect();
    assert_eq!(told, names);
}
