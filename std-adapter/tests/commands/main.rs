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

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
