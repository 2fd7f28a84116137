//! The command `tracebuf-conformance replay`: recorded operations, run on a real buffer.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use tracebuf_conformance::replay::{LeftOut, Replay, ReplayError};

use crate::files::{Failure, input, is_same, is_stdout, output_path, printed, tell};

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
pub(crate) fn run(arguments: &Args) -> Result<(), Failure> {
    let Args { script, pftrace } = arguments;
    let reader = input(script).map_err(|error| Failure::of(script, error))?;
    let result = match pftrace {
        None => replay(io::stdout().lock()).run(reader),
        Some(path) => {
            if is_same(path, script) {
                return Err(Failure::writing(path, "it is the file that is read"));
            }
            let output: Box<dyn Write> =
                if is_stdout(path) { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) };
            replay(UntilClosed(Some(output))).run_into(path, reader)
        }
    };
    match (result, pftrace) {
        (Ok(summary), _) => tell(&summary),
        (Err(ReplayError::Output(error)), _) => return printed(Err(error)),
        (Err(ReplayError::Trace(error)), Some(path)) => return Err(Failure::writing(path, error)),
        (Err(ReplayError::Script(error)), _) => return Err(Failure::of(script, error)),
        (Err(error @ ReplayError::Line { refused_packets, .. }), _) => {
            return Err(match refused_packets {
                0 => Failure::malformed(error),
                count => Failure::malformed(format_args!("{error}\n{}", LeftOut(count))),
            });
        }
        (Err(error), _) => return Err(Failure::of(script, error)),
    }
    Ok(())
}

fn replay<W: Write>(output: W) -> Replay<BufWriter<W>> {
    Replay::new(BufWriter::with_capacity(1 << 16, output))
}

/// An output that discards everything once its reader has seen enough: the trace file beside it must become complete.
struct UntilClosed<W>(Option<W>);

impl<W: Write> UntilClosed<W> {
    fn on_output<T>(&mut self, closed: T, what: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        match self.0.as_mut().map(what) {
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => self.0 = None,
            Some(other) => return other,
            None => {}
        }
        Ok(closed)
    }
}

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.on_output(bytes.len(), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.on_output((), W::flush)
    }
}
