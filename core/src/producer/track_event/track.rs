//! Timelines, and the packets that describe them.

use crate::producer::TraceWriter;
use crate::producer::cursor::redundant_varint;
use crate::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, thread_descriptor, trace_packet, track_descriptor,
};
use crate::proto::{WireType, tag, varint};

/// A timeline: a process, a thread, a counter, or one of your own.
///
/// Its id is made from the numbers of a process or a thread, or from any other track's name and its parent's id, so that
/// two writers that describe the same track mean the same one. So two tracks with the same name and no parent are one,
/// whichever process they are in, and the slices of both end each other: put what is one process's own
/// [within](Self::within) its track. Of several tracks with the same id, the first that a writer uses is described.
///
/// ```
/// use tracebuf::producer::track_event::{Track, Unit};
///
/// static GPU: Track<'static> = Track::custom("gpu");
/// static QUEUE: Track<'static> = Track::custom("queue").within(&GPU);
/// static DEPTH: Track<'static> = Track::counter("depth", Unit::Count).within(&QUEUE);
/// assert_ne!(GPU.uuid(), QUEUE.uuid());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    pub(super) id: TrackId,
    pub(super) parent: Option<&'a Track<'a>>,
    name: &'a str,
    /// What comes between the ids and the name in the description.
    head: Head,
}

/// An id of 49 bits, the highest of them set, as the varint of seven bytes that each event on the track has: four
/// bytes and three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackId {
    low: u32,
    high: u32,
}

impl TrackId {
    const HIGHEST: u64 = 1 << 48;

    const fn new(hash: u64) -> Self {
        let value = (hash ^ hash >> 48) & (Self::HIGHEST - 1) | Self::HIGHEST;
        let low = redundant_varint(value as u32 & 0x0FFF_FFFF) | 1 << 31;
        // The last byte does not say that there are more.
        TrackId { low, high: redundant_varint((value >> 28) as u32) & 0x007F_FFFF }
    }

    const fn value(self) -> u64 {
        varint::of_four_bytes(self.low) as u64 | (varint::of_four_bytes(self.high) as u64) << 28
    }
}

/// Fields in their encoded form, which is made when the track is, mostly by the compiler.
#[derive(Clone, Copy, Debug)]
struct Head {
    bytes: [u8; Head::SIZE],
    len: u8,
    /// Whether the id is made from the name: processes and threads are told apart by their numbers already.
    is_named: bool,
}

impl Head {
    /// A message's tag and length, two numbers and their tags, the name's tag and length.
    const SIZE: usize = 1 + 5 + 2 * (1 + 5) + 1 + 5;
    const EMPTY: Head = Head { bytes: [0; Head::SIZE], len: 0, is_named: true };

    /// A message of these numbers, and within it the name.
    const fn with_name(message: u32, numbers: &[(u32, u32)], field: u32, name: &str) -> Self {
        let inside = Head::numbers(numbers).tag(field, WireType::Length).varint(name.len() as u32);
        let head = Head::EMPTY.tag(message, WireType::Length).varint(inside.len as u32 + name.len() as u32);
        Head { is_named: false, ..head.bytes(inside.used()) }
    }

    /// A field of these bytes.
    const fn field(self, number: u32, bytes: &[u8]) -> Self {
        self.tag(number, WireType::Length).varint(bytes.len() as u32).bytes(bytes)
    }

    /// These fields, and then the tag and the length of the name.
    const fn of_name(self, name: &str) -> Self {
        self.tag(track_descriptor::NAME, WireType::Length).varint(name.len() as u32)
    }

    const fn numbers(mut numbers: &[(u32, u32)]) -> Self {
        let mut head = Head::EMPTY;
        while let [(field, value), rest @ ..] = numbers {
            head = head.tag(*field, WireType::Varint).varint(*value);
            numbers = rest;
        }
        head
    }

    const fn tag(self, field: u32, wire_type: WireType) -> Self {
        self.varint(tag(field, wire_type))
    }

    const fn varint(mut self, mut value: u32) -> Self {
        while value >= 0x80 {
            self = self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8)
    }

    const fn bytes(mut self, mut rest: &[u8]) -> Self {
        while let [byte, later @ ..] = rest {
            self = self.byte(*byte);
            rest = later;
        }
        self
    }

    const fn byte(mut self, byte: u8) -> Self {
        if let Some((_, [next, ..])) = self.bytes.split_at_mut_checked(self.len as usize) {
            *next = byte;
            self.len += 1;
        }
        self
    }

    const fn used(&self) -> &[u8] {
        match self.bytes.split_at_checked(self.len as usize) {
            Some((used, _)) => used,
            None => &[],
        }
    }
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing in particular.
    Unspecified,
    /// Nanoseconds.
    Nanoseconds,
    /// Pieces.
    Count,
    /// Bytes.
    Bytes,
    /// A unit of this name, in up to [`Unit::MAX_LEN`] bytes: the rest of a longer text is left out.
    Named(&'static str),
}

impl Unit {
    /// The longest name of a unit, 14 bytes of UTF-8: what a counter's description has room for besides two tags and
    /// lengths, and those of the counter's own name.
    pub const MAX_LEN: usize = Head::SIZE - (2 + 2 + 1 + 5);

    /// The field that says which unit it is.
    const fn head(self) -> Head {
        let number = match self {
            Unit::Unspecified => 0,
            Unit::Nanoseconds => counter_unit::TIME_NS as u32,
            Unit::Count => counter_unit::COUNT as u32,
            Unit::Bytes => counter_unit::SIZE_BYTES as u32,
            Unit::Named(name) => {
                return Head::EMPTY.field(counter_descriptor::UNIT_NAME, beginning(name, Self::MAX_LEN));
            }
        };
        Head::numbers(&[(counter_descriptor::UNIT, number)])
    }
}

/// As many whole characters as lie in the first `most` bytes.
const fn beginning(text: &str, most: usize) -> &[u8] {
    let mut len = most;
    while len < text.len() && !text.is_char_boundary(len) {
        len -= 1;
    }
    match text.as_bytes().split_at_checked(len) {
        Some((beginning, _)) => beginning,
        None => text.as_bytes(),
    }
}

/// FNV-1a over bytes.
const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((byte, later)) = rest.split_first() {
        hash = (hash ^ *byte as u64).wrapping_mul(0x100_0000_01B3);
        rest = later;
    }
    hash
}

const SEED: u64 = 0xCBF2_9CE4_8422_2325;

impl<'a> Track<'a> {
    /// How many tracks within each other are described with an event: there may be a ring of them.
    pub(super) const MAX_DEPTH: u32 = 32;

    /// A process by its id.
    pub const fn process(pid: u32, name: &'a str) -> Self {
        let uuid = hash(hash(SEED, b"p"), &pid.to_le_bytes());
        let numbers = [(process_descriptor::PID, pid)];
        let (message, field) = (track_descriptor::PROCESS, process_descriptor::PROCESS_NAME);
        Self::new(uuid, name, Head::with_name(message, &numbers, field, name))
    }

    /// A thread by its ids; it belongs to the process of that `pid`, described or not.
    pub const fn thread(pid: u32, tid: u32, name: &'a str) -> Self {
        let uuid = hash(hash(hash(SEED, b"t"), &pid.to_le_bytes()), &tid.to_le_bytes());
        let numbers = [(thread_descriptor::PID, pid), (thread_descriptor::TID, tid)];
        let (message, field) = (track_descriptor::THREAD, thread_descriptor::THREAD_NAME);
        Self::new(uuid, name, Head::with_name(message, &numbers, field, name))
    }

    /// A track by its name.
    pub const fn custom(name: &'a str) -> Self {
        Self::new(hash(hash(SEED, b"u"), name.as_bytes()), name, Head::EMPTY.of_name(name))
    }

    /// A counter by its name.
    pub const fn counter(name: &'a str, unit: Unit) -> Self {
        let head = Head::EMPTY.field(track_descriptor::COUNTER, unit.head().used()).of_name(name);
        Self::new(hash(hash(SEED, b"c"), name.as_bytes()), name, head)
    }

    /// One of several tracks with the same name, such as requests that overlap, or of processes and threads with the same
    /// numbers, as in several containers: the id is different for each number, which is not shown.
    pub const fn numbered(self, number: u64) -> Self {
        self.told_apart_by(b"n", number)
    }

    /// The same track under a parent, which is described with it. The id is different, except for processes and
    /// threads. Of the tracks above it, 31 are described with an event; trace_processor follows ten.
    pub const fn within(self, parent: &'a Track<'a>) -> Self {
        // The parent of a process or a thread is not looked at: in a ring of statics it is not made yet.
        let track = if self.head.is_named { self.told_apart_by(b"", parent.uuid()) } else { self };
        Track { parent: Some(parent), ..track }
    }

    /// The track with a different id for each number of a kind.
    const fn told_apart_by(self, kind: &[u8], number: u64) -> Self {
        Track { id: TrackId::new(hash(hash(self.uuid(), kind), &number.to_le_bytes())), ..self }
    }

    const fn new(hash: u64, name: &'a str, head: Head) -> Self {
        Track { id: TrackId::new(hash), name, head, parent: None }
    }

    /// The id, from 2⁴⁸ to 2⁴⁹ − 1.
    pub const fn uuid(&self) -> u64 {
        self.id.value()
    }

    /// The id as a varint of seven bytes.
    #[inline]
    pub(super) fn id_varint(&self) -> [u32; 2] {
        [self.id.low, self.id.high]
    }

    /// Writes the id as a field.
    pub(super) fn write_id(&self, field: u32, writer: &mut TraceWriter<'_>) {
        writer.tag(field, WireType::Varint);
        writer.put(self.id.low, 4);
        writer.put(self.id.high, 3);
    }

    /// Writes the description as a packet.
    pub(super) fn describe(&self, writer: &mut TraceWriter<'_>) {
        writer.begin();
        writer.open(trace_packet::TRACK_DESCRIPTOR);
        self.write_id(track_descriptor::UUID, writer);
        if let Some(parent) = self.parent {
            parent.write_id(track_descriptor::PARENT_UUID, writer);
        }
        writer.put_bytes(self.head.used());
        writer.put_bytes(self.name.as_bytes());
        writer.finish();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_unit_by_name_is_told_as_far_as_it_fits() {
        // A name of 2²⁸ bytes and more has a length of five; the longest of the other lengths are tried.
        let names = ["".into(), "n".repeat(127), "n".repeat(128), "n".repeat(1 << 14)];
        for (unit, told) in [
            ("", ""),
            ("°C", "°C"),
            ("fourteen bytes", "fourteen bytes"),
            ("fifteen bytes: ", "fifteen bytes:"),
            ("thirteen, and€", "thirteen, and"),
            ("µµµµµµµµ", "µµµµµµµ"),
        ] {
            assert!(told.len() <= Unit::MAX_LEN && unit.len() <= 16);
            // Under an interpreter the longest name is tried once.
            let count = if cfg!(miri) && !unit.is_empty() { 3 } else { 4 };
            for name in &names[..count] {
                let track = Track::counter(name, Unit::Named(unit));
                let (len, told_len) = (told.len() as u8, told.len() as u8 + 2);
                let fields = [&[8 << 3 | 2, told_len, 6 << 3 | 2, len][..], told.as_bytes(), &[2 << 3 | 2]];
                let (head, name_len) = track.head.used().split_at(fields.concat().len());
                assert_eq!(head, fields.concat());
                assert_eq!(varint::decode(name_len), Some((name.len() as u64, name_len.len())));
            }
        }
        assert_eq!(Head::SIZE - Unit::MAX_LEN, 4 + 1 + 5);
    }

    #[test]
    fn ids_are_varints_of_seven_bytes() {
        for hash in [0, 1, 0x7F, 0x80, 1 << 27, 1 << 28, 1 << 47, 1 << 48, u64::MAX, 0x0123_4567_89AB_CDEF] {
            let id = TrackId::new(hash);
            let bytes = [id.low, id.high].map(u32::to_le_bytes).concat();
            assert_eq!(varint::decode(&bytes), Some((id.value(), 7)));
            assert_eq!((bytes[7], id.value() >> 48), (0, 1));
        }
    }
}
