//! Events, as far as they are looked at.

use tracebuf::proto::fields::{sequence_flags, trace_packet, track_event, track_event_type};
use tracebuf::proto::reader::{Field, FieldValue, Fields};
use tracebuf::proto::{WireType, tag, varint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    End,
    Counter,
    Other,
}

/// The value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CounterValue {
    Whole(i64),
    Fraction(f64),
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
const CATEGORY: u8 = tag(track_event::CATEGORY_IIDS, WireType::Varint) as u8;
const ANNOTATION: u8 = tag(track_event::DEBUG_ANNOTATIONS, WireType::Length) as u8;
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
        // As tracers of this project write most of them: the type first, and short fields.
        let [TYPE, kind @ 0..=0x7F, rest @ ..] = bytes else { return Self::of_any(bytes) };
        let kind = Kind::of((*kind).into());
        let (mut rest, mut track) = (rest, None);
        if kind == Kind::Other {
            rest = &[];
        }
        loop {
            rest = match rest {
                [] => return Some(Self { kind, track, bytes }),
                [NAME | CATEGORY, 0..=0x7F, rest @ ..] => rest,
                [ANNOTATION, len @ 0..=0x7F, rest @ ..] => rest.get(usize::from(*len)..)?,
                [TRACK, rest @ ..] => {
                    let (uuid, rest) = varint::split(rest)?;
                    track = Some(uuid);
                    rest
                }
                _ => return Self::of_any(bytes),
            };
        }
    }

    #[inline(never)]
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
    pub(super) fn counter_value(&self) -> Option<CounterValue> {
        let value = |field: Field<'_>| match (field.number, field.value) {
            (track_event::COUNTER_VALUE, FieldValue::Number(number)) => {
                Some(CounterValue::Whole(number as i64))
            }
            (track_event::DOUBLE_COUNTER_VALUE, FieldValue::Fixed(bits)) => {
                Some(CounterValue::Fraction(f64::from_bits(bits)))
            }
            _ => None,
        };
        Fields::of(self.bytes).filter_map(value).last()
    }
}

/// The kind, the time and the bytes of a begin, an end or an instant on the sequence's own track that has nothing else
/// but perhaps a name:
///
/// ```text
/// 68 02  5A size { 48 kind  50 name }  40 time
/// ```
#[inline(always)]
pub(super) fn plain(packet: &[u8]) -> Option<(u8, u64, &[u8])> {
    const HEAD: u64 = u64::from_le_bytes([FLAGS, NEEDS, EVENT, 0, TYPE, 0, 0, 0]);
    const MASK: u64 = u64::from_le_bytes([0xFF, 0xFF, 0xFF, 0, 0xFF, 0, 0, 0]);
    let head = u64::from_le_bytes(*packet.first_chunk()?);
    if head & MASK != HEAD {
        return None;
    }
    let [.., len, _, kind, next, name] = head.to_le_bytes();
    let is_plain = len == 2 || len == 4 && next == NAME && name < 0x80;
    if !is_plain || kind > track_event_type::INSTANT as u8 {
        return None;
    }
    let (event, time) = packet.get(4..)?.split_at_checked(len.into())?;
    let [low, high] = [0x7F, 0x80];
    let units = match *time {
        [TIME, a] if a < high => u64::from(a),
        [TIME, a, b] if a >= high && b < high => u64::from(a & low) | u64::from(b) << 7,
        [TIME, a, b, c] if a & b >= high && c < high => {
            u64::from(a & low) | u64::from(b & low) << 7 | u64::from(c) << 14
        }
        _ => return None,
    };
    Some((kind, units, event))
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
