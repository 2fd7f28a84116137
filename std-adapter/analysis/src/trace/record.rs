//! An event as its packet tells it.

use std::sync::Arc;

use tracebuf::proto::fields::{interned_data, log_message, log_priority, track_event, track_event_type};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

use super::fault::FaultKind;
use super::sequence::{Sequence, Source};
use super::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    End,
    Instant,
    Counter,
}

#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) priority: u8,
    pub(super) text: Arc<str>,
    pub(super) source: Option<Source>,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Where its packet begins.
    pub(super) at: u64,
    pub(super) time: i64,
    pub(super) kind: Kind,
    pub(super) track: u64,
    pub(super) name: Option<Arc<str>>,
    pub(super) category: Option<Arc<str>>,
    pub(super) arguments: Vec<(Arc<str>, Value)>,
    pub(super) source: Option<Source>,
    pub(super) flows: Vec<u64>,
    pub(super) last_flows: Vec<u64>,
    pub(super) log: Option<Log>,
    /// A counter's value.
    pub(super) value: f64,
}

impl Record {
    /// Reads an event, without its time. Names that were not told are left out, and said.
    pub(super) fn of(
        event: &[u8],
        at: u64,
        sequence: &Sequence,
        faults: &mut impl FnMut(FaultKind),
    ) -> Option<Self> {
        let kind = match number(event, track_event::TYPE) {
            Some(track_event_type::SLICE_BEGIN) => Kind::Begin,
            Some(track_event_type::SLICE_END) => Kind::End,
            Some(track_event_type::INSTANT) => Kind::Instant,
            Some(track_event_type::COUNTER) => Kind::Counter,
            _ => {
                faults(FaultKind::Unsupported);
                return None;
            }
        };
        let mut unknown = |is_unknown: bool| {
            if is_unknown {
                faults(FaultKind::UnknownName);
            }
        };
        let iid = number(event, track_event::NAME_IID).filter(|iid| *iid != 0);
        let name = match iid {
            Some(iid) => sequence.text(interned_data::EVENT_NAMES, iid),
            None => messages(event, track_event::NAME).last().map(super::tracks::text),
        };
        unknown(iid.is_some() && name.is_none());
        let categories = Fields::of(event).filter(|field| field.number == track_event::CATEGORY_IIDS);
        let is_known = |field: tracebuf::proto::reader::Field<'_>| match field.value {
            FieldValue::Number(iid) => sequence.text(interned_data::EVENT_CATEGORIES, iid).is_some(),
            _ => true,
        };
        unknown(!categories.into_iter().all(is_known));
        let mut arguments = Vec::new();
        for told in messages(event, track_event::DEBUG_ANNOTATIONS) {
            let argument = sequence.argument(told, 0);
            unknown(argument.is_none());
            arguments.extend(argument);
        }
        let place = number(event, track_event::SOURCE_LOCATION_IID);
        let source = match place {
            Some(iid) => sequence.source(iid),
            None => messages(event, track_event::SOURCE_LOCATION).last().map(Source::of),
        };
        unknown(place.is_some() && source.is_none());
        let log = messages(event, track_event::LOG_MESSAGE).last().map(|log| Log::of(log, sequence));
        unknown(matches!(log, Some(None)));
        let fixed = |of| {
            let flows = Fields::of(event).filter(move |field| field.number == of);
            flows
                .filter_map(|flow| if let FieldValue::Fixed(id) = flow.value { Some(id) } else { None })
                .collect()
        };
        Some(Self {
            at,
            time: 0,
            kind,
            track: number(event, track_event::TRACK_UUID).or(sequence.track).unwrap_or(0),
            name,
            category: sequence.joined(
                event,
                track_event::CATEGORIES,
                track_event::CATEGORY_IIDS,
                interned_data::EVENT_CATEGORIES,
            ),
            arguments,
            source,
            flows: fixed(track_event::FLOW_IDS),
            last_flows: fixed(track_event::TERMINATING_FLOW_IDS),
            log: log.flatten(),
            value: 0.0,
        })
    }

    /// The value that an event of a counter tells.
    pub(super) fn value_in(event: &[u8]) -> Option<f64> {
        let double =
            Fields::of(event).filter(|field| field.number == track_event::DOUBLE_COUNTER_VALUE).last();
        match (number(event, track_event::COUNTER_VALUE), double.map(|field| field.value)) {
            (Some(value), _) => Some(value as i64 as f64),
            (None, Some(FieldValue::Fixed(bits))) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }
}

impl Log {
    /// `None` if its text or place was not told.
    fn of(log: &[u8], sequence: &Sequence) -> Option<Self> {
        let text = number(log, log_message::BODY_IID)?;
        let source = match number(log, log_message::SOURCE_LOCATION_IID) {
            Some(iid) => Some(sequence.source(iid)?),
            None => None,
        };
        Some(Self {
            priority: number(log, log_message::PRIO).unwrap_or(log_priority::INFO) as u8,
            text: sequence.text(interned_data::LOG_MESSAGE_BODY, text)?,
            source,
        })
    }
}

/// Whether an event is one of Chrome's, told in a message of its own.
pub(super) fn is_legacy(event: &[u8]) -> bool {
    message(event, track_event::LEGACY_EVENT).is_none_or(|legacy| !legacy.is_empty())
}
