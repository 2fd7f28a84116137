//! The command `tracebuf-conformance model`: a script, run on the model.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use tracebuf_conformance::model_script;

use crate::files::{Failure, input, printed};

/// Run a script over the model of the buffer and print what comes out, to compare it with `replay`.
///
/// Exit status: 0 when the script ran to its end, 1 when something could not be read or written, 2 when a line of the
/// script is malformed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The script, plain or gzipped; - is standard input.
    script: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<(), Failure> {
    let mut text = String::new();
    let read = input(&arguments.script).and_then(|mut script| script.read_to_string(&mut text));
    read.map_err(|error| Failure::of(&arguments.script, error))?;
    let output = model_script::run(&text).map_err(Failure::malformed)?;
    printed(io::stdout().write_all(output.as_bytes()))
}
