//! The incremental state of a sequence: its names, defaults and whether they hold.

use std::collections::HashMap;
use std::sync::Arc;

use tracebuf::proto::fields::{
    debug_annotation, interned_data, interned_string, log_message_body, source_location,
    trace_packet_defaults, track_event_defaults,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

use super::tracks::text;
use super::value::Value;

/// Where in a program's source an event was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The file's path.
    pub file: Arc<str>,
    /// The line, from 1; 0 if the trace does not tell.
    pub line: u32,
    /// The function; empty if the trace does not tell.
    pub function: Arc<str>,
}

impl Source {
    pub(super) fn of(place: &[u8]) -> Self {
        Self {
            file: text(message(place, source_location::FILE_NAME).unwrap_or_default()),
            line: number(place, source_location::LINE_NUMBER).unwrap_or(0) as u32,
            function: text(message(place, source_location::FUNCTION_NAME).unwrap_or_default()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Whether packets that need the state can be read.
    pub(super) is_valid: bool,
    texts: HashMap<(u32, u64), Arc<str>>,
    sources: HashMap<u64, Source>,
    pub(super) clock: Option<u64>,
    pub(super) track: Option<u64>,
}

/// Arguments in one another that are read.
const MAX_DEPTH: u32 = 32;

impl Sequence {
    /// A state that begins.
    pub(super) fn begun() -> Self {
        Self { is_valid: true, ..Self::default() }
    }

    pub(super) fn set_defaults(&mut self, defaults: &[u8]) {
        self.clock = number(defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID).filter(|clock| *clock != 0);
        let event = message(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS).unwrap_or_default();
        self.track = number(event, track_event_defaults::TRACK_UUID);
    }

    /// Takes up names. Of two with the same number, the first counts.
    pub(super) fn intern(&mut self, names: &[u8]) {
        const _: () = assert!(
            interned_string::IID == log_message_body::IID && interned_string::NAME == log_message_body::BODY
        );
        for field in Fields::of(names) {
            let FieldValue::Bytes(entry) = field.value else { continue };
            let iid = number(entry, interned_string::IID).unwrap_or(0);
            match field.number {
                interned_data::SOURCE_LOCATIONS => {
                    self.sources.entry(iid).or_insert_with(|| Source::of(entry));
                }
                interned_data::EVENT_CATEGORIES
                | interned_data::EVENT_NAMES
                | interned_data::DEBUG_ANNOTATION_NAMES
                | interned_data::DEBUG_ANNOTATION_STRING_VALUES
                | interned_data::LOG_MESSAGE_BODY => {
                    let name = || text(message(entry, interned_string::NAME).unwrap_or_default());
                    self.texts.entry((field.number, iid)).or_insert_with(name);
                }
                _ => {}
            }
        }
    }

    pub(super) fn text(&self, field: u32, iid: u64) -> Option<Arc<str>> {
        self.texts.get(&(field, iid)).cloned()
    }

    pub(super) fn source(&self, iid: u64) -> Option<Source> {
        self.sources.get(&iid).cloned()
    }

    /// An argument: its name and value. `None` if it refers to a name that was not told.
    pub(super) fn argument(&self, told: &[u8], depth: u32) -> Option<(Arc<str>, Value)> {
        let (mut name, mut value) = (Arc::default(), None);
        let (mut entries, mut values) = (Vec::new(), Vec::new());
        for field in Fields::of(told) {
            value = match (field.number, field.value) {
                (debug_annotation::NAME_IID, FieldValue::Number(iid)) => {
                    name = self.text(interned_data::DEBUG_ANNOTATION_NAMES, iid)?;
                    continue;
                }
                (debug_annotation::NAME, FieldValue::Bytes(bytes)) => {
                    name = text(bytes);
                    continue;
                }
                (debug_annotation::DICT_ENTRIES, FieldValue::Bytes(entry)) if depth < MAX_DEPTH => {
                    entries.push(self.argument(entry, depth + 1)?);
                    continue;
                }
                (debug_annotation::ARRAY_VALUES, FieldValue::Bytes(entry)) if depth < MAX_DEPTH => {
                    values.push(self.argument(entry, depth + 1)?.1);
                    continue;
                }
                (debug_annotation::BOOL_VALUE, FieldValue::Number(number)) => Some(Value::Bool(number != 0)),
                (debug_annotation::UINT_VALUE, FieldValue::Number(number)) => Some(Value::Uint(number)),
                (debug_annotation::INT_VALUE, FieldValue::Number(number)) => Some(Value::Int(number as i64)),
                (debug_annotation::POINTER_VALUE, FieldValue::Number(number)) => Some(Value::Pointer(number)),
                (debug_annotation::DOUBLE_VALUE, FieldValue::Fixed(bits)) => {
                    Some(Value::Double(f64::from_bits(bits)))
                }
                (debug_annotation::STRING_VALUE, FieldValue::Bytes(bytes)) => {
                    Some(Value::String(text(bytes)))
                }
                (debug_annotation::LEGACY_JSON_VALUE, FieldValue::Bytes(bytes)) => {
                    Some(Value::Json(text(bytes)))
                }
                (debug_annotation::STRING_VALUE_IID, FieldValue::Number(iid)) => {
                    Some(Value::String(self.text(interned_data::DEBUG_ANNOTATION_STRING_VALUES, iid)?))
                }
                _ => continue,
            };
        }
        let composed = if values.is_empty() { Value::Dict(entries) } else { Value::Array(values) };
        Some((name, value.unwrap_or(composed)))
    }

    /// Strings in one field and references to interned ones in another, with commas between them.
    pub(super) fn joined(&self, event: &[u8], strings: u32, iids: u32, interned: u32) -> Option<Arc<str>> {
        let numbers = Fields::of(event).filter(|field| field.number == iids);
        let known = numbers.filter_map(|field| match field.value {
            FieldValue::Number(iid) => self.text(interned, iid),
            _ => None,
        });
        let mut all: Vec<Arc<str>> = known.chain(messages(event, strings).map(text)).collect();
        if all.len() > 1 { Some(all.join(",").into()) } else { all.pop() }
    }
}
