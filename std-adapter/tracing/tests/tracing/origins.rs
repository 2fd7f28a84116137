//! Where in the program spans and events come from.

use std::collections::BTreeMap;

use tracebuf_session::{Recorder, Session};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::Dispatch;
use tracing_subscriber::prelude::*;

use crate::trace::{Field, Trace, fields, message, number, scratch};

/// What one event says of itself: its categories, file and line.
type Origin = (Vec<String>, Option<SourceLocation>);
pub(crate) type SourceLocation = (String, u64);

pub(crate) fn text(bytes: &[u8], field: u32) -> String {
    String::from_utf8(message(bytes, field).expect("a text").to_vec()).expect("a text")
}

pub(crate) fn place(location: &[u8]) -> SourceLocation {
    (text(location, 2), number(location, 4).expect("a line"))
}

/// Each slice's begin and instant, of a single thread. On 32-bit targets places are written out.
fn origins(trace: &Trace) -> Vec<Origin> {
    let (mut categories, mut places) = (BTreeMap::new(), BTreeMap::new());
    let mut origins = Vec::new();
    for packet in trace.packets() {
        for field in message(packet, 12).map(fields).unwrap_or_default() {
            match field {
                Field::Bytes(1, entry) => drop(categories.insert(number(entry, 1), text(entry, 2))),
                Field::Bytes(4, entry) => drop(places.insert(number(entry, 1), place(entry))),
                _ => {}
            }
        }
        let event = message(packet, 11).filter(|event| matches!(number(event, 9), Some(1 | 3)));
        if let Some(event) = event {
            let category = |field: &Field<'_>| match field {
                Field::Number(3, iid) => Some(categories[&Some(*iid)].clone()),
                _ => None,
            };
            let interned = number(event, 34).map(|iid| places[&Some(iid)].clone());
            let place = interned.or_else(|| message(event, 33).map(place));
            origins.push((fields(event).iter().filter_map(category).collect(), place));
        }
    }
    origins
}

fn recorded(kind: &str, all: bool, make: impl FnOnce(Recorder) -> Dispatch) -> Vec<Origin> {
    let session = Session::builder().fast_clock().start().expect("a session");
    tracing::dispatcher::with_default(&make(session.recorder()), work);
    let path = scratch(&format!("origins-{kind}-{all}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    origins(&Trace::read(&path))
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
        let categories = [level, target].map(str::to_owned)[..if all { 2 } else { 1 }].to_vec();
        (categories, all.then(|| (file!().to_owned(), u64::from(line))))
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
