//! Which fields of packets a trace has, and which of their strings are overwritten, as a session's config says.

mod bytecode;
mod strings;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use tracebuf::proto::fields::config::trace_filter as field;
use tracebuf::proto::fields::{filter_stats, trace};
use tracebuf::proto::reader::{FieldValue, Fields, message};
use tracebuf::proto::{Sink, WireType, tag, varint};

use crate::host::{Find, Pattern};
use crate::sinks::PacketSink;
use crate::wire::ProtoBuilder;
use bytecode::{Bytecode, Kept};
use strings::{Rules, Work};

/// Messages within each other beyond which a packet counts as malformed: none of Perfetto's has as many.
const DEEPEST: usize = 100;
/// Most packets whose strings may take too long. Those of later ones are not even looked at: each keeps all others waiting.
/// One is forgiven for so many that are good: a machine may have stood still.
const MOST_LATE: u32 = 4;
const FORGIVEN: u32 = 1000;

/// A `TraceFilter`, ready to be applied.
#[derive(Debug)]
pub(crate) struct TraceFilter {
    fields: Bytecode,
    /// The place of what packets are among the messages of `fields`.
    root: u32,
    rules: Rules,
}

/// One message of a packet, as far as it was looked at.
struct Level<'p> {
    fields: Fields<'p>,
    message: u32,
    /// Where its length is in what is left, and how many bytes that has.
    length: Option<(usize, usize)>,
}

impl TraceFilter {
    /// Reads one; patterns become expressions by `compile`.
    ///
    /// # Errors
    /// What is wrong with it: a session without its filter must not be.
    pub(crate) fn of(
        filter: &[u8],
        compile: &mut impl FnMut(&str, Find) -> Result<Box<dyn Pattern>, String>,
    ) -> Result<Self, String> {
        let malformed = || "Trace filter malformed".to_string();
        let of = |number| message(filter, number).ok_or_else(malformed);
        let rules = [of(field::STRING_FILTER_CHAIN)?, of(field::STRING_FILTER_CHAIN_V54)?];
        let rules = Rules::of(rules, compile)?;
        let bytecode = Some(of(field::BYTECODE_V2)?).filter(|bytecode| !bytecode.is_empty());
        let fields = Bytecode::of(bytecode.unwrap_or(of(field::BYTECODE)?), of(field::BYTECODE_OVERLAY_V54)?);
        let fields = fields.ok_or("Trace filter bytecode invalid")?;
        // What it says is about a trace, of which packets are a part.
        let Some(Kept::Message(root)) = fields.kept(0, trace::PACKET) else {
            return Err("Failed to set filter root".to_string());
        };
        Ok(Self { fields, root, rules })
    }

    /// What is left of a packet; `None` if it is malformed, or would take too long.
    fn left_of(&self, packet: &[u8], work: &mut Work) -> Option<Vec<u8>> {
        let mut left = Vec::with_capacity(packet.len());
        let mut levels = vec![Level { fields: Fields::of(packet), message: self.root, length: None }];
        while let Some(level) = levels.last_mut() {
            let Some(read) = level.fields.next() else {
                if !level.fields.is_at_end() {
                    return None;
                }
                if let Some((at, len)) = level.length {
                    set_length(&mut left, at, len)?;
                }
                levels.pop();
                continue;
            };
            let number = read.number;
            match (self.fields.kept(level.message, number), read.value) {
                (Some(Kept::Field), FieldValue::Number(value)) => put(left.varint(number, value)),
                (Some(Kept::Field), FieldValue::Fixed(value)) => {
                    put_fixed(&mut left, number, value, read.whole)?
                }
                (Some(Kept::Field), FieldValue::Bytes(value)) => put(left.bytes(number, value)),
                (Some(Kept::Message(message)), FieldValue::Bytes(value)) => {
                    if levels.len() >= DEEPEST {
                        return None;
                    }
                    put(left.length(number, value.len()));
                    let len = varint::len(value.len() as u64);
                    let length = Some((left.len().checked_sub(len)?, len));
                    levels.push(Level { fields: Fields::of(value), message, length });
                }
                (Some(Kept::Text(kind)), FieldValue::Bytes(value)) => {
                    put(left.bytes(number, value));
                    let start = left.len().checked_sub(value.len())?;
                    self.rules.apply(left.get_mut(start..)?, kind, work)?;
                }
                (Some(Kept::Message(_) | Kept::Text(_)) | None, _) => {}
            }
        }
        Some(left)
    }
}

fn put(Ok(()): Result<(), Infallible>) {}

/// A number of a fixed size, which its field has at its end.
fn put_fixed(left: &mut Vec<u8>, number: u32, value: u64, whole: &[u8]) -> Option<()> {
    let is_long = whole.first()? & 7 == WireType::Fixed64 as u8;
    if is_long {
        put(left.fixed64(number, value));
        return Some(());
    }
    let mut head = [0; varint::MAX_LEN];
    let len = varint::encode(tag(number, WireType::Fixed32).into(), &mut head)?;
    left.extend_from_slice(head.get(..len)?);
    left.extend_from_slice(&(value as u32).to_le_bytes());
    Some(())
}

/// Sets the length of a message to what is left of it, in as many bytes as it had.
fn set_length(left: &mut [u8], at: usize, len: usize) -> Option<()> {
    let begin = at.checked_add(len)?;
    let mut rest = left.len().checked_sub(begin)?;
    let bytes = left.get_mut(at..begin)?;
    for byte in bytes.iter_mut() {
        *byte = (rest & 0x7F) as u8 | 0x80;
        rest >>= 7;
    }
    *bytes.last_mut()? &= 0x7F;
    Some(())
}

/// A filter, and what it has done.
#[derive(Debug)]
pub(crate) struct Filtering {
    filter: TraceFilter,
    packets: u64,
    bytes: u64,
    left: u64,
    errors: u64,
    late: u32,
    nanoseconds: u64,
    /// Bytes that are no longer in packets of each buffer.
    discarded: Vec<u64>,
}

impl Filtering {
    pub(crate) const fn new(filter: TraceFilter) -> Self {
        let discarded = Vec::new();
        Self { filter, packets: 0, bytes: 0, left: 0, errors: 0, late: 0, nanoseconds: 0, discarded }
    }

    /// Counts the time that reading has taken, of which filtering is nearly all.
    pub(crate) const fn took(&mut self, nanoseconds: u64) {
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }

    /// Counts a packet that is left as it is.
    pub(crate) const fn passed(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.left += bytes as u64;
    }

    /// What is left of a packet, of the buffer in this place if it is of one: nothing of one that is malformed.
    fn apply(&mut self, packet: &[u8], buffer: Option<usize>) -> Vec<u8> {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        let mut work = Work::new(self.late > (MOST_LATE - 1) * FORGIVEN);
        let Some(left) = self.filter.left_of(packet, &mut work) else {
            self.errors += 1;
            let late = if work.is_late { FORGIVEN } else { 0 };
            self.late = (self.late + late).min(MOST_LATE * FORGIVEN);
            return Vec::new();
        };
        self.late = self.late.saturating_sub(1);
        self.left += left.len() as u64;
        if let Some(buffer) = buffer {
            if self.discarded.len() <= buffer {
                self.discarded.resize(buffer + 1, 0);
            }
            let discarded = packet.len().saturating_sub(left.len()) as u64;
            self.discarded.get_mut(buffer).into_iter().for_each(|all| *all += discarded);
        }
        left
    }

    /// `FilterStats`.
    pub(crate) fn stats(&self) -> ProtoBuilder {
        ProtoBuilder::new()
            .number(filter_stats::INPUT_PACKETS, self.packets)
            .number(filter_stats::INPUT_BYTES, self.bytes)
            .number(filter_stats::OUTPUT_BYTES, self.left)
            .number(filter_stats::ERRORS, self.errors)
            .number(filter_stats::TIME_TAKEN_NS, self.nanoseconds)
            .each(&self.discarded, |all, bytes| all.number(filter_stats::BYTES_DISCARDED_PER_BUFFER, *bytes))
    }
}

/// Takes packets, and hands on what is left of them.
pub(crate) struct Filtered<'f, S> {
    filter: &'f mut Filtering,
    sink: &'f mut S,
    buffer: Option<usize>,
    /// Bytes that were not handed on: they count, as looking at them took time.
    removed: usize,
}

impl<'f, S> Filtered<'f, S> {
    pub(crate) const fn new(filter: &'f mut Filtering, sink: &'f mut S) -> Self {
        Self { filter, sink, buffer: None, removed: 0 }
    }
}

impl<S: PacketSink> PacketSink for Filtered<'_, S> {
    fn packet<'p>(&mut self, len: usize, parts: impl Iterator<Item = &'p [u8]>, suffix: &'p [u8]) -> bool {
        let mut packet = Vec::with_capacity(len + suffix.len());
        parts.chain(core::iter::once(suffix)).for_each(|part| packet.extend_from_slice(part));
        let left = self.filter.apply(&packet, self.buffer);
        self.removed += packet.len().saturating_sub(left.len());
        self.sink.own(&left)
    }

    fn len(&self) -> usize {
        self.sink.len() + self.removed
    }

    fn of_buffer(&mut self, place: Option<usize>) {
        self.buffer = place;
    }
}

#[cfg(test)]
mod tests;
