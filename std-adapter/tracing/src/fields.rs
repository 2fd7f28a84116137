//! Fields of spans and events: kept, merged and written as annotations.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use std::mem;
use std::ops::Range;

use tracebuf::producer::track_event::{Event, Value};
use tracing_core::field::{Field, Visit};

/// A value kept until a slice begins.
#[derive(Clone, Debug)]
enum FieldValue {
    Bool(bool),
    Uint(u64),
    Int(i64),
    Double(f64),
    /// Its range in the text of all fields.
    Text(Range<usize>),
}

#[derive(Clone, Debug)]
struct KeptField {
    name: &'static str,
    value: FieldValue,
    /// The number of the span's change that it came with; 0 if the span began with it.
    change: u64,
}

/// The fields of a span, for its slices to come.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptFields {
    list: Vec<KeptField>,
    /// All texts, one after the other, so that many short ones take one piece of memory.
    text: String,
}

/// Bytes of replaced texts that may stay behind, in addition to as many as the other texts have.
const LEFT_BEHIND: usize = 256;

/// Nested spans, for each thread, whose fields get memory that was used before.
const SPARE: usize = 4;
/// The most bytes that such memory has for texts.
const SPARE_TEXT: usize = 512;

thread_local! {
    /// Memory of the fields of spans that are gone, for the next ones.
    static SPARES: RefCell<[KeptFields; SPARE]> = RefCell::default();
}

impl KeptFields {
    /// With room for so many, in memory of a span that is gone if there is any.
    pub(super) fn with_room(fields: usize) -> Self {
        let mut new = SPARES.try_with(|spares| take_spare(&mut *spares.borrow_mut())).unwrap_or_default();
        new.list.reserve(fields);
        new
    }

    /// Leaves its memory to later spans.
    pub(super) fn leave(mut self) {
        self.clear(SPARE_TEXT);
        // What there is no place for, or no thread any more, is dropped while nothing is borrowed: an allocator may
        // enter spans.
        let _ = SPARES.try_with(|spares| leave_spare(&mut *spares.borrow_mut(), &mut self));
    }

    /// Bytes of memory that its texts have, where it has no fields.
    #[cfg(test)]
    pub(super) fn spare_text(&self) -> Option<usize> {
        self.list.is_empty().then_some(self.text.capacity())
    }

    fn has_memory(&self) -> bool {
        self.list.capacity() > 0
    }

    pub(super) fn clear(&mut self, most: usize) {
        self.list.clear();
        self.text.clear();
        self.text.shrink_to(most);
    }

    fn keep(&mut self, field: &Field, value: FieldValue) {
        self.put(KeptField { name: field.name(), value, change: 0 });
    }

    fn put(&mut self, field: KeptField) {
        match self.list.iter_mut().find(|known| known.name == field.name) {
            Some(known) => *known = field,
            None => self.list.push(field),
        }
    }

    /// Appends to the texts, and returns where.
    fn write(&mut self, write: impl FnOnce(&mut String)) -> FieldValue {
        let start = self.text.len();
        write(&mut self.text);
        FieldValue::Text(start..self.text.len())
    }

    fn text_at(&self, place: &Range<usize>) -> &str {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// The value of another's field, with its text copied to these.
    fn value_of(&mut self, other: &Self, field: &KeptField) -> FieldValue {
        match &field.value {
            FieldValue::Text(place) => self.write(|text| text.push_str(other.text_at(place))),
            value => value.clone(),
        }
    }

    /// Takes over what was recorded later, as the change with this number.
    pub(super) fn merge(&mut self, later: &Self, change: u64) {
        for field in &later.list {
            let value = self.value_of(later, field);
            self.put(KeptField { value, change, ..*field });
        }
        self.tidy();
    }

    /// Frees what replaced texts take, when that is most of the text.
    fn tidy(&mut self) {
        let kept =
            |field: &KeptField| if let FieldValue::Text(place) = &field.value { place.len() } else { 0 };
        if self.text.len() <= 2 * self.list.iter().map(kept).sum::<usize>() + LEFT_BEHIND {
            return;
        }
        let old = mem::take(self);
        for field in &old.list {
            let value = self.value_of(&old, field);
            self.list.push(KeptField { value, ..*field });
        }
    }

    pub(super) fn annotate(&self, event: &mut Event<'_, '_, '_>) {
        self.annotate_since(0, event);
    }

    /// Annotates with those that came with this change or a later one.
    pub(super) fn annotate_since(&self, change: u64, event: &mut Event<'_, '_, '_>) {
        for KeptField { name, value, .. } in self.list.iter().filter(|field| field.change >= change) {
            let value = match value {
                FieldValue::Bool(value) => Value::Bool(*value),
                FieldValue::Uint(value) => Value::Uint(*value),
                FieldValue::Int(value) => Value::Int(*value),
                FieldValue::Double(value) => Value::Double(*value),
                FieldValue::Text(place) => Value::Str(self.text_at(place)),
            };
            event.arg(name, value);
        }
    }

    /// Writes all as `name=value`, the first after `between`.
    pub(super) fn write_pairs(&self, mut between: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for KeptField { name, value, .. } in &self.list {
            write!(f, "{between}{name}=")?;
            match value {
                FieldValue::Bool(value) => write!(f, "{value}"),
                FieldValue::Uint(value) => write!(f, "{value}"),
                FieldValue::Int(value) => write!(f, "{value}"),
                FieldValue::Double(value) => write!(f, "{value}"),
                FieldValue::Text(place) => f.write_str(self.text_at(place)),
            }?;
            between = " ";
        }
        Ok(())
    }
}

fn take_spare(spares: &mut [KeptFields]) -> KeptFields {
    spares.iter_mut().find(|spare| spare.has_memory()).map(mem::take).unwrap_or_default()
}

fn leave_spare(spares: &mut [KeptFields], gone: &mut KeptFields) {
    if let Some(place) = spares.iter_mut().find(|spare| !spare.has_memory()) {
        mem::swap(place, gone);
    }
}

impl Visit for KeptFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, FieldValue::Bool(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, FieldValue::Uint(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, FieldValue::Int(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, FieldValue::Double(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = self.write(|text| text.push_str(value));
        self.keep(field, text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = self.write(|text| format(value, text));
        self.keep(field, text);
    }
}

/// A text that fails to format ends where it failed.
pub(super) fn format(value: &dyn Debug, text: &mut String) {
    let _ = write!(text, "{value:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceSubscriber;
    use tracebuf_session::Session;

    #[test]
    fn of_texts_that_were_replaced_little_is_kept_and_those_that_were_not_stay() {
        let field = |name, fields: &mut KeptFields, text: &str| {
            let value = fields.write(|all| all.push_str(text));
            fields.put(KeptField { name, value, change: 0 });
        };
        let mut fields = KeptFields::default();
        field("first", &mut fields, "stays");
        for change in 1..=1000 {
            let mut later = KeptFields::default();
            field("progress", &mut later, &format!("{change} of a thousand"));
            fields.merge(&later, change);
            assert!(fields.text.len() < 2 * LEFT_BEHIND);
        }
        let told = |field: &KeptField| {
            let FieldValue::Text(place) = &field.value else { panic!("a text") };
            (field.name, fields.text_at(place).to_owned(), field.change)
        };
        let expected =
            [("first", "stays".to_owned(), 0), ("progress", "1000 of a thousand".to_owned(), 1000)];
        assert_eq!(fields.list.iter().map(told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_gone_spans_fields_a_thread_keeps_little_memory_for_those_to_come() {
        let session = Session::builder().start().expect("a session");
        let spares = || SPARES.with_borrow(|all| all.iter().filter(|spare| spare.has_memory()).count());
        tracing::subscriber::with_default(TraceSubscriber::new(session.recorder()), || {
            let large = "x".repeat(1 << 20);
            let within = (0..SPARE + 2).map(|_| tracing::info_span!("span", large)).collect::<Vec<_>>();
            assert_eq!(spares(), 0);
            drop(within);
            assert_eq!(spares(), SPARE);
            SPARES.with_borrow(|all| {
                assert!(all.iter().all(|spare| spare.list.is_empty() && spare.text.capacity() <= SPARE_TEXT));
            });
            let next = tracing::info_span!("span", small = 1);
            assert_eq!(spares(), SPARE - 1, "it is used again");
            drop(next);
            assert_eq!(spares(), SPARE);
        });
    }
}
