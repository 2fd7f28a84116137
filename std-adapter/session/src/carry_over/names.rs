//! Names that a sequence has numbers for, and events written so that they need none.

use tracebuf::proto::Sink;
use tracebuf::proto::fields::{debug_annotation, interned_data, interned_string, track_event};
use tracebuf::proto::reader::{FieldValue, Fields, message, number};

use super::limits;

/// Interned data since the state's beginning.
#[derive(Clone, Default)]
pub(super) struct Names {
    /// As it was written, message after message: also what nothing here looks for.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// How many of them are texts of log lines.
    lines: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Its field of `InternedData`.
    kind: u32,
    iid: u64,
    at: u32,
    len: u32,
}

/// `DebugAnnotation`, as Perfetto's SDK has it.
mod annotation {
    /// Message: `DebugAnnotation`, repeated: the entries of a dictionary.
    pub(super) const DICT_ENTRIES: u32 = 11;
    /// Message: `DebugAnnotation`, repeated: the values of an array.
    pub(super) const ARRAY_VALUES: u32 = 12;
    /// Varint: interned text.
    pub(super) const STRING_VALUE_IID: u32 = 17;
}

/// Field of `InternedData` for texts of annotations.
const ANNOTATION_TEXTS: u32 = 29;

/// Values of further counters, which come with some events of Perfetto's SDK and count from one to the next.
const EXTRA_COUNTERS: [u32; 4] = [12, 31, 45, 46];

/// Texts of log lines that stay.
const LINES: usize = 16;

/// How deep annotations may lie in each other.
const DEPTH: u32 = 8;

impl Names {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.lines = 0;
    }

    /// As it was written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds `InternedData`; false if that is too much.
    pub(super) fn add(&mut self, data: &[u8]) -> bool {
        if self.is_half_full() && self.lines > LINES {
            self.drop_lines();
        }
        let at = self.bytes.len();
        if at + data.len() > limits::STATE || self.entries.len() > limits::NAMES {
            return false;
        }
        self.bytes.extend_from_slice(data);
        for field in Fields::of(data) {
            if let FieldValue::Bytes(entry) = field.value
                && let Some(iid) = number(entry, interned_string::IID)
            {
                let at = at + (entry.as_ptr() as usize - data.as_ptr() as usize);
                let (at, len) = (at as u32, entry.len() as u32);
                self.entries.push(Entry { kind: field.number, iid, at, len });
                self.lines += usize::from(field.number == interned_data::LOG_MESSAGE_BODY);
            }
        }
        true
    }

    fn is_half_full(&self) -> bool {
        self.bytes.len() > limits::STATE / 2 || self.entries.len() > limits::NAMES / 2
    }

    /// Drops texts of log lines but for the last ones: mostly it is only the next event that refers to one, and while a
    /// state lasts there is no end of them.
    fn drop_lines(&mut self) {
        let mut last = Vec::with_capacity(self.bytes.len());
        self.write_last(&mut last);
        self.clear();
        self.add(&last);
    }

    /// Appends what was written, of log lines only the last ones.
    pub(super) fn write_last(&self, out: &mut Vec<u8>) {
        let mut old = self.lines.saturating_sub(LINES);
        for field in Fields::of(&self.bytes) {
            if field.number == interned_data::LOG_MESSAGE_BODY && old > 0 {
                old -= 1;
            } else {
                out.extend_from_slice(field.whole);
            }
        }
    }

    fn find(&self, kind: u32, iid: u64) -> Option<&[u8]> {
        let is = |entry: &&Entry| entry.kind == kind && entry.iid == iid;
        // This project's writers count from 1.
        let guess = self.entries.get((iid as usize).wrapping_sub(1)).filter(is);
        let entry = guess.or_else(|| self.entries.iter().rev().find(is))?;
        self.bytes.get(entry.at as usize..)?.get(..entry.len as usize)
    }

    fn text(&self, kind: u32, iid: u64) -> Option<&[u8]> {
        message(self.find(kind, iid)?, interned_string::NAME)
    }

    /// The event with its names in place of their numbers, without its track. If it is too long, its arguments are
    /// missing.
    pub(super) fn spell_out(&self, event: &[u8]) -> Vec<u8> {
        let spelt = self.event(event, true);
        if spelt.len() <= limits::SLICE { spelt } else { self.event(event, false) }
    }

    fn event(&self, event: &[u8], with_arguments: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(event.len() + 64);
        for field in Fields::of(event) {
            let put = |out: &mut Vec<u8>, of: u32, text: Option<&[u8]>| {
                let Ok(()) = text.map_or(Ok(()), |text| out.bytes(of, text));
            };
            match (field.number, field.value) {
                (track_event::TRACK_UUID, _) => {}
                (track_event::NAME_IID, FieldValue::Number(iid)) => {
                    put(&mut out, track_event::NAME, self.text(interned_data::EVENT_NAMES, iid));
                }
                (track_event::CATEGORY_IIDS, FieldValue::Number(iid)) => {
                    put(&mut out, track_event::CATEGORIES, self.text(interned_data::EVENT_CATEGORIES, iid));
                }
                (track_event::SOURCE_LOCATION_IID, FieldValue::Number(iid)) => {
                    put(
                        &mut out,
                        track_event::SOURCE_LOCATION,
                        self.find(interned_data::SOURCE_LOCATIONS, iid),
                    );
                }
                (track_event::DEBUG_ANNOTATIONS, _) if !with_arguments => {}
                (track_event::DEBUG_ANNOTATIONS, FieldValue::Bytes(annotation)) => {
                    let spelt = self.annotation(annotation, DEPTH);
                    put(&mut out, track_event::DEBUG_ANNOTATIONS, Some(&spelt));
                }
                (other, _) if EXTRA_COUNTERS.contains(&other) => {}
                _ if with_arguments || field.whole.len() <= limits::SLICE / 16 => {
                    out.extend_from_slice(field.whole);
                }
                _ => {}
            }
        }
        out
    }

    fn annotation(&self, annotation: &[u8], depth: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(annotation.len() + 32);
        for field in Fields::of(annotation) {
            let spelt = match (field.number, field.value) {
                (debug_annotation::NAME_IID, FieldValue::Number(iid)) => {
                    let text = self.text(interned_data::DEBUG_ANNOTATION_NAMES, iid);
                    text.map(|text| (debug_annotation::NAME, text.to_vec()))
                }
                (annotation::STRING_VALUE_IID, FieldValue::Number(iid)) => {
                    let text = self.text(ANNOTATION_TEXTS, iid);
                    text.map(|text| (debug_annotation::STRING_VALUE, text.to_vec()))
                }
                (of @ (annotation::DICT_ENTRIES | annotation::ARRAY_VALUES), FieldValue::Bytes(inner)) => {
                    depth.checked_sub(1).map(|depth| (of, self.annotation(inner, depth)))
                }
                _ => {
                    out.extend_from_slice(field.whole);
                    None
                }
            };
            let Ok(()) = spelt.map_or(Ok(()), |(of, bytes)| out.bytes(of, &bytes));
        }
        out
    }
}
