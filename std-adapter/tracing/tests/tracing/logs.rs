//! Events as lines of a log.

use std::collections::HashMap;

use tracebuf_session::{LogMessage, LogPriority, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

use crate::FrontEnd;
use crate::origins::{SourceLocation, place, text};
use crate::trace::{Field, Trace, fields, message, number, scratch};

#[derive(Debug, PartialEq)]
struct Line {
    text: String,
    priority: u64,
    /// Its file and line.
    tag: Option<SourceLocation>,
    name: Option<String>,
}

/// The lines of all threads. Each text has its own number, which is given only once within a state.
fn lines(trace: &Trace) -> Vec<Line> {
    let (mut texts, mut places, mut lines) = (HashMap::new(), HashMap::new(), Vec::new());
    for packet in trace.packets() {
        let sequence = number(packet, 10);
        if number(packet, 13).is_some_and(|flags| flags & 1 != 0) {
            texts.retain(|(of, _), _| *of != sequence);
        }
        for field in message(packet, 12).map(fields).unwrap_or_default() {
            match field {
                Field::Bytes(20, entry) => {
                    assert_eq!(texts.insert((sequence, number(entry, 1)), text(entry, 2)), None);
                }
                Field::Bytes(4, entry) => drop(places.insert((sequence, number(entry, 1)), place(entry))),
                _ => {}
            }
        }
        let Some(event) = message(packet, 11) else { continue };
        let Some(line) = message(event, 21) else { continue };
        lines.push(Line {
            text: texts[&(sequence, number(line, 2))].clone(),
            priority: number(line, 3).expect("a priority"),
            tag: number(line, 1).map(|iid| places[&(sequence, Some(iid))].clone()),
            name: message(event, 23).map(|name| String::from_utf8_lossy(name).into_owned()),
        });
    }
    lines
}

fn trace_of(session: Session, name: &str) -> Trace {
    let path = scratch(&format!("logs-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    Trace::read(&path)
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
            let trace = trace_of(session, &format!("{kind}-{logs}"));
            let line = |text: &str, priority, at, name: Option<&str>| Line {
                text: text.to_owned(),
                priority,
                tag: cfg!(not(tracebuf_small)).then(|| (file!().to_owned(), u64::from(first + at))),
                name: name.map(str::to_owned),
            };
            let long = "y".repeat(10_000);
            let expected = [
                line("found 1 of 2", 4, 0, Some("found 1 of 2")),
                line("failed code=-7 ok=false part=0.5", 6, 1, Some("failed")),
                line("name=x count=3", 3, 2, None),
                line(&format!("{long} list=[1, 2]"), 5, 3, Some(&long)),
            ];
            let lines = lines(&trace);
            if logs {
                assert_eq!(lines, expected, "{kind}");
            } else {
                assert_eq!(lines, [], "{kind}");
            }
            assert_eq!((trace.events(3), trace.losses()), (4, 0), "{kind}");
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
    let mut lines: Vec<_> = lines(&trace_of(session, "threads")).into_iter().map(|line| line.text).collect();
    lines.sort();
    let mut expected: Vec<_> = (0..600).map(|line| format!("{} {}", line / 200, line / 2 % 100)).collect();
    expected.sort();
    assert_eq!(lines, expected);
}
