//! The command `tracebuf inspect`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::Failure;
use crate::file_kind::{FileKind, if_missing, if_moved};
use crate::files::{check_is_other, output_path, read_as_far};
use crate::options::{BufferChoice, MostUnpacked, report_others};
use crate::terminal::{beside, is_stdout, printed};
use tracebuf_analysis::inspect::Inspection;
use tracebuf_session::region_file::create_if_free;
use tracebuf_std::console::draws;
use tracebuf_std::display::Count;

/// Show sequences, chunks and losses of a trace or of a trace buffer's memory, and draw a map of it.
///
/// Nothing is changed. The whole file is held in memory and, for a trace, also which sequence each part belongs to: up
/// to seven times its size, or more where packets of a few bytes come from several sequences in turn. `stats` takes
/// little.
///
/// Exit status: 0 when there was something to show, 1 if not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A trace, the memory of a trace buffer, or a dump with one in it, plain or gzipped; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    which: BufferChoice,
    #[command(flatten)]
    most_unpacked: MostUnpacked,
    /// Also draw a picture into this file; - is standard output.
    #[arg(long, value_name = "OUT", value_parser = output_path())]
    svg: Option<PathBuf>,
    /// How many of the newest chunks to list.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    chunks: usize,
    /// Columns of the map.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(8..=400))]
    columns: u16,
    /// The most rows of the map.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=400))]
    rows: u16,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let file = &arguments.file;
    let (content, _) = read_as_far(file, &arguments.most_unpacked)
        .map_err(|error| Failure::of(file, &error).followed_by(if_missing(file, &error)))?;
    let inspection = look_at(file, &content, &arguments.which)?;
    report_others(&inspection.others);
    let mut is_beside = false;
    if let Some(svg) = &arguments.svg {
        is_beside = is_stdout(svg)?;
        let mut inputs = [file].into_iter().chain(&arguments.which.program);
        inputs
            .try_for_each(|input| check_is_other(svg, input))
            .and_then(|()| create_if_free(svg)?.write_all(inspection.svg().as_bytes()))
            .map_err(|error| Failure::writing(svg, error))?;
    }
    let mut out = beside(is_beside);
    let colour = !is_beside && io::stdout().is_terminal() && draws();
    let map = inspection.map(arguments.columns.into(), arguments.rows.into(), colour);
    let mut print = || {
        write!(out, "{inspection}{map}")?;
        let more = inspection.chunks.len().saturating_sub(arguments.chunks);
        match inspection.chunks.len() {
            all if more > 0 && more < all => writeln!(out, "the newest {} of {all} chunks:", all - more)?,
            all if all > 0 && more == 0 => writeln!(out, "{}:", Count(all as u64, "chunk"))?,
            _ => {}
        }
        inspection.chunks.iter().skip(more).try_for_each(|chunk| writeln!(out, "{}", chunk.text))
    };
    printed(print())
}

fn look_at(file: &Path, bytes: &[u8], which: &BufferChoice) -> Result<Inspection, Failure> {
    if which.is_any() {
        return Inspection::of_file(bytes)
            .map_err(|error| Failure::of(file, format_args!("{error}{}", FileKind::of(bytes))))
            .map_err(|failure| failure.followed_by(if_moved(file, bytes)));
    }
    let (dump, place) = which.of(file, bytes)?;
    Inspection::of_dump(&dump, place).map_err(|error| Failure::of(file, error))
}
