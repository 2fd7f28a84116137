//! Packets that tell whether they are whole: a number, a content of any size at any depth, a checksum.

use tracebuf::producer::{MessageHandle, TraceWriter};

use tracebuf_testing::mix::mix;

/// What packet `number` of a writer looks like: a function of the two, so that the reader knows it as well.
struct Shape {
    size: usize,
    depth: u32,
    seed: u64,
}

fn shape(writer: u16, number: u64) -> Shape {
    let seed = mix(u64::from(writer) << 48 | number);
    let size = match seed % 1000 {
        0..900 => (seed >> 16) % 24,
        900..990 => (seed >> 16) % 200,
        990..999 => (seed >> 16) % 2_000,
        // Three chunks or more in every layout except the coarsest: patches that come later.
        _ => (seed >> 16) % 12_000,
    };
    Shape { size: size as usize, depth: (seed >> 40) as u32 % 4, seed }
}

/// Writes packet `number`. `scratch` is where its content is made.
pub(crate) fn write(writer: &mut TraceWriter<'_>, number: u64, scratch: &mut Vec<u8>) {
    let shape = shape(writer.id(), number);
    scratch.clear();
    scratch.extend((0..shape.size).map(|i| (shape.seed >> (i % 57)) as u8 ^ i as u8));
    let mut packet = writer.packet();
    packet.fixed64(NUMBER, number);
    write_nested(&mut packet, shape.depth, scratch, shape.seed as u32);
}

fn write_nested(message: &mut MessageHandle<'_, '_>, depth: u32, content: &[u8], seed: u32) {
    if depth == 0 {
        // In two calls: the second begins wherever the first ended.
        let (now, later) = content.split_at(content.len() / 3);
        message.bytes(CONTENT, now);
        message.bytes(CONTENT, later);
        message.fixed32(CHECKSUM, checksum(now, checksum(later, seed)));
    } else {
        write_nested(&mut message.message(NESTED), depth - 1, content, seed);
        message.varint(DEPTH, u64::from(depth));
    }
}

/// What a packet says, read back.
pub(crate) struct Seen {
    pub(crate) number: u64,
    /// The writer's own `previous_packet_dropped`.
    pub(crate) dropped_before: u64,
    pub(crate) first: bool,
}

/// Reads a packet of a writer; `Err` says what is wrong with it.
pub(crate) fn read(writer: u16, packet: &[u8]) -> Result<Seen, String> {
    let mut at = packet;
    let mut seen = Seen { number: 0, dropped_before: 0, first: false };
    loop {
        match tag(&mut at)? {
            (FIRST, 0) => seen.first = varint(&mut at)? == 1,
            (DROPPED, 0) => seen.dropped_before = varint(&mut at)?,
            (NUMBER, 1) => break,
            other => return Err(format!("begins with field {other:?}")),
        }
    }
    seen.number = u64::from_le_bytes(take(&mut at, 8)?.try_into().expect("eight"));
    let shape = shape(writer, seen.number);
    read_nested(at, &shape, shape.depth).map_err(|what| format!("packet {}: {what}", seen.number))?;
    Ok(seen)
}

fn read_nested(mut at: &[u8], shape: &Shape, depth: u32) -> Result<(), String> {
    if depth == 0 {
        let now = bytes(&mut at, CONTENT)?;
        let later = bytes(&mut at, CONTENT)?;
        if now.len() + later.len() != shape.size {
            return Err(format!("{} and {} bytes instead of {}", now.len(), later.len(), shape.size));
        }
        expect(tag(&mut at)?, (CHECKSUM, 5))?;
        let sum = u32::from_le_bytes(take(&mut at, 4)?.try_into().expect("four"));
        expect(sum, checksum(now, checksum(later, shape.seed as u32)))?;
    } else {
        read_nested(bytes(&mut at, NESTED)?, shape, depth - 1)?;
        expect(tag(&mut at)?, (DEPTH, 0))?;
        expect(varint(&mut at)?, u64::from(depth))?;
    }
    expect(at, &[])
}

// Field numbers that the format has for what a writer says itself; the others are ours.
const FIRST: u32 = 87;
const DROPPED: u32 = 42;
const NUMBER: u32 = 1;
const NESTED: u32 = 2;
const CONTENT: u32 = 3;
const CHECKSUM: u32 = 4;
const DEPTH: u32 = 5;

/// FNV-1a.
fn checksum(bytes: &[u8], seed: u32) -> u32 {
    bytes.iter().fold(seed ^ 0x811C_9DC5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn expect<T: PartialEq + std::fmt::Debug>(seen: T, expected: T) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen:?} instead of {expected:?}")) }
}

fn take<'p>(at: &mut &'p [u8], len: usize) -> Result<&'p [u8], String> {
    let (taken, rest) = at.split_at_checked(len).ok_or_else(|| format!("{len} bytes leave the message"))?;
    *at = rest;
    Ok(taken)
}

fn bytes<'p>(at: &mut &'p [u8], field: u32) -> Result<&'p [u8], String> {
    expect(tag(at)?, (field, 2))?;
    let len = varint(at)? as usize;
    take(at, len)
}

fn tag(at: &mut &[u8]) -> Result<(u32, u32), String> {
    let tag = varint(at)? as u32;
    Ok((tag >> 3, tag & 7))
}

fn varint(at: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(at, 1)?[0];
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a varint does not end".into())
}
