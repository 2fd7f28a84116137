//! Fields of spans and events: kept, merged and written as annotations.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use std::mem;
use std::ops::Range;

use tracebuf::producer::track_event::{Event, Value};
use tracing_core::field::{Field, Visit};

#[derive(Clone, Debug)]
enum FieldValue {
    Plain(Value<'static>),
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
        let take = |spares: &mut [Self; SPARE]| spares.iter_mut().find(|it| it.has_memory()).map(mem::take);
        let new = SPARES.try_with(|spares| take(&mut spares.borrow_mut())).ok().flatten();
        let mut new = new.unwrap_or_default();
        new.list.reserve(fields);
        new
    }

    pub(super) fn leave(mut self) {
        self.clear(SPARE_TEXT);
        // What there is no place for, or no thread any more, is dropped while nothing is borrowed: an allocator may
        // enter spans.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            spares.iter_mut().find(|it| !it.has_memory()).map(|place| mem::swap(place, &mut self))
        });
    }

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

    fn keep_plain(&mut self, field: &Field, value: impl Into<Value<'static>>) {
        self.keep(field, FieldValue::Plain(value.into()));
    }

    fn put(&mut self, field: KeptField) {
        match self.list.iter_mut().find(|known| known.name == field.name) {
            Some(known) => *known = field,
            None => self.list.push(field),
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut String)) -> FieldValue {
        let start = self.text.len();
        write(&mut self.text);
        FieldValue::Text(start..self.text.len())
    }

    pub(super) fn text_at(&self, place: &Range<usize>) -> &str {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// The fields in order, with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.list.iter().map(|field| (field.name, self.value(field)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes a field that is a whole number off the list.
    pub(super) fn take_number(&mut self, name: &str) -> Option<u64> {
        let number = |field: &KeptField| match field.value {
            FieldValue::Plain(Value::Uint(number)) if field.name == name => Some(number),
            _ => None,
        };
        let (at, number) = self.list.iter().enumerate().find_map(|(at, field)| Some((at, number(field)?)))?;
        self.list.remove(at);
        Some(number)
    }

    /// A field that is a text; empty if there is none.
    pub(super) fn text_of(&self, name: &str) -> &str {
        match self.list.iter().find(|field| field.name == name).map(|field| &field.value) {
            Some(FieldValue::Text(place)) => self.text_at(place),
            _ => "",
        }
    }

    /// Takes a field that is a text off the list; its place is empty if there is none.
    pub(super) fn take_text(&mut self, name: &str) -> Range<usize> {
        let is_it = |field: &KeptField| field.name == name && matches!(field.value, FieldValue::Text(_));
        match self.list.iter().position(is_it).map(|at| self.list.remove(at).value) {
            Some(FieldValue::Text(place)) => place,
            _ => 0..0,
        }
    }

    fn value<'f>(&'f self, field: &'f KeptField) -> Value<'f> {
        match &field.value {
            FieldValue::Plain(value) => *value,
            FieldValue::Text(place) => Value::Str(self.text_at(place)),
        }
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
        for field in self.list.iter().filter(|field| field.change >= change) {
            event.arg(field.name, self.value(field));
        }
    }

    /// Writes all as `name=value`, the first after `between`.
    pub(super) fn write_pairs(&self, mut between: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.iter() {
            write!(f, "{between}{name}=")?;
            match value {
                Value::Bool(value) => write!(f, "{value}"),
                Value::Uint(value) | Value::Pointer(value) => write!(f, "{value}"),
                Value::Int(value) => write!(f, "{value}"),
                Value::Double(value) => write!(f, "{value}"),
                Value::Str(value) => f.write_str(value),
            }?;
            between = " ";
        }
        Ok(())
    }
}

impl Visit for KeptFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep_plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep_plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep_plain(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.keep_plain(field, value),
            (_, Ok(value)) => self.keep_plain(field, value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.keep_plain(field, value),
            Err(_) => self.record_debug(field, &value),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep_plain(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = self.write(|text| text.push_str(value));
        self.keep(field, text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A text that fails to format ends where it failed.
        let text = self.write(|text| {
            let _ = write!(text, "{value:?}");
        });
        self.keep(field, text);
    }
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
