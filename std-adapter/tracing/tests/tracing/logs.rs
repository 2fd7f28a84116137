//! Events as lines of a log.

use tracebuf_analysis::Trace;
use tracebuf_session::{LogMessage, LogPriority, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

use crate::FrontEnd;
use crate::origins::{SourceLocation, place, trace_of};

#[derive(Debug, PartialEq)]
struct Line {
    text: String,
    priority: u8,
    /// Its file and line.
    tag: Option<SourceLocation>,
    name: String,
}

/// The lines of all threads.
fn lines(trace: &Trace) -> Vec<Line> {
    let told = trace.logs().map(|line| Line {
        text: line.text().to_owned(),
        priority: line.priority(),
        tag: line.source().map(place),
        name: line.event().map_or("", |event| event.name()).to_owned(),
    });
    told.collect()
}

#[test]
fn events_are_lines_with_their_fields_levels_and_places_if_that_is_wanted() {
    let subscriber = |recorder, logs| Dispatch::new(TraceSubscriber::new(recorder).logs(logs));
    let layer = |recorder, logs| {
        Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(recorder).logs(logs)))
    };
    let kinds: [FrontEnd; 2] = [("subscriber", subscriber), ("layer", layer)];
    for (kind, make) in kinds {
        for logs in [false, true] {
            let session = Session::builder().start().expect("a session");
            let first = line!() + 2;
            tracing::dispatcher::with_default(&make(session.recorder(), logs), || {
                tracing::info!("found {} of {}", 1, 2);
                tracing::error!(code = -7, ok = false, part = 0.5, "failed");
                tracing::debug!(name = "x", count = 3);
                tracing::warn!(list = ?[1, 2], "{}", "y".repeat(10_000));
            });
            let trace = trace_of(&session, &format!("logs-{kind}-{logs}"));
            let line = |text: &str, priority, at, name: &str| Line {
                text: text.to_owned(),
                priority,
                tag: cfg!(not(tracebuf_small)).then(|| (file!().to_owned(), first + at)),
                name: name.to_owned(),
            };
            let long = "y".repeat(10_000);
            let expected = [
                line("found 1 of 2", 4, 0, "found 1 of 2"),
                line("failed code=-7 ok=false part=0.5", 6, 1, "failed"),
                line("name=x count=3", 3, 2, module_path!()),
                line(&format!("{long} list=[1, 2]"), 5, 3, &long),
            ];
            let lines = lines(&trace);
            if logs {
                assert_eq!(lines, expected, "{kind}");
            } else {
                assert_eq!(lines, [], "{kind}");
            }
            assert_eq!(trace.instants().count(), 4, "{kind}");
        }
    }
}

#[test]
fn threads_have_lines_without_tracing_too() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let recorder = &recorder;
            scope.spawn(move || {
                for number in 0..100 {
                    let text = format_args!("{thread} {number}").to_string();
                    recorder.log("plain", LogMessage::new(LogPriority::Fatal, &text));
                    let message = LogMessage::new(LogPriority::Verbose, text);
                    recorder.log_with("", message, |event| event.name("own").arg("number", number));
                }
            });
        }
    });
    let mut lines: Vec<_> =
        lines(&trace_of(&session, "logs-threads")).into_iter().map(|line| line.text).collect();
    lines.sort();
    let mut expected: Vec<_> = (0..600).map(|line| format!("{} {}", line / 200, line / 2 % 100)).collect();
    expected.sort();
    assert_eq!(lines, expected);
}
