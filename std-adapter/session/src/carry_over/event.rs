//! Events, as far as they are looked at.

use tracebuf::proto::fields::{sequence_flags, trace_packet, track_event, track_event_type};
use tracebuf::proto::reader::{FieldValue, Fields};
use tracebuf::proto::{WireType, tag, varint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    End,
    Counter,
    Other,
}

/// A `TrackEvent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'p> {
    pub(super) kind: Kind,
    /// The track, unless it is the sequence's default.
    pub(super) track: Option<u64>,
    pub(super) bytes: &'p [u8],
}

const TYPE: u8 = tag(track_event::TYPE, WireType::Varint) as u8;
const NAME: u8 = tag(track_event::NAME_IID, WireType::Varint) as u8;
const TRACK: u8 = tag(track_event::TRACK_UUID, WireType::Varint) as u8;
const TIME: u8 = tag(trace_packet::TIMESTAMP, WireType::Varint) as u8;
const FLAGS: u8 = tag(trace_packet::SEQUENCE_FLAGS, WireType::Varint) as u8;
const EVENT: u8 = tag(trace_packet::TRACK_EVENT, WireType::Length) as u8;
const NEEDS: u8 = sequence_flags::NEEDS_INCREMENTAL_STATE as u8;

impl Kind {
    #[inline]
    fn of(number: u64) -> Self {
        match number {
            track_event_type::SLICE_BEGIN => Self::Begin,
            track_event_type::SLICE_END => Self::End,
            track_event_type::COUNTER => Self::Counter,
            _ => Self::Other,
        }
    }
}

impl<'p> Event<'p> {
    /// `None` if the event is malformed.
    #[inline]
    pub(super) fn of(bytes: &'p [u8]) -> Option<Self> {
        match *bytes {
            // As tracers of this project write most of them.
            [TYPE, kind] | [TYPE, kind, NAME, 0..=0x7F] if kind < 0x80 => {
                Some(Self { kind: Kind::of(kind.into()), track: None, bytes })
            }
            [TYPE, kind @ 3, ..] => Some(Self { kind: Kind::of(kind.into()), track: None, bytes }),
            [TYPE, kind, TRACK, ..] if kind < 0x80 => {
                let (track, rest) = varint::split(bytes.get(3..)?)?;
                match rest {
                    [] | [NAME, 0..=0x7F] => {
                        Some(Self { kind: Kind::of(kind.into()), track: Some(track), bytes })
                    }
                    _ => Self::of_any(bytes),
                }
            }
            _ => Self::of_any(bytes),
        }
    }

    fn of_any(bytes: &'p [u8]) -> Option<Self> {
        let mut event = Self { kind: Kind::Other, track: None, bytes };
        let mut fields = Fields::of(bytes);
        for field in &mut fields {
            match (field.number, field.value) {
                (track_event::TYPE, FieldValue::Number(kind)) => event.kind = Kind::of(kind),
                (track_event::TRACK_UUID, FieldValue::Number(track)) => event.track = Some(track),
                _ => {}
            }
        }
        fields.is_at_end().then_some(event)
    }

    /// Its value as a counter's.
    pub(super) fn counter_value(&self) -> (i64, f64) {
        let mut value = (0, 0.0);
        for field in Fields::of(self.bytes) {
            match (field.number, field.value) {
                (track_event::COUNTER_VALUE, FieldValue::Number(number)) => value.0 = number as i64,
                (track_event::DOUBLE_COUNTER_VALUE, FieldValue::Fixed(bits)) => {
                    value.1 = f64::from_bits(bits)
                }
                _ => {}
            }
        }
        value
    }
}

/// The time and the event of a packet that has both, needs the state, and holds nothing else:
///
/// ```text
/// 68 02  5A size { … }  40 time
/// 40 time  68 02  5A size { … }
/// ```
#[inline(always)]
pub(super) fn quick(packet: &[u8]) -> Option<(u64, &[u8])> {
    match *packet {
        [FLAGS, NEEDS, EVENT, len, ref rest @ ..] if len < 0x80 => {
            let (event, time) = rest.split_at_checked(len.into())?;
            let [TIME, ref time @ ..] = *time else { return None };
            if let [time @ 0..=0x7F] = *time {
                return Some((time.into(), event));
            }
            let (time, rest) = varint::split(time)?;
            rest.is_empty().then_some((time, event))
        }
        [TIME, ref rest @ ..] => {
            let (time, rest) = varint::split(rest)?;
            let [FLAGS, NEEDS, EVENT, ref rest @ ..] = *rest else { return None };
            let (len, event) = varint::split(rest)?;
            (event.len() as u64 == len).then_some((time, event))
        }
        _ => None,
    }
}
