//! The command `tracebuf`, run as a user runs it.

use std::io::Write;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

mod demo;
mod inspect;
mod looking_inside;
#[cfg(target_os = "linux")]
mod output;
mod receive;
#[cfg(target_os = "linux")]
mod record;
mod recover;
mod replay;
mod smb;
#[path = "../support/trace.rs"]
mod trace;

/// The command with these arguments.
fn tracebuf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracebuf"));
    command.args(arguments);
    command
}

/// A command that had one end of a terminal too would keep it open: nobody at the other end would see it go.
fn keep_from_commands(end: &impl std::os::fd::AsRawFd) {
    // SAFETY: the number is that of an open file.
    assert_eq!(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
