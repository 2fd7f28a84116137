//! The commands `tracebuf-conformance ftrace` and `ftrace-pages`: recordings and malformed pages, read as packets.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use tracebuf::proto::Sink;
use tracebuf::proto::fields::trace;
use tracebuf_conformance::ftrace::{Fixture, MalformedPages, record};

use crate::files::{Failure, output_path, printed, write};

/// Write the trace of a recording of the kernel's ring buffers, as Perfetto's recorder writes it.
///
/// It has the bundles of events of all rounds, and statistics of their beginning and end.
///
/// Exit status: 0, 1 when something could not be read or written.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recording, a gzipped archive.
    fixture: PathBuf,
    /// The trace file to write; - is standard output.
    #[arg(value_parser = output_path())]
    out: PathBuf,
    /// Write each scheduling event in full, none in lists.
    #[arg(long)]
    verbose: bool,
}

/// Print what becomes of malformed pages of the kernel's ring buffers.
///
/// A line for each has its name, the status or -, and the number of events before the fault, with tabs between.
///
/// Exit status: 0, 1 when something could not be read or printed.
#[derive(clap::Args)]
pub(crate) struct PagesArgs {
    /// The pages, a gzipped JSON file; the recording that has the formats must be beside it.
    file: PathBuf,
}

/// Runs `ftrace`.
pub(crate) fn run(arguments: &Args) -> Result<(), Failure> {
    let Args { fixture, out, verbose } = arguments;
    let mut trace = Vec::new();
    let mut packet = |packet: &[u8]| {
        let Ok(()) = trace.bytes(trace::PACKET, packet);
    };
    let result = open(fixture).and_then(Fixture::read);
    let result = result.and_then(|mut fixture| record(&mut fixture, !verbose, &mut packet));
    result.map_err(|error| Failure::of(fixture, error))?;
    write(out, &trace)
}

/// Runs `ftrace-pages`.
pub(crate) fn run_pages(arguments: &PagesArgs) -> Result<(), Failure> {
    let file = &arguments.file;
    let malformed = open(file).and_then(MalformedPages::read).map_err(|error| Failure::of(file, error))?;
    let formats = file.with_file_name(&malformed.formats_of);
    let of_formats = |error| Failure::of(&formats, error);
    let mut fixture = open(&formats).and_then(Fixture::read).map_err(of_formats)?;
    let mut output = BufWriter::new(io::stdout().lock());
    for case in &malformed.pages {
        let outcome = case.decode(&mut fixture).map_err(of_formats)?;
        let status = outcome.status.map_or_else(|| "-".to_owned(), |status| (status as u8).to_string());
        printed(writeln!(output, "{}\t{status}\t{}", case.name, outcome.events))?;
    }
    printed(output.flush())
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}
