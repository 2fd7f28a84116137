//! Events as instants, and as lines of a log.

use std::cell::RefCell;
use std::fmt::{self, Debug};

use tracebuf::producer::track_event::{Event, LogMessage, LogPriority};
use tracing_core::field::{Field, Visit};
use tracing_core::{Level, Metadata};

use super::fields::{KeptFields, format};
use super::frontend::Frontend;

/// Records an instant, named by its message, and a log line if those are wanted.
pub(super) fn instant(frontend: &Frontend, event: &tracing_core::Event<'_>) {
    if !frontend.recorder.is_on() {
        return;
    }
    let metadata = event.metadata();
    with_fields(event, |fields| {
        // Without a message, it is named by its place.
        let name = if fields.message.is_empty() { metadata.name() } else { "" };
        frontend.recorder.with(|tracer| {
            if frontend.logs {
                tracer.log_with(name, line(metadata, fields), |event| {
                    describe(frontend, metadata, fields, event)
                });
            } else {
                tracer.track().instant_with(name, |event| describe(frontend, metadata, fields, event));
            }
        });
    });
}

fn describe<'x, 'e, 'w, 'a>(
    frontend: &Frontend,
    metadata: &'static Metadata<'static>,
    fields: &EventFields,
    event: &'x mut Event<'e, 'w, 'a>,
) -> &'x mut Event<'e, 'w, 'a> {
    if !fields.message.is_empty() {
        event.name(&fields.message);
    }
    frontend.describe(metadata, event);
    fields.rest.annotate(event);
    event
}

fn line<'a>(metadata: &Metadata<'a>, fields: &EventFields) -> LogMessage<'a, impl fmt::Display> {
    let message = LogMessage::new(priority(metadata.level()), LogLine(fields));
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
struct LogLine<'f>(&'f EventFields);

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventFields { message, rest } = self.0;
        f.write_str(message)?;
        let between = if message.is_empty() { "" } else { " " };
        rest.write_pairs(between, f)
    }
}

/// The fields of an event, formatted before it is written, because formatting a value may itself trace.
#[derive(Default)]
struct EventFields {
    message: String,
    rest: KeptFields,
}

impl Visit for EventFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.rest.record_bool(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.rest.record_u64(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.rest.record_i64(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.rest.record_f64(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.rest.record_str(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            format(value, &mut self.message);
        } else {
            self.rest.record_debug(field, value);
        }
    }
}

thread_local! {
    /// The memory of the last event's fields, for the next one.
    static SCRATCH: RefCell<EventFields> = RefCell::default();
}

/// The most bytes that a thread keeps for a message, and for the texts of its fields: a larger event is seldom followed
/// by another.
const KEPT_TEXT: usize = 4096;

/// Passes an event's fields to `f`, in memory that is reused, unless the event occurs within another.
fn with_fields(event: &tracing_core::Event<'_>, f: impl FnOnce(&EventFields)) {
    let mut fields = SCRATCH.try_with(|scratch| scratch.take()).unwrap_or_default();
    event.record(&mut fields);
    f(&fields);
    fields.rest.clear(KEPT_TEXT);
    fields.message.clear();
    fields.message.shrink_to(KEPT_TEXT);
    let _ = SCRATCH.try_with(|scratch| scratch.replace(fields));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceSubscriber;
    use tracebuf_session::Session;

    #[test]
    fn of_a_large_event_s_fields_a_thread_keeps_little_memory() {
        let session = Session::builder().start().expect("a session");
        tracing::subscriber::with_default(TraceSubscriber::new(session.recorder()), || {
            let large = "x".repeat(1 << 20);
            tracing::info!(large, "{large}");
            SCRATCH.with_borrow(|kept| {
                assert!(kept.message.capacity() <= KEPT_TEXT);
                assert!(kept.rest.spare_text().is_some_and(|room| room <= KEPT_TEXT));
            });
            tracing::info!("small");
            SCRATCH.with_borrow(|kept| assert!(kept.message.capacity() > 0, "it is used again"));
        });
    }
}
