//! Events as instants, and as lines of a log.

use std::cell::RefCell;
use std::fmt;

use tracebuf::producer::track_event::{Event, LogMessage, LogPriority, details};
use tracing_core::{Level, Metadata};

use super::event_name::EventName;
use super::fields::KeptFields;
use super::frontend::Frontend;
use super::origin::{LogOrigin, Origin};

/// Records an instant, named by its message if it has one, and a log line if those are wanted; and the values of counters.
pub(super) fn instant(frontend: &Frontend, event: &tracing_core::Event<'_>) {
    if !frontend.recorder.is_on() {
        return;
    }
    let metadata = event.metadata();
    with_fields(event, |message, fields, record| {
        let mut is_only_counters = message.is_empty();
        for (field, value) in fields.iter() {
            is_only_counters &= frontend.counters.take(&frontend.recorder, field, value);
        }
        if is_only_counters && !fields.is_empty() {
            return;
        }
        let origin = match record {
            Some(record) => Origin::of_record(record, fields),
            None => Origin::of(metadata),
        };
        let name = EventName::of(metadata, message, fields);
        let describe = |event: &mut Event<'_, '_, '_>| {
            name.add_to(event, frontend.origins);
            event.category(metadata.level().as_str());
            if frontend.origins {
                origin.describe(event);
            }
            fields.annotate(event);
        };
        frontend.recorder.with(|tracer| {
            if frontend.logs {
                tracer.log_with(name.fixed, line(metadata, &origin, message, fields), details(describe));
            } else {
                tracer.track().instant_with(name.fixed, details(describe));
            }
        });
    });
}

fn line<'f>(
    metadata: &Metadata<'_>,
    origin: &Origin<'_>,
    message: &'f str,
    fields: &'f KeptFields,
) -> LogMessage<'static, LogLine<'f>> {
    let priority = match *metadata.level() {
        Level::TRACE => LogPriority::Verbose,
        Level::DEBUG => LogPriority::Debug,
        Level::INFO => LogPriority::Info,
        Level::WARN => LogPriority::Warn,
        Level::ERROR => LogPriority::Error,
    };
    let message = LogMessage::new(priority, LogLine(message, fields));
    match origin.tag() {
        Some((file, line)) => message.source_location(file, line),
        None => message,
    }
}

/// The message, followed by the fields.
struct LogLine<'f>(&'f str, &'f KeptFields);

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(message, fields) = self;
        f.write_str(message)?;
        fields.write_pairs(if message.is_empty() { "" } else { " " }, f)
    }
}

thread_local! {
    /// The memory of the last event's fields, for the next one.
    static SCRATCH: RefCell<KeptFields> = RefCell::default();
}

/// The most bytes that a thread keeps for the texts of an event: a larger one is seldom followed by another.
const KEPT_TEXT: usize = 8192;

/// Passes an event's message and its other fields to `f`, in memory that is reused, unless the event occurs within
/// another. Formatted before the event is written, because formatting a value may itself trace.
fn with_fields(event: &tracing_core::Event<'_>, f: impl FnOnce(&str, &KeptFields, Option<&LogOrigin>)) {
    let mut fields = SCRATCH.try_with(|scratch| scratch.take()).unwrap_or_default();
    event.record(&mut fields);
    let message = fields.take_text("message");
    let record = LogOrigin::take(event.metadata(), &mut fields);
    f(fields.text_at(&message), &fields, record.as_ref());
    fields.clear(KEPT_TEXT);
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
                assert!(kept.spare_text().is_some_and(|room| room <= KEPT_TEXT));
            });
            tracing::info!("small");
            SCRATCH.with_borrow(|kept| assert!(kept.spare_text() > Some(0), "it is used again"));
        });
    }
}
