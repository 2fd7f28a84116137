//! Lines of a log.

use crate::event_reader::{Reader, Seen, int, read};
use crate::model::Pace;
use crate::track_events::{CONFIG, MAIN, Ticks, setup};
use std::fmt;
use tracebuf::producer::track_event::*;

#[derive(Debug, PartialEq)]
struct Line {
    name: String,
    text: String,
    priority: u64,
    /// Where it comes from, if it says so.
    tag: Option<(String, u64)>,
}

/// All events, which are lines.
fn lines(reader: &Reader) -> Vec<Line> {
    let line = |event: &Seen| {
        let (_, message) = event.rest.iter().find(|(field, _)| *field == 21).expect("a line");
        let message = message.inside();
        let tag = int(&message, 1).map(|iid| (reader.names[&(4, iid)].clone(), reader.lines[&iid]));
        Line {
            name: event.name.clone(),
            text: event.text.clone().expect("a text"),
            priority: int(&message, 3).expect("a priority"),
            tag,
        }
    };
    reader.seen.iter().map(line).collect()
}

#[test]
fn lines_come_out_with_their_texts_priorities_and_tags() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let priorities = [
        LogPriority::Verbose,
        LogPriority::Debug,
        LogPriority::Info,
        LogPriority::Warn,
        LogPriority::Error,
        LogPriority::Fatal,
    ];
    for (priority, number) in priorities.into_iter().zip(2..) {
        let text = format!("text {number}");
        let message = LogMessage::new(priority, &text);
        tracer.log("plain", message);
        let message = message.source_location("main.rs", number);
        tracer.log_with("", message, |event| event.name("own").arg("number", number));
    }
    tracer.flush();
    let reader = read(model, 1);
    assert_eq!((reader.states, reader.undecodable), (1, 0));
    let expected = (2..8).flat_map(|number: u64| {
        let tag = cfg!(not(tracebuf_small)).then(|| ("main.rs".to_owned(), number));
        let line = |name: &str, tag| Line {
            name: name.to_owned(),
            text: format!("text {number}"),
            priority: number,
            tag,
        };
        [line("plain", None), line("own", tag)]
    });
    assert_eq!(lines(&reader), expected.collect::<Vec<_>>());
}

/// If the tables have no room for a line's place, only the place is left out.
#[test]
fn a_line_whose_place_finds_no_room_has_none() {
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer: Tracer<'_, _, 1> = Tracer::with_tables(writer, Ticks::default(), &MAIN, CONFIG);
    let message = LogMessage::new(LogPriority::Info, "text").source_location("main.rs", 1);
    tracer.log("name", message);
    tracer.flush();
    let line = lines(&read(model, 1)).pop().expect("a line");
    assert_eq!((line.name.as_str(), line.text.as_str(), line.tag), ("name", "text", None));
}

#[test]
fn a_line_whose_text_finds_no_room_is_left_out_and_counted() {
    let (model, _, writer) = setup(Pace::Absent(0), 4096);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    tracer.log("name", LogMessage::new(LogPriority::Info, "first"));
    tracer.log("name", LogMessage::new(LogPriority::Info, "x".repeat(5000)));
    let stats = tracer.stats();
    assert_eq!((stats.writer.dropped, stats.skipped), (1, 1));
    model.drain();
    tracer.log("name", LogMessage::new(LogPriority::Info, "last"));
    tracer.flush();
    model.drain();
    let lines = lines(&read(model, 1));
    assert_eq!(lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["first", "last"]);
}

#[test]
fn a_text_that_traces_or_panics_breaks_nothing() {
    struct Does<F>(F);
    impl<F: Fn()> fmt::Display for Does<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)();
            f.write_str("done")
        }
    }
    let (model, _, writer) = setup(Pace::Prompt, 65536);
    let tracer = Tracer::new(writer, Ticks::default(), &MAIN, CONFIG);
    let inner = LogMessage::new(LogPriority::Info, "inner");
    let traces = Does(|| tracer.log("inner", inner));
    tracer.log("outer", LogMessage::new(LogPriority::Info, traces));
    assert_eq!(tracer.stats().skipped, 1);
    let panics = Does(|| panic!("in the text"));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tracer.log("broken", LogMessage::new(LogPriority::Info, format_args!("half {panics}")));
    }));
    assert!(result.is_err());
    tracer.log("after", LogMessage::new(LogPriority::Info, "whole"));
    tracer.flush();
    let lines = lines(&read(model, 1));
    let texts: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.text.as_str())).collect();
    assert_eq!(texts, [("outer", "done"), ("after", "whole")]);
}
