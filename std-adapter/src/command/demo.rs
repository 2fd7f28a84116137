//! `tracebuf demo`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use tracebuf::producer::Exhaustion;
use tracebuf_std::demo::Options;

use crate::failure::Failure;
use crate::files::output_path;
use crate::terminal::{is_stdout, print_beside};
use crate::units::ring;

/// Trace eight threads at work through 256 KiB of shared memory, and account for every packet.
///
/// Exit status: 0 when the numbers agree, 1 when not or when something could not be read or written.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace file to write, or a pipe; - is standard output.
    #[arg(value_parser = output_path())]
    out: PathBuf,
    /// The ring's size: 512KiB, 16MiB, 1GiB. 4KiB or more, below 4GiB.
    ///
    /// Units: B, kB, MB, GB (of 1000), KiB, MiB, GiB or K, M, G (of 1024).
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = ring)]
    ring: u32,
    /// What writers do when shared memory is full: wait for the service, or drop packets.
    #[arg(long, value_name = "POLICY", default_value = "stall")]
    when_full: WhenFull,
    /// How many numbers to sort.
    #[arg(long, value_name = "COUNT", default_value_t = 2 << 20)]
    numbers: usize,
    /// The folder whose source files' words are counted.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    sources: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum WhenFull {
    Stall,
    Drop,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { out, ring, when_full, numbers, sources } = arguments;
    let exhaustion = match when_full {
        WhenFull::Stall => Exhaustion::Stall,
        WhenFull::Drop => Exhaustion::Drop,
    };
    let options =
        Options { out: out.clone(), ring: *ring, exhaustion, numbers: *numbers, sources: sources.clone() };
    let is_stdout = is_stdout(out)?;
    let report = tracebuf_std::demo::run(&options).map_err(Failure::new)?;
    let code = ExitCode::from(u8::from(!report.agrees()));
    print_beside(is_stdout, &report.to_string().trim_end(), code)
}
