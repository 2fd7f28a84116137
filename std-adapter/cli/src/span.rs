//! How long traces are that a command has written.

use std::fmt::{self, Display};
use std::fs::File;
use std::path::Path;

use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_std::display::Escaped;

/// A report, and then for each of these traces how long it is, or that its clock stands still. Of what was not written
/// into a regular file, and of packets without a time, nothing is told.
pub(crate) struct WithSpans<'r, R, P>(pub(crate) &'r R, pub(crate) &'r [P]);

impl<R: Display, P: AsRef<Path>> Display for WithSpans<'_, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report, traces) = self;
        write!(f, "{report}")?;
        for trace in
            traces.iter().map(AsRef::as_ref).filter(|trace| *trace != Path::new("-") && trace.is_file())
        {
            let Ok(file) = File::open(trace) else { continue };
            let Some(span) = TraceReport::read(file).0.span else { continue };
            write!(f, "\n{}: {span}", Escaped(trace.display()))?;
        }
        Ok(())
    }
}
