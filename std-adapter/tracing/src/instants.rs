//! How events become instants.

use std::fmt;

use tracebuf::producer::track_event::{Event, LogMessage, LogPriority};
use tracing_core::{Level, Metadata};

use super::fields::{EventFields, with_fields};
use super::origin::tell;
use super::owner::Owner;

/// Records an instant, named by its message, and a log line if those are wanted.
pub(super) fn instant(owner: &Owner, event: &tracing_core::Event<'_>) {
    if !owner.recorder.is_on() {
        return;
    }
    let metadata = event.metadata();
    with_fields(event, |fields| {
        // Without a message, it is named by its place.
        let name = if fields.message.is_empty() { metadata.name() } else { "" };
        owner.recorder.with(|tracer| {
            if owner.logs {
                tracer
                    .log_with(name, line(metadata, fields), |event| describe(owner, metadata, fields, event));
            } else {
                tracer.track().instant_with(name, |event| describe(owner, metadata, fields, event));
            }
        });
    });
}

fn describe<'x, 'e, 'w, 'a>(
    owner: &Owner,
    metadata: &'static Metadata<'static>,
    fields: &EventFields,
    event: &'x mut Event<'e, 'w, 'a>,
) -> &'x mut Event<'e, 'w, 'a> {
    if !fields.message.is_empty() {
        event.name(&fields.message);
    }
    tell(metadata, owner.origins, event);
    fields.rest.annotate(event);
    event
}

fn line<'a>(metadata: &Metadata<'a>, fields: &EventFields) -> LogMessage<'a, impl fmt::Display> {
    let message = LogMessage::new(priority(metadata.level()), Line(fields));
    match (metadata.file(), metadata.line()) {
        (Some(file), Some(line)) => message.source_location(file, line),
        _ => message,
    }
}

fn priority(level: &Level) -> LogPriority {
    match *level {
        Level::TRACE => LogPriority::Verbose,
        Level::DEBUG => LogPriority::Debug,
        Level::INFO => LogPriority::Info,
        Level::WARN => LogPriority::Warn,
        Level::ERROR => LogPriority::Error,
    }
}

/// The message, followed by the fields.
struct Line<'f>(&'f EventFields);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventFields { message, rest } = self.0;
        f.write_str(message)?;
        let between = if message.is_empty() { "" } else { " " };
        rest.write_pairs(between, f)
    }
}
