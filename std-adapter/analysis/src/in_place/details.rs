//! What is recorded before an event and belongs to it: its track, flows, arguments and line of a log.

use tracebuf::inplace::{Text, Value};
use tracebuf::proto::Sink;
use tracebuf::proto::fields::{debug_annotation, interned_data, interned_string, log_message, track_event};

use super::names::text_of;

/// Details of the next event.
#[derive(Debug, Default)]
pub(super) struct Details {
    pub(super) track: Option<u32>,
    pub(super) event: Vec<u8>,
    pub(super) interned: Vec<u8>,
}

impl Details {
    pub(super) fn flow(&mut self, flow: u32) {
        let Ok(()) = self.event.fixed64(track_event::FLOW_IDS, u64::from(flow));
    }

    pub(super) fn arg(&mut self, name: &[u8], value: Value<'_>) {
        let arg = message(|out| {
            bytes(out, debug_annotation::NAME, name);
            match value {
                Value::I32(value) => {
                    let Ok(()) = out.int(debug_annotation::INT_VALUE, i64::from(value));
                }
                Value::F32(value) => {
                    let Ok(()) = out.double(debug_annotation::DOUBLE_VALUE, f64::from(value));
                }
                Value::Text(value) => bytes(out, debug_annotation::STRING_VALUE, &text_of(value)),
                _ => {}
            }
        });
        bytes(&mut self.event, track_event::DEBUG_ANNOTATIONS, &arg);
    }

    /// The line gets this number, which its sequence has for no other one.
    pub(super) fn log(&mut self, id: u64, priority: u32, line: Text<'_>) {
        let body = message(|out| {
            varint(out, interned_string::IID, id);
            bytes(out, interned_string::NAME, &text_of(line));
        });
        bytes(&mut self.interned, interned_data::LOG_MESSAGE_BODY, &body);
        let log = message(|out| {
            varint(out, log_message::BODY_IID, id);
            varint(out, log_message::PRIO, u64::from(priority));
        });
        bytes(&mut self.event, track_event::LOG_MESSAGE, &log);
    }
}

/// A message within another one.
pub(super) fn message(fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields(&mut bytes);
    bytes
}

pub(super) fn varint(out: &mut Vec<u8>, field: u32, value: u64) {
    let Ok(()) = out.varint(field, value);
}

pub(super) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    let Ok(()) = out.bytes(field, value);
}
