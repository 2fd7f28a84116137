//! The command `tracebuf stats`.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use tracebuf_analysis::trace_stats::TraceReport;

use crate::failure::Failure;
use crate::file_kind::{ENOUGH, FileKind};
use crate::files::{is_of_content, open_any, report_cut};
use crate::terminal::print_and_exit;

/// List the data losses that a trace reports, with their causes and what to do about them.
///
/// These are the losses of the buffers that it came through, and of ftrace. The trace may be larger than memory: this
/// takes some 25 MB, 45 where there are very many writers, and a few times the longest packet.
///
/// Exit status: 0 when the trace says that nothing was lost, 3 when something was lost or the trace does not say, for
/// example without statistics, 1 when the file could not be read or is no trace, for example empty. A gzipped trace
/// that is cut is read as far as it goes, and has lost something.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace file, plain or gzipped; - is standard input.
    trace: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let file = &arguments.trace;
    // A trace may be larger than memory. If the file is none, its beginning tells what else it may be.
    let mut begun = Vec::new();
    let (report, result) = match open_any(file) {
        Ok(mut trace) => match trace.by_ref().take(ENOUGH).read_to_end(&mut begun) {
            Ok(_) => TraceReport::read((&begun[..]).chain(trace)),
            Err(error) => {
                let mut report = TraceReport::of(&begun);
                report.is_cut_off = true;
                (report, Err(error))
            }
        },
        Err(error) => (TraceReport::default(), Err(error)),
    };
    if let Err(error) = &result {
        let len = report.bytes + report.rest;
        if !is_of_content(error) || len == 0 {
            return Err(Failure::of(file, error));
        }
        report_cut(file, error, len);
    }
    if report.packets == 0 && report.rest == 0 {
        return Err(Failure::of(file, "it is empty, and no trace"));
    }
    if report.packets == 0 {
        return Err(Failure::of(file, format_args!("it is no trace{}", FileKind::of(&begun))));
    }
    print_and_exit(&report, ExitCode::from(if report.has_losses() { 3 } else { 0 }))
}
