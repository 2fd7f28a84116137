//! Where in the program spans and events come from.

use tracebuf_analysis::Trace;
use tracebuf_analysis::trace::Source;
use tracebuf_session::{Recorder, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

use crate::trace::scratch;

/// What one event says of itself: its categories, file and line.
type Origin = (String, Option<SourceLocation>);
pub(crate) type SourceLocation = (String, u32);

pub(crate) fn place(source: &Source) -> SourceLocation {
    (source.file.to_string(), source.line)
}

/// The trace of a session, which has nothing missing and nothing that readers leave out.
pub(crate) fn trace_of(session: &Session, name: &str) -> Trace {
    let path = scratch(&format!("{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::open(&path).expect("a trace");
    assert!(
        trace.faults().is_empty() && !trace.losses().has_losses(),
        "{name}: {trace:?} {}",
        trace.losses()
    );
    trace
}

/// Each slice's begin and instant, of a single thread.
fn recorded(kind: &str, all: bool, make: impl FnOnce(Recorder) -> Dispatch) -> Vec<Origin> {
    let session = Session::builder().fast_clock().start().expect("a session");
    tracing::dispatcher::with_default(&make(session.recorder()), work);
    let trace = trace_of(&session, &format!("origins-{kind}-{all}"));
    trace.events().map(|event| (event.category().to_owned(), event.source().map(place))).collect()
}

const TARGET: &str = module_path!();

/// A span with fields and one without, each entered again, and one that is begun again when it is exited late.
fn work() {
    let plain = tracing::info_span!("plain");
    let fields = tracing::debug_span!(target: "elsewhere", "fields", size = 7);
    for _ in 0..2 {
        plain.in_scope(|| fields.in_scope(|| tracing::warn!(code = 3, "here")));
    }
    let first = fields.enter();
    let _second = plain.enter();
    drop(first);
}

const LINES: [u32; 3] = [line!() - 10, line!() - 9, line!() - 7];

fn expected(all: bool) -> Vec<Origin> {
    let event = |level: &str, target: &str, line: u32| {
        let categories = if all { format!("{level},{target}") } else { level.to_owned() };
        (categories, all.then(|| (file!().to_owned(), line)))
    };
    let plain = event("INFO", TARGET, LINES[0]);
    let fields = event("DEBUG", "elsewhere", LINES[1]);
    let here = event("WARN", TARGET, LINES[2]);
    let once = [plain.clone(), fields.clone(), here];
    [&once[..], &once, &[fields, plain.clone(), plain]].concat()
}

#[test]
fn slices_and_instants_say_their_file_line_and_target_if_that_is_wanted() {
    for all in [true, false] {
        let subscriber = |recorder| Dispatch::new(TraceSubscriber::new(recorder).origins(all));
        assert_eq!(recorded("subscriber", all, subscriber), expected(all), "the subscriber");
        let layer = |recorder| tracing_subscriber::registry().with(TraceLayer::new(recorder).origins(all));
        assert_eq!(recorded("layer", all, |recorder| layer(recorder).into()), expected(all), "the layer");
    }
}
