//! `tracebuf replay`.

use std::io::{self, BufRead, BufWriter, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use tracebuf_std::pftrace::TraceFile;
use tracebuf_std::replay::{Replay, ReplayError};
use tracebuf_std::script::parse_line;

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
    #[arg(long, value_name = "OUT", value_parser = output_path())]
    pftrace: Option<PathBuf>,
}

/// What the lines of a script are.
const LINES: &str = concat!("A line has one operation:\n\n", include_str!("../script/grammar.txt"));

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { script, pftrace } = arguments;
    let begun = open_any(script).and_then(as_far_as_known);
    let (is_script, reader) = begun.map_err(|error| Failure::of(script, error))?;
    let is_stdout = pftrace.as_deref().map(is_stdout).transpose()?.unwrap_or_default();
    let mut output = beside(is_stdout);
    if pftrace.is_some() {
        output = Box::new(UntilClosed::new(output));
    }
    let mut replay = Replay::new(BufWriter::with_capacity(1 << 16, output));
    if let Some(path) = pftrace {
        let write = |error| Failure::writing(path, error);
        check_is_other(path, script).map_err(write)?;
        if is_script {
            replay = replay.with_trace(TraceFile::create(path).map_err(write)?);
        }
    }
    let summary = match (replay.run(reader), pftrace) {
        (Ok(summary), _) => summary,
        (Err(ReplayError::Output(error)), _) => return printed(Err(error)),
        (Err(ReplayError::Trace(error)), Some(path)) => return Err(Failure::writing(path, error)),
        (Err(ReplayError::Script(error)), _) => return Err(Failure::of(script, error)),
        (Err(error @ ReplayError::Line { .. }), _) => return Err(Failure::malformed(error)),
        (Err(error), _) => return Err(Failure::of(script, error)),
    };
    tell!("{summary}");
    Ok(ExitCode::SUCCESS)
}

/// A script, and whether it may be one, by its first operation. Who names a trace in its place, and it in that of the
/// trace, is to have both afterwards.
fn as_far_as_known(mut script: impl BufRead) -> io::Result<(bool, impl BufRead)> {
    let (mut begun, mut first) = (Vec::new(), Ok(None));
    while first == Ok(None) && begun.len() < FAR_ENOUGH {
        let start = begun.len();
        let room = (FAR_ENOUGH - start) as u64;
        if script.by_ref().take(room).read_until(b'\n', &mut begun)? == 0 {
            break;
        }
        first = parse_line(begun.get(start..).unwrap_or_default());
    }
    Ok((first.is_ok(), io::Cursor::new(begun).chain(script)))
}

/// Bytes of a script in which its first operation is, unless there are very many comments before it: of a longer line
/// the beginning says what it is.
const FAR_ENOUGH: usize = 1 << 16;
