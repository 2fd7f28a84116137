//! Events of few bytes, put together in registers.

use crate::producer::TraceWriter;
use crate::producer::cursor::short_varint;
use crate::producer::track_event::Track;
use crate::producer::track_event::event::EventType;
use crate::proto::fields::{sequence_flags, trace_packet, track_event};
use crate::proto::{WireType, tag};

/// An event whose packet is
///
/// ```text
/// size  68 02  5A size { 48 kind … }  40 delta
/// ```
///
/// as bytes: `sequence_flags` that need the state, `track_event` with its type and more, and last `timestamp`, because
/// what varies in length comes after what has a fixed place.
pub(super) struct SmallEvent {
    kind: EventType,
    /// The timestamp's field, and how many bytes it has: 2 to 4.
    time: u32,
    time_len: usize,
}

// Tags, and how they lie in memory. All take one byte, except that of a counter's value.
const TIMESTAMP: u32 = tag(trace_packet::TIMESTAMP, WireType::Varint);
const TYPE: u32 = tag(track_event::TYPE, WireType::Varint);
const NAME: u32 = tag(track_event::NAME_IID, WireType::Varint);
const CATEGORY: u32 = tag(track_event::CATEGORY_IIDS, WireType::Varint);
const TRACK: u32 = tag(track_event::TRACK_UUID, WireType::Varint);
const COUNTER: u32 = tag(track_event::COUNTER_VALUE, WireType::Varint);
const COUNTER_BYTES: [u32; 2] = [COUNTER & 0x7F | 0x80, COUNTER >> 7];
/// What each of these packets has after its size.
const HEAD: u32 = tag(trace_packet::SEQUENCE_FLAGS, WireType::Varint) << 8
    | (sequence_flags::NEEDS_INCREMENTAL_STATE as u32) << 16
    | tag(trace_packet::TRACK_EVENT, WireType::Length) << 24;

impl SmallEvent {
    /// `None` when the time is too long.
    #[cfg_attr(not(tracebuf_small), inline)]
    pub(super) fn new(kind: EventType, delta: u32) -> Option<Self> {
        if delta >= 1 << 21 {
            return None;
        }
        let (time, time_len) = short_varint(delta);
        Some(SmallEvent { kind, time: TIMESTAMP | time << 8, time_len: 1 + time_len })
    }

    /// The event, of `len` bytes, as far as its type, and the byte `next` after that.
    #[inline]
    fn event(&self, len: usize, next: u32) -> u32 {
        len as u32 | TYPE << 8 | (self.kind as u32) << 16 | next << 24
    }

    /// Writes it with a name, or none if `iid` is 0. False when the packet does not fit.
    #[inline]
    pub(super) fn write(&self, iid: u32, writer: &mut TraceWriter<'_>) -> bool {
        let (size, event, [more, rest]) = if iid == 0 {
            (6, self.event(2, self.time), [self.time >> 8, 0])
        } else {
            (8, self.event(4, NAME), [iid | self.time << 8, self.time >> 24])
        };
        let size = size + self.time_len;
        let packet = [size as u32 | HEAD, event, more, rest];
        writer.put_small(packet, 1 + size)
    }

    /// Writes it on another track, with a name, or none if `iid` is 0.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(super) fn write_on(&self, track: &Track<'_>, iid: u32, writer: &mut TraceWriter<'_>) -> bool {
        // type; track_uuid; name_iid
        let (event_len, rest, rest_len) =
            if iid == 0 { (10, 0, 0) } else { (12, u64::from(NAME | iid << 8), 16) };
        let rest = rest | u64::from(self.time) << rest_len;
        let [track_low, track_high] = track.id_varint();
        let size = 4 + event_len + self.time_len;
        let packet = [
            size as u32 | HEAD,
            self.event(event_len, TRACK),
            track_low,
            track_high | (rest as u32) << 24,
            (rest >> 8) as u32,
            (rest >> 40) as u32,
        ];
        writer.put_small(packet, 1 + size)
    }

    /// Writes it with a name and a category.
    #[inline]
    pub(super) fn write_in(&self, iid: u32, category: u32, writer: &mut TraceWriter<'_>) -> bool {
        let size = 10 + self.time_len;
        let names = iid | CATEGORY << 8 | category << 16 | self.time << 24;
        let packet = [size as u32 | HEAD, self.event(6, NAME), names, self.time >> 8, 0];
        writer.put_small(packet, 1 + size)
    }

    /// Begins it with a name, or none if `iid` is 0, for details to come. False when that does not fit the chunk.
    ///
    /// ```text
    /// size  40 delta  68 02  5A size  48 kind  50 iid
    /// ```
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(super) fn open(&self, iid: u32, writer: &mut TraceWriter<'_>) -> bool {
        let (name, name_len) = if iid == 0 { (0, 0) } else { (NAME | iid << 8, 2) };
        let event = u64::from(HEAD >> 8) | u64::from(TYPE | (self.kind as u32) << 8 | name << 16) << 32;
        // The first 8 bytes: no size yet, the time, and what of the event there is room for.
        let bits = 8 + self.time_len * 8;
        let (first, second) = (u64::from(self.time) << 8 | event << bits, event >> (64 - bits));
        let words = [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32];
        let size_at = 1 + self.time_len + 3;
        writer.begin_at_once(words, size_at + 1 + 2 + name_len, size_at)
    }

    /// Like [`open`](Self::open), on another track, whose id comes before the name.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(super) fn open_on(&self, track: &Track<'_>, iid: u32, writer: &mut TraceWriter<'_>) -> bool {
        let (name, name_len) = if iid == 0 { (0, 0) } else { (NAME | iid << 8, 2) };
        let [track_low, track_high] = track.id_varint().map(u128::from);
        let event = u128::from(HEAD >> 8) | u128::from(TYPE | (self.kind as u32) << 8 | TRACK << 16) << 32;
        let event = event | track_low << 56 | track_high << 88 | u128::from(name) << 112;
        // The first 16 bytes, as above.
        let bits = 8 + self.time_len * 8;
        let (first, second) = (u128::from(self.time) << 8 | event << bits, (event >> (128 - bits)) as u64);
        let words = [0, 32, 64, 96].map(|word| (first >> word) as u32);
        let [a, b, c, d] = words;
        let size_at = 1 + self.time_len + 3;
        let words = [a, b, c, d, second as u32, (second >> 32) as u32];
        writer.begin_at_once(words, size_at + 1 + 2 + 8 + name_len, size_at)
    }

    /// Writes it as a counter's value. False when the value is too long, or the packet does not fit.
    #[inline]
    pub(super) fn write_count(&self, track: &Track<'_>, value: i64, writer: &mut TraceWriter<'_>) -> bool {
        if value as u64 >= 1 << 21 {
            return false;
        }
        let (value, value_len) = short_varint(value as u32);
        let rest = u64::from(value) | u64::from(self.time) << (value_len * 8);
        let [track_low, track_high] = track.id_varint();
        // type; track_uuid; counter_value
        let event_len = 2 + 8 + 2 + value_len;
        let size = 4 + event_len + self.time_len;
        let packet = [
            size as u32 | HEAD,
            self.event(event_len, TRACK),
            track_low,
            track_high | COUNTER_BYTES[0] << 24,
            COUNTER_BYTES[1] | (rest as u32) << 8,
            (rest >> 24) as u32,
            0,
        ];
        writer.put_small(packet, 1 + size)
    }
}
