//! The command `tracebuf receive`.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use tracebuf_std::receive::receive;

/// What `tracebuf receive` is given.
#[derive(Args)]
pub(crate) struct Receive {
    /// A serial port, such as /dev/ttyACM0 or COM3, or a file.
    port: String,
    /// The trace file.
    #[arg(short, long)]
    output: PathBuf,
    /// Bits a second of a serial port.
    #[arg(long, default_value_t = 115_200)]
    baud: u32,
}

/// Runs the command.
pub(crate) fn run(arguments: &Receive) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second time at once.  Without handlers a file can still be received to its end.
        let _ = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    let terminal = io::stderr().is_terminal();
    let result = receive(&arguments.port, arguments.baud, &arguments.output, &stop, |report| {
        if terminal {
            eprint!("\r{report}\x1b[K");
            let _ = io::stderr().flush();
        }
    });
    if terminal {
        eprintln!();
    }
    match result {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("receiving from {}: {error}", arguments.port);
            ExitCode::FAILURE
        }
    }
}
