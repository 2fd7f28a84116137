//! Fields of spans and events, as annotations.

use std::cell::RefCell;
use std::fmt::{Debug, Write};

use tracebuf::producer::track_event::{Event, Value};
use tracing_core::Level;
use tracing_core::field::{Field, Visit};

/// A level's name, as a category.
pub(super) fn category(level: &Level) -> &'static str {
    level.as_str()
}

/// A value kept until a slice begins.
#[derive(Clone, Debug)]
enum Kept {
    Bool(bool),
    Uint(u64),
    Int(i64),
    Double(f64),
    Text(String),
}

#[derive(Clone, Debug)]
struct KeptField {
    name: &'static str,
    value: Kept,
    /// Which of the span's changes it came with; 0 for what it began with.
    change: u64,
}

/// The fields of a span: those of its slices to come.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptFields(Vec<KeptField>);

impl KeptFields {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn keep(&mut self, field: &Field, value: Kept) {
        self.put(KeptField { name: field.name(), value, change: 0 });
    }

    fn put(&mut self, field: KeptField) {
        match self.0.iter_mut().find(|known| known.name == field.name) {
            Some(known) => *known = field,
            None => self.0.push(field),
        }
    }

    /// Takes over what was recorded later, as a change of this number.
    pub(super) fn merge(&mut self, later: Self, change: u64) {
        for field in later.0 {
            self.put(KeptField { change, ..field });
        }
    }

    pub(super) fn annotate(&self, event: &mut Event<'_, '_, '_>) {
        self.annotate_since(0, event);
    }

    /// Those that came with this change or a later one.
    pub(super) fn annotate_since(&self, change: u64, event: &mut Event<'_, '_, '_>) {
        for KeptField { name, value, .. } in self.0.iter().filter(|field| field.change >= change) {
            let value = match value {
                Kept::Bool(value) => Value::Bool(*value),
                Kept::Uint(value) => Value::Uint(*value),
                Kept::Int(value) => Value::Int(*value),
                Kept::Double(value) => Value::Double(*value),
                Kept::Text(value) => Value::Str(value),
            };
            event.arg(name, value);
        }
    }
}

impl Visit for KeptFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, Kept::Bool(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, Kept::Uint(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, Kept::Int(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, Kept::Double(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, Kept::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        format(value, &mut text);
        self.keep(field, Kept::Text(text));
    }
}

/// A text that fails to format ends where it failed.
fn format(value: &dyn Debug, text: &mut String) {
    let _ = write!(text, "{value:?}");
}

/// The fields of an event, formatted before it is written: what formats a value may itself trace.
#[derive(Default)]
pub(super) struct EventFields {
    pub(super) message: String,
    pub(super) rest: KeptFields,
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

/// Bytes of a message's memory that a thread keeps: one that is larger is seldom followed by another.
const KEPT_MESSAGE: usize = 4096;

/// Hands an event's fields to `f`; in memory that is used again, unless an event comes from within one.
pub(super) fn with_fields(event: &tracing_core::Event<'_>, f: impl FnOnce(&EventFields)) {
    let mut fields = SCRATCH.try_with(|scratch| scratch.take()).unwrap_or_default();
    event.record(&mut fields);
    f(&fields);
    fields.rest.0.clear();
    fields.message.clear();
    fields.message.shrink_to(KEPT_MESSAGE);
    let _ = SCRATCH.try_with(|scratch| scratch.replace(fields));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::tracing_layer::TraceSubscriber;

    #[test]
    fn of_a_large_event_s_fields_a_thread_keeps_little_memory() {
        let session = Session::builder().start().expect("a session");
        tracing::subscriber::with_default(TraceSubscriber::new(session.recorder()), || {
            let large = "x".repeat(1 << 20);
            tracing::info!(large, "{large}");
            SCRATCH.with_borrow(|kept| {
                assert!(kept.message.capacity() <= KEPT_MESSAGE);
                assert!(kept.rest.is_empty());
            });
            tracing::info!("small");
            SCRATCH.with_borrow(|kept| assert!(kept.message.capacity() > 0, "it is used again"));
        });
    }
}
