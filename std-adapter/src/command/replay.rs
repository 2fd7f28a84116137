//! `tracebuf replay`.

use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use tracebuf_std::figures::LeftOut;
use tracebuf_std::replay::{Replay, ReplayError};

use crate::failure::Failure;
use crate::files::{check_is_other, open_any, output_path};
use crate::tell::tell;
use crate::terminal::{UntilClosed, beside, is_stdout, printed};

/// Run a script of recorded operations over a buffer and print what comes out.
///
/// Exit status: 0 when the script ran to its end, 1 when something could not be read or written, 2 when a
/// line of the script is malformed.
#[derive(clap::Args)]
#[command(after_long_help = LINES)]
pub(crate) struct Args {
    /// The script, plain or gzipped; - is standard input.
    script: PathBuf,
    /// Also write the packets of read and readn into this trace file; - is standard output.
    ///
    /// It appears when the script has been run to its end; until then, and if it fails, what is there stays as it was.
    #[arg(long, value_name = "OUT", value_parser = output_path())]
    pftrace: Option<PathBuf>,
}

/// What the lines of a script are.
const LINES: &str = concat!("A line has one operation:\n\n", include_str!("../script/grammar.txt"));

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { script, pftrace } = arguments;
    let reader = open_any(script).map_err(|error| Failure::of(script, error))?;
    let is_stdout = pftrace.as_deref().map(is_stdout).transpose()?.unwrap_or_default();
    let mut output = beside(is_stdout);
    if pftrace.is_some() {
        output = Box::new(UntilClosed::new(output));
    }
    let replay = Replay::new(BufWriter::with_capacity(1 << 16, output));
    let result = match pftrace {
        Some(path) => {
            check_is_other(path, script).map_err(|error| Failure::writing(path, error))?;
            replay.run_into(path, reader)
        }
        None => replay.run(reader),
    };
    let summary = match (result, pftrace) {
        (Ok(summary), _) => summary,
        (Err(ReplayError::Output(error)), _) => return printed(Err(error)),
        (Err(ReplayError::Trace(error)), Some(path)) => return Err(Failure::writing(path, error)),
        (Err(ReplayError::Script(error)), _) => return Err(Failure::of(script, error)),
        (Err(error @ ReplayError::Line { refused_packets, .. }), _) => {
            let failure = Failure::malformed(error);
            return Err(match refused_packets {
                0 => failure,
                count => failure.followed_by(format_args!("\n{}", LeftOut(count))),
            });
        }
        (Err(error), _) => return Err(Failure::of(script, error)),
    };
    tell!("{summary}");
    Ok(ExitCode::SUCCESS)
}
