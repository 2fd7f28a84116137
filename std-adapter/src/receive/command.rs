//! The command `tracebuf receive`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::files::check_is_other;
use crate::terminal::{ProgressLine, print_and_exit, stop_on_signals};
use clap::Args;
use tracebuf_std::receive::receive;

/// What `tracebuf receive` is given.
#[derive(Args)]
pub(crate) struct Receive {
    /// A serial port, such as /dev/ttyACM0 or COM3, or a file.
    port: PathBuf,
    /// The trace file.
    #[arg(short, long)]
    output: PathBuf,
    /// Bits a second of a serial port.
    #[arg(long, default_value_t = 115_200)]
    baud: u32,
}

/// Runs the command.
pub(crate) fn run(arguments: &Receive) -> ExitCode {
    let stop = stop_on_signals();
    let line = ProgressLine::new();
    let Receive { port, output, baud } = arguments;
    let result = check_is_other(output, port)
        .map_err(|error| format!("writing {}: {error}", output.display()))
        .and_then(|()| {
            receive(port, *baud, output, &stop, |report| line.show(report)).map_err(|error| error.to_string())
        });
    drop(line);
    match result {
        Ok(report) => print_and_exit(&report, ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("error {error}");
            ExitCode::FAILURE
        }
    }
}
