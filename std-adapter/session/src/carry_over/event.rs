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
    pub(super) fn of(bytes: &'p [u8]) -> Option<Self> {
        Self::of_usual(bytes)
    }

    /// The same, where many are looked at.
    #[inline(always)]
    pub(super) fn of_usual(bytes: &'p [u8]) -> Option<Self> {
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

/// An event on the sequence's own track that has nothing else than its first bytes tell of. Before it lies its size:
///
/// ```text
/// size  68 02  5A 02 { 48 02 }  40 time
/// size  68 02  5A 04 { 48 kind  50 name }  40 time
/// size  40 time  68 02  5A len { 48 kind  50 name  22 len { argument } }
/// ```
pub(super) struct Plain {
    pub(super) kind: Kind,
    /// Its time.
    pub(super) units: u64,
    /// Where the event lies, and how long it is.
    pub(super) at: u8,
    pub(super) len: u8,
}

impl Plain {
    /// From the bytes of a packet, before which its size lies, and behind which are others; `None` if it is another.
    #[inline(always)]
    pub(super) fn of(bytes: &[u8; 16]) -> Option<Self> {
        const fn head(kind: u64, size: u8, len: u8, next: u8) -> u64 {
            u64::from_le_bytes([size, FLAGS, NEEDS, EVENT, len, TYPE, kind as u8, next])
        }
        const END: u64 = head(track_event_type::SLICE_END, 8, 2, TIME);
        const BEGIN: u64 = head(track_event_type::SLICE_BEGIN, 10, 4, NAME);
        const INSTANT: u64 = head(track_event_type::INSTANT, 10, 4, NAME);
        let all = u128::from_le_bytes(*bytes);
        let (head, rest) = (all as u64, (all >> 64) as u64);
        // The first byte is the size, and that tells how long the time is.
        let is = |least: u64| head.wrapping_sub(least) < 3;
        if is(END) {
            let units = time_of(head - END, rest)?;
            return Some(Self { kind: Kind::End, units, at: 5, len: 2 });
        }
        let named = |kind, least: u64| {
            let units = time_of(head - least, rest >> 16)?;
            (rest & 0xFF80 == u64::from(TIME) << 8).then_some(Self { kind, units, at: 5, len: 4 })
        };
        if is(BEGIN) {
            return named(Kind::Begin, BEGIN);
        }
        if is(INSTANT) { named(Kind::Other, INSTANT) } else { Self::with_argument(all) }
    }

    #[inline(always)]
    fn with_argument(all: u128) -> Option<Self> {
        const HEAD: u64 = u64::from_le_bytes([FLAGS, NEEDS, EVENT, 0, TYPE, 0, NAME, 0]);
        const MASK: u64 = u64::from_le_bytes([0xFF, 0xFF, 0xFF, 0x80, 0xFF, 0, 0xFF, 0x80]);
        let [size, first, ..] = (all as u64).to_le_bytes();
        let time = (all >> 16) as u64;
        let more = (!time & 0x80_8080).trailing_zeros() / 8;
        let event = all >> 24 >> (more * 8);
        let [_, _, _, len, _, kind, ..] = (event as u64).to_le_bytes();
        let [next, argument, ..] = ((event >> 64) as u64).to_le_bytes();
        let is_whole = first == TIME
            && event as u64 & MASK == HEAD
            && next == ANNOTATION
            && kind <= track_event_type::INSTANT as u8
            && u32::from(len) == u32::from(argument) + 6
            && u32::from(size) == u32::from(len) + 6 + more;
        let units = time_of(more.into(), time).filter(|_| is_whole)?;
        Some(Self { kind: Kind::of(kind.into()), units, at: 7 + more as u8, len })
    }
}

/// A varint of so many bytes, and one, at the start of these; `None` if it is shorter or longer.
#[inline(always)]
fn time_of(more: u64, bytes: u64) -> Option<u64> {
    const ENDS: [u64; 3] = [0x80, 0x8080, 0x80_8080];
    const BITS: [u64; 3] = [0x7F, 0x7F7F, 0x7F_7F7F];
    let (ends, bits) = (ENDS.get(more as usize)?, BITS.get(more as usize)?);
    let bits = bytes & bits;
    (bytes & ends == ends >> 8).then_some(bits & 0x7F | bits >> 1 & 0x3F80 | bits >> 2 & 0x1F_C000)
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
