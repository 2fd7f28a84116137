//! The command `tracebuf-conformance pvm`: the patches of a vector, run through its program.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use tracebuf_conformance::vm::vector::{Vector, hex};

use crate::files::{Failure, input, printed};

/// Run the patches of a vector through its program and print a line for each: what became of it, and the state.
///
/// Exit status: 0 when there is a line for each patch, 1 when something could not be read or written, 2 when a line of
/// the vector is malformed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The vector, plain or gzipped; - is standard input.
    vector: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<(), Failure> {
    let mut text = String::new();
    let read = input(&arguments.vector).and_then(|mut vector| vector.read_to_string(&mut text));
    read.map_err(|error| Failure::of(&arguments.vector, error))?;
    let vector = Vector::parse(&text).map_err(Failure::malformed)?;
    let lines = vector.run().into_iter().map(|(status, state)| format!("{status} {}\n", hex(&state)));
    printed(io::stdout().write_all(lines.collect::<String>().as_bytes()))
}
